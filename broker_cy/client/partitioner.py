"""The partition that Kafka's clients choose for a key: the Java client's default partitioner, which KIP-480 left so."""

from __future__ import annotations

from broker_cy.core.murmur2 import murmur2


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner chooses for `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
