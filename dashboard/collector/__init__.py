"""Collects once for each cluster what all viewers see, and encodes it once."""
