def parse_produce(
    body: bytes, version: int, once: bool = False
) -> tuple[int, int, bool, list[tuple[bytes, list[tuple[int, bytes | None]]]]]:
    """The request as plain Python: (acks, timeout_ms, transactional, [(name or id, [(index, records or None)])]); with
    `once` each partition once, with its last records.
    """
