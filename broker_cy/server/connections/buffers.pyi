class BufferPool:
    """Blocks for what is received. Both counts are in bytes."""

    pooled_bytes: int
    lent_bytes: int
