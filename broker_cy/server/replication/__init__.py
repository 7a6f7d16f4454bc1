"""Replication between brokers: what followers fetch from leaders, and in-sync sets that leaders propose."""
