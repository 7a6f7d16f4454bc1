"""This node as a member of the cluster: registration, heartbeats, its directories, and checks that refuse a start."""
