from collections.abc import Callable
from typing import Any

from broker_streams.kernel.forward import Moment
from broker_streams.kernel.stores.cache import Cache, Entry
from broker_streams.kernel.stores.row_formats import Reader
from broker_streams.records import Record

class WindowRows:
    """The layouts of keys are those of keys.pyx. `_cache` is what Python calls: a wrapper may count its calls."""

    _cache: Any
    _below: Any
    latest_ms: int
    # Gets key and start of the window, new value, old value, and its Entry.
    listener: Any
    send_old_values: bool
    def __init__(self, below: Any, cache: Cache, task: Moment, interval_ms: int, by_time: bool) -> None: ...
    @property
    def interval_ms(self) -> int: ...
    @property
    def by_time(self) -> bool: ...
    def fetch(self, key: bytes, start_ms: int) -> bytes | None: ...
    def put(self, key: bytes, value: bytes | None, start_ms: int) -> None: ...
    def flush_entry(self, cache_key: bytes, entry: Entry) -> None:
        """Write a changed row to the store below, and tell the listener."""

class WindowListener:
    """Makes a Record of Change under a Windowed key of a row that leaves the cache.

    With `timestamped`, values are ValueAndTimestamp: the change has plain values, and the record the timestamp of the
    new one.
    """

    def __init__(
        self,
        key_of: Reader,
        value_of: Callable[[bytes | None], Any],
        window_ms: int,
        timestamped: bool,
        forward: Callable[[Record], None],
    ) -> None: ...
    def __call__(self, key: bytes, start_ms: int, new: bytes | None, old: bytes | None, entry: Entry) -> None: ...
