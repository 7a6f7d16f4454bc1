"""Logs on disk in Kafka's layout: segments, indexes, producer state, recovery."""
