from collections.abc import Callable, Iterator

from broker_streams.kernel.forward import Moment
from broker_streams.records import Headers, RecordMetadata

class Entry:
    """A row and the record that wrote it. A row that was read has no such record; its timestamp is -1."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def metadata(self) -> RecordMetadata | None:
        """The place of the input record; None: it was written outside of one, or read."""

class Cache:
    """The rows that all stores of a task keep back: at most `max_bytes` by Kafka's estimate."""

    max_bytes: int
    size_bytes: int
    def __init__(self, max_bytes: int) -> None: ...

class StoreCache:
    """The rows of one store. `flush_entry` writes a changed row to the store below and passes the change on."""

    def __init__(self, cache: Cache, task: Moment, flush_entry: Callable[[bytes, Entry], None]) -> None: ...
    def get(self, key: bytes) -> Entry | None:
        """The row, which counts as used; None: there is none."""
    def put(self, key: bytes, value: bytes | None) -> None:
        """Keep a change of the record that is processed now. None: the row was deleted."""
    def put_read(self, key: bytes, value: bytes) -> None:
        """Keep a row that was read from the store below."""
    def flush(self) -> None:
        """Write all changed rows."""
    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Rows from `low` to `high`; None as a value: the row was deleted. A row that is evicted meanwhile is left out.

        Each row counts as used, as it does for Kafka.
        """
    def first_from(self, low: bytes) -> bytes | None: ...
    def last_below(self, high: bytes) -> bytes | None: ...
    def clear(self) -> None:
        """Forget all rows, changed ones too."""
    def __len__(self) -> int: ...
