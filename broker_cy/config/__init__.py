"""Settings under Kafka's names: definitions, defaults, validation, server.properties."""
