"""Sockets and TLS of this node, its requests to other brokers, and the seams to the machine (`seams`)."""
