"""The APIs that only listeners of the controller serve: nodes of the cluster use them among each other."""
