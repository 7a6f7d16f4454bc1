"""Requests of this node to the active controller on another node."""
