"""A Kafka-wire-compatible event broker whose data path is Cython."""

__version__ = "0.1.0"
