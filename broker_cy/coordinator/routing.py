"""The partition of `__consumer_offsets` that a group belongs to."""

from functools import lru_cache

OFFSETS_TOPIC = "__consumer_offsets"
# Every request of a group needs its partition, which is cached for this many groups with ids of at most this many
# characters, in about 2 MB.
CACHED_GROUPS = 4096
CACHED_CHARACTERS_MAX = 255


def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java: a signed 32-bit number over the UTF-16 units of `text`."""
    value = 0
    if text.isascii():
        for byte in text.encode("ascii"):
            value = (31 * value + byte) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(units), 2):
            value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition that keeps the group, as every Kafka broker computes it."""
    if len(group_id) <= CACHED_CHARACTERS_MAX:
        return _kept_hash(group_id) % partition_count
    return _positive_hash(group_id) % partition_count


def _positive_hash(text: str) -> int:
    """Kafka's `Utils.abs` makes 0 of the one number that has no positive counterpart."""
    value = java_string_hash(text)
    return 0 if value == -(1 << 31) else abs(value)


_kept_hash = lru_cache(CACHED_GROUPS)(_positive_hash)
