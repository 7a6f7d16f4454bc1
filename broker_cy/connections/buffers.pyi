class BufferPool:
    """Blocks for received bytes. Both counts are in bytes."""

    pooled_bytes: int
    lent_bytes: int
