def murmur2(data: bytes) -> int:
    """The hash by which Kafka's clients place keys (32 bits, as unsigned)."""
