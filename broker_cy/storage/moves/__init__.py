"""Moves of replicas between the data directories of a broker (KIP-113): Kafka's future replicas."""
