def by_segment(
    rows: dict[bytes, bytes | None], interval_ms: int, suffix_bytes: int
) -> tuple[dict[int, dict[bytes, bytes | None]], int, int]:
    """The rows of each segment by its number, the latest time, and the largest number at the end of a key.

    A key ends with `suffix_bytes`, which begin with its time in ms as a big-endian int64; the last four are its number,
    as a big-endian int32. As in Java, time -1 belongs to segment 0. Raises ValueError: a key is shorter. There must be
    rows.
    """
