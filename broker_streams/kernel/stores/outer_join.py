"""The unmatched records of a left or outer stream-stream join, until their window closes.

A row is a list of values under keys.join_side_key: several records of one key, time and side wait together. A value is
1 for the left side or 0 for the right one as int8, then the serialized value. Their list, in the store and in the
changelog, is Kafka's of variable sizes: 1 int8, the count int32, then each value with its size as int32 before it
(ListValueStore, ListSerializer).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Bound, Changed
from broker_streams.kernel.stores.keys import join_side_key, join_side_parts
from broker_streams.kernel.stores.maps import MEMORY, Maps
from broker_streams.kernel.stores.segments import Rows
from broker_streams.records import NO_HEADERS, Headers

_HEAD: Final = struct.Struct(">bi")
_SIZE: Final = struct.Struct(">i")
VARIABLE_SIZES: Final = 1


def appended(values: bytes | None, value: bytes) -> bytes:
    """The list with one more value; None: an empty list."""
    if values is None:
        return _HEAD.pack(VARIABLE_SIZES, 1) + _SIZE.pack(len(value)) + value
    count = _HEAD.unpack_from(values)[1]
    return _HEAD.pack(VARIABLE_SIZES, count + 1) + values[_HEAD.size :] + _SIZE.pack(len(value)) + value


def listed(values: bytes) -> Iterator[bytes]:
    """The values of a list."""
    at = _HEAD.size
    for _ in range(_HEAD.unpack_from(values)[1]):
        size = _SIZE.unpack_from(values, at)[0]
        at += _SIZE.size
        yield values[at : at + size]
        at += size


class Unmatched(NamedTuple):
    """A record that waits for one of the other side."""

    key: Any
    timestamp: int
    is_left: bool
    value: Any


class OuterJoinStore:
    """Records by time, side and key: the order of `all`, right before left. `left` and `right` bind the two serdes."""

    def __init__(
        self, left: Bound, right: Bound, task: TaskState, changed: Changed | None, maps: Maps = MEMORY
    ) -> None:
        self.name = left.store
        self._left = left
        self._right = right
        self._task = task
        self._changed = changed
        self._rows = maps.open("rows")

    def put(self, key: Any, timestamp: int, is_left: bool, value: Any) -> None:
        """Add a record. A value of None, or one that is serialized to None, removes all of this key, time and side."""
        data = join_side_key(self._left.key(key), timestamp, is_left)
        serialized = (self._left if is_left else self._right).value(value)
        if serialized is None:
            self._set(data, None)
        else:
            self._set(data, appended(self._rows.get(data), (b"\x01" if is_left else b"\x00") + serialized))

    def remove(self, key: Any, timestamp: int, is_left: bool) -> None:
        """Remove all records of a key, time and side. The changelog has a tombstone even if none waited."""
        self._set(join_side_key(self._left.key(key), timestamp, is_left), None)

    def remove_if_present(self, key: Any, timestamp: int, is_left: bool) -> None:
        data = join_side_key(self._left.key(key), timestamp, is_left)
        if self._rows.get(data) is not None:
            self._set(data, None)

    def _set(self, data: bytes, values: bytes | None) -> None:
        self._rows.put(data, values)
        if self._changed is not None:
            self._changed(self.name, data, values, self._task.timestamp, NO_HEADERS)

    def all(self) -> Iterator[Unmatched]:
        """All records; those that are removed meanwhile are shown."""
        for data, values in self._rows.items():
            key_data, timestamp, is_left = join_side_parts(data)
            key = self._left.key_of(key_data)
            for value in listed(values):
                bound = self._left if value[0] == 1 else self._right
                yield Unmatched(key, timestamp, is_left, bound.value_of(value[1:]))

    def flush(self) -> None:
        """Nothing waits: the store has no cache."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog."""
        self._rows.put(key, value)

    restores_timestamps: Final = False

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        """Take rows of the changelog, the last one of each key."""
        self._rows.put_all(rows)

    def entries(self) -> Rows:
        return self._rows.items()
