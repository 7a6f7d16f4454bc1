"""Nodes of a cluster that fail while clients write: what each client sees of it."""
