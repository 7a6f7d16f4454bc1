"""Collects the data that all viewers see, once for each cluster, and encodes it once."""
