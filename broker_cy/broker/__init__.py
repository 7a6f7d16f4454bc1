"""What a handler is given: the services of the broker, the context of a request, and the registry of handlers."""
