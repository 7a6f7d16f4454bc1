"""Share groups (KIP-932): their members, and the life of the state of their share partitions."""
