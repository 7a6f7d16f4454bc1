"""Consumer groups (KIP-848): the coordinator assigns the partitions, and members follow by heartbeats."""
