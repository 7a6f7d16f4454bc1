"""The broker's reports about single events: log lines, and the topic `__cluster_events`."""
