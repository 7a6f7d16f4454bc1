"""Child processes, our broker and Apache Kafka as processes, for the tests and the benchmark toolkit."""
