from typing import Any

from bench.measuring.histogram import Histogram

STAMP_BYTES: int

class Deliveries:
    acked: int
    acked_bytes: int
    errors: int
    first_error: str | None
    latency: Histogram
    def __init__(self, key_bytes: int) -> None: ...
    def take_latency(self) -> Histogram: ...

class Delivery:
    def __init__(self, owner: Deliveries, due_ns: int) -> None: ...
    def __call__(self, error: Any, message: Any) -> None: ...

class Arrivals:
    records: int
    bytes: int
    errors: int
    first_error: str | None
    end_to_end: Histogram
    def __init__(self, stamps: bool, key_bytes: int) -> None: ...
    def take(self, messages: list[Any]) -> list[int]: ...
    def fail(self, text: str) -> None: ...

def mark(messages: list[dict[str, Any]], due_ns: list[int], owner: Deliveries, stamp: bool) -> None: ...
def stamp_all(messages: list[dict[str, Any]], due_ns: int) -> None: ...
