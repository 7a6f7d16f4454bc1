from collections.abc import Callable, Iterator
from typing import Any

from broker_streams.kernel.forward import Moment
from broker_streams.kernel.stores.cache import Cache, Entry
from broker_streams.kernel.stores.row_formats import Reader
from broker_streams.records import Record

class KeyRows:
    """Keeps changes back. `_cache` is what Python calls: a wrapper may count its calls."""

    _cache: Any
    _below: Any
    # Gets key, new value, old value, and the record of the change as Entry.
    listener: Any
    send_old_values: bool
    def __init__(self, below: Any, cache: Cache, task: Moment) -> None: ...
    def get(self, key: bytes, /) -> bytes | None: ...
    def peek(self, key: bytes) -> bytes | None:
        """As `get`, for a reader outside of the task: nothing enters the cache, so no row leaves it."""
    def put(self, key: bytes, value: bytes | None, /) -> None: ...
    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...
    def flush_entry(self, key: bytes, entry: Entry) -> None:
        """Write a changed row to the store below, and tell the listener."""
    def flush(self) -> None: ...
    def __len__(self) -> int: ...

class KeyListener:
    """Makes a Record of Change of a row that leaves the cache.

    With `timestamped`, values are ValueAndTimestamp: the change has plain values, and the record the timestamp of the
    new one.
    """

    def __init__(
        self,
        key_of: Reader,
        value_of: Callable[[bytes | None], Any],
        timestamped: bool,
        forward: Callable[[Record], None],
    ) -> None: ...
    def __call__(self, key: bytes, new: bytes | None, old: bytes | None, entry: Entry) -> None: ...
