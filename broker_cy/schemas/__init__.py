"""The message specs of Kafka 4.3 as data: the one source of truth for the codec."""
