"""The commands of `broker-streams` beside `run` and `describe`."""
