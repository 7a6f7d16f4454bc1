"""Benchmarks of the broker, and of Apache Kafka beside it."""
