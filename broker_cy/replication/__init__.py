"""Replication between brokers: the fetches of followers, and the in-sync sets that leaders propose."""
