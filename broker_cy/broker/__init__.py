"""The arguments of handlers: the services of the broker, the context of a request, and the registry of handlers."""
