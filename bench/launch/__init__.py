"""Our broker, Apache Kafka, networks and browsers as processes, for the tests and the benchmark toolkit."""
