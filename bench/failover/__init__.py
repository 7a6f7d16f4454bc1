"""Failures of cluster nodes while clients write, and their effect on each client."""
