"""Listeners, connections, and the answers on their way out: everything that touches a client's socket."""
