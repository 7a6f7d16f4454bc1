class ScanResult:
    position: int
    next_offset: int
    batches: int
    problem: str | None
