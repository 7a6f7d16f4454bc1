def parse_produce(body: bytes, version: int) -> tuple[int, int, bool, list[tuple[bytes, list[tuple[int, bytes | None]]]]]:
    """The request as plain Python: (acks, timeout_ms, transactional, [(name or id, [(index, records or None)])])."""
