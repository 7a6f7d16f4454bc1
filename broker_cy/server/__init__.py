"""Listeners, connections, request dispatch and the services behind the handlers."""
