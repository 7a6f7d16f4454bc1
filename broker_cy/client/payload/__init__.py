"""The keys and values of records."""
