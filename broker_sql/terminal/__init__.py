"""The editor `broker-sql`, and its results: tables, JSON, rows while they come."""
