from broker_cy.storage.index import OffsetIndex, TimeIndex

class OpenFiles:
    limit: int
    def __init__(self, limit: int = 512) -> None: ...
    def __len__(self) -> int: ...

class Segment:
    directory: str
    base_offset: int
    size: int
    offsets: OffsetIndex
    times: TimeIndex
    unverified_bytes: int
    unverified: list[tuple[int, int]]
    deleted: bool
    def __init__(
        self,
        directory: str,
        base_offset: int,
        open_files: OpenFiles,
        size: int = 0,
        exists: bool = True,
        created_ms: int = 0,
        index_interval_bytes: int = 4096,
    ) -> None: ...
    @property
    def path(self) -> str: ...
    def create(self, now_ms: int) -> None: ...
    def discard(self) -> None: ...
    def mark_verified(self, start: int = 0, end: int = ...) -> None: ...
    def close(self) -> None: ...
    def complete(self) -> None: ...
    def indexes_fit(self) -> bool: ...
