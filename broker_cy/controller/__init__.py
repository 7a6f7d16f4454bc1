"""The cluster state machine over the metadata log."""
