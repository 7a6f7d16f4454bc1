"""Listeners, connections, and the answers on their way out: everything between a socket and a handler."""
