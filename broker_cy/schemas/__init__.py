"""The message specifications of Kafka 4.3 as data: the single source of truth for the codec."""
