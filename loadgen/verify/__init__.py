"""Checks whether the cluster kept the records that it acknowledged."""
