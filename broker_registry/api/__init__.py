"""The REST API of Confluent's registry 8: one file for each resource. `app` is the ASGI application."""
