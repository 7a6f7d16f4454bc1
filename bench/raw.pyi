from collections.abc import Sequence

from bench.histogram import Histogram
from bench.protocol import Template

class LoadError(Exception): ...

def crc32c(data: bytes | bytearray | memoryview) -> int: ...

class Driver:
    responses: int
    errors: int
    bytes: int
    records: int
    latency: Histogram
    lateness: Histogram
    seconds: float
    cpu_seconds: float
    def __init__(
        self,
        address: tuple[str, int],
        connections: Sequence[Sequence[Template]],
        *,
        fetching: bool = False,
        wrap_at: dict[int, int] | None = None,
    ) -> None: ...
    def close(self) -> None: ...
    def next_offsets(self, partitions: int) -> dict[int, int]: ...
    def run_closed(self, *, depth: int, requests: int, seconds: float, check_crc: bool = False) -> None: ...
    def run_open(self, *, rate: float, seconds: float) -> None: ...
