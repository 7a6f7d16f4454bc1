"""Child processes, our broker and Apache Kafka as processes: what tests and the benchmark toolkit start them with."""
