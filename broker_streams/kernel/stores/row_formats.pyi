from typing import Any

from broker_streams.kernel.forward import Moment
from broker_streams.serdes import Serde

class RowFormat:
    def __init__(self, topic: str, serde: Serde, task: Moment) -> None: ...

class KeyWriter(RowFormat):
    """Raises ValueError: the key is None, or is no bytes in its serde."""

    def __init__(self, store: str, topic: str, serde: Serde, task: Moment) -> None: ...
    def __call__(self, key: Any) -> bytes: ...

class Reader(RowFormat):
    def __call__(self, data: bytes | None) -> Any: ...

class Writer(RowFormat):
    def __call__(self, value: Any) -> bytes | None: ...

class TimestampedReader(RowFormat):
    """Values as ValueAndTimestamp: the timestamp as int64, then the value (KIP-258)."""

    def __call__(self, data: bytes | None) -> Any: ...

class TimestampedWriter(RowFormat):
    def __call__(self, value: Any) -> bytes | None: ...
