"""The resources of the REST API."""
