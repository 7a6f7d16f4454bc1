"""Benchmarks of the broker and, for comparison, of Apache Kafka."""
