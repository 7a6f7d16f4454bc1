"""The rows of a key-value store that keeps a bounded number of them (Kafka's Stores.lruMap)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Changed
from broker_streams.kernel.stores.key_value import LoggedKeyValue


class LruRows:
    """At most `max_rows` rows in memory: the one that was used longest ago goes. Iterations do not count."""

    def __init__(self, max_rows: int) -> None:
        """Raises ValueError: there would be no row."""
        if max_rows < 1:
            raise ValueError(f"max_rows is {max_rows}; at least 1 is allowed")
        self._max_rows = max_rows
        self._rows: OrderedDict[bytes, bytes] = OrderedDict()
        self.get: Callable[[bytes], bytes | None] = self._got
        # The key of the row that the last `put` dropped.
        self.dropped: bytes | None = None

    def _got(self, key: bytes) -> bytes | None:
        value = self._rows.get(key)
        if value is not None:
            self._rows.move_to_end(key)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        self.dropped = None
        if value is None:
            self._rows.pop(key, None)
            return
        self._rows[key] = value
        self._rows.move_to_end(key)
        if len(self._rows) > self._max_rows:
            self.dropped = self._rows.popitem(last=False)[0]

    def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        # Deletions first: a row that is dropped for another one is deleted in the changelog, and none else may go.
        for key, value in sorted(rows.items(), key=lambda row: row[1] is not None):
            self.put(key, value)

    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = sorted(self._rows.items())
        if low is not None:
            rows = [each for each in rows if each[0] >= low]
        if high is not None:
            rows = list(takewhile(lambda each: each[0] < high or (with_high and each[0] == high), rows))
        return iter(rows[::-1] if reverse else rows)

    def __len__(self) -> int:
        return len(self._rows)

    def estimate(self) -> int:
        return len(self._rows)


class LoggedLru(LoggedKeyValue):
    """Writes the deletion of a row that was dropped, too: in front of the change that dropped it, as Kafka does."""

    __slots__ = ("_rows",)

    def __init__(self, name: str, rows: LruRows, task: TaskState, changed: Changed) -> None:
        super().__init__(name, rows, task, changed, timestamped=False)
        self._rows = rows

    def put(self, key: bytes, value: bytes | None) -> None:
        self._rows.put(key, value)
        if self._rows.dropped is not None:
            self._changed(self._name, self._rows.dropped, None, self._task.timestamp, ())
        self._changed(self._name, key, value, self._task.timestamp, ())
