"""Alerts: rules over the state of a cluster, whose findings are shown and sent to a webhook."""
