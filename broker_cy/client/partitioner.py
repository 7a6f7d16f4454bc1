"""The partition that Kafka's clients choose for a key: the Java client's default partitioner, which KIP-480 left so."""

from __future__ import annotations

from struct import unpack_from

_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash by which Kafka's clients place keys (32 bits, as unsigned)."""
    length = len(data)
    value = 0x9747B28C ^ length
    for word in unpack_from(f"<{length >> 2}I", data):
        word = word * 0x5BD1E995 & _MASK
        value = (value * 0x5BD1E995 & _MASK) ^ ((word ^ word >> 24) * 0x5BD1E995 & _MASK)
    tail = data[length & ~3 :]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * 0x5BD1E995 & _MASK
    value = (value ^ value >> 13) * 0x5BD1E995 & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner chooses for `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
