"""Detection of ended processes: watched brokers, probes, and suspects."""
