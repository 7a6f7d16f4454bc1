"""Rows in segments of time: a segment is forgotten as a whole when its time is over.

The times of segments decide which late rows are kept, so they are those of Kafka's persistent stores, whatever holds
the bytes (AbstractSegments).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from broker_streams.kernel.stores.keys import divide
from broker_streams.kernel.stores.maps import MEMORY, Maps, RowMap

Rows = Iterator[tuple[bytes, bytes]]
# The end of the name of a segment's second order.
TIMES: Final = "-times"


def segment_interval(retention_ms: int) -> int:
    """Half of the retention, and at least a minute (Stores.persistentWindowStore)."""
    return max(retention_ms // 2, 60_000)


class TimedMap:
    """A map with a second order of its keys: `time_key` gives the key that stands for a key in that order."""

    __slots__ = ("_rows", "_time_key", "_times", "get", "items")

    def __init__(self, time_key: Callable[[bytes], bytes], rows: RowMap, times: RowMap) -> None:
        self._time_key = time_key
        self._rows = rows
        # Keys by their keys in the second order.
        self._times = times
        self.get = rows.get
        self.items = rows.items

    def put(self, key: bytes, value: bytes | None, /) -> None:
        self._rows.put(key, value)
        self._times.put(self._time_key(key), None if value is None else key)

    def put_all(self, rows: Mapping[bytes, bytes | None], /) -> None:
        time_key = self._time_key
        self._rows.put_all(rows)
        self._times.put_all({time_key(key): None if value is None else key for key, value in rows.items()})

    def items_by_time(self, low: bytes | None, high: bytes | None, reverse: bool) -> Rows:
        """Rows in the second order, from `low` to before `high` of it; rows that are removed meanwhile are left out."""
        get = self.get
        for _, key in self._times.items(low, high, False, reverse):
            value = get(key)
            if value is not None:
                yield key, value

    def __len__(self) -> int:
        return len(self._rows)

    def estimate(self) -> int:
        return self._rows.estimate()


class Segments:
    """The live segments. `time_key`: they have the second order of TimedMap."""

    __slots__ = ("_all_maps", "_first", "_ids", "_interval_ms", "_maps", "_next_ms", "_retention_ms", "_time_key")

    def __init__(
        self,
        retention_ms: int,
        interval_ms: int,
        maps: Maps = MEMORY,
        time_key: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._retention_ms = retention_ms
        self._interval_ms = interval_ms
        self._all_maps = maps
        self._time_key = time_key
        self._ids: list[int] = sorted(int(name) for name in maps.names() if name.isdecimal())
        self._maps: dict[int, RowMap] = {segment: self._open(segment) for segment in self._ids}
        # The first live segment, and the stream time at which it is over. No segment lies before time 0.
        self._first = 0
        self._next_ms = interval_ms + retention_ms

    def _open(self, segment: int) -> RowMap:
        rows = self._all_maps.open(str(segment))
        if self._time_key is None:
            return rows
        return TimedMap(self._time_key, rows, self._all_maps.open(f"{segment}{TIMES}"))

    def _drop(self, segment: int) -> None:
        del self._maps[segment]
        self._all_maps.drop(str(segment))
        if self._time_key is not None:
            self._all_maps.drop(f"{segment}{TIMES}")

    def id_of(self, time_ms: int) -> int:
        return divide(time_ms, self._interval_ms)

    def expire(self, stream_time_ms: int) -> None:
        """Forget segments that are over. Stream time never falls."""
        if stream_time_ms < self._next_ms:
            return
        first = self._first = divide(stream_time_ms - self._retention_ms, self._interval_ms)
        self._next_ms = max(first + 1, 1) * self._interval_ms + self._retention_ms
        ids = self._ids
        if ids and ids[0] < first:
            over = bisect_left(ids, first)
            for segment in ids[:over]:
                self._drop(segment)
            del ids[:over]

    def live(self, segment: int, stream_time_ms: int) -> RowMap | None:
        """The map of a segment, for a put; None: the segment is over."""
        if stream_time_ms >= self._next_ms:
            self.expire(stream_time_ms)
        if segment < self._first:
            return None
        rows = self._maps.get(segment)
        if rows is None:
            rows = self._maps[segment] = self._open(segment)
            insort(self._ids, segment)
        return rows

    def put_all(self, rows: Mapping[int, Mapping[bytes, bytes | None]], stream_time_ms: int) -> None:
        """Put rows by segment; those of segments that are over are left out."""
        for segment, theirs in rows.items():
            live = self.live(segment, stream_time_ms)
            if live is not None:
                live.put_all(theirs)

    def of_time(self, time_ms: int) -> RowMap | None:
        """The map that a row of this time is in, if the segment exists."""
        return self._maps.get(divide(time_ms, self._interval_ms))

    def between(self, from_ms: int, to_ms: int, reverse: bool = False) -> list[RowMap]:
        """The maps of segments of these times in their order."""
        return [self._maps[segment] for segment in self.ids_between(from_ms, to_ms, reverse)]

    def ids_between(self, from_ms: int, to_ms: int, reverse: bool = False) -> list[int]:
        if not self._ids:
            return []
        first, last = self.id_of(from_ms), self.id_of(to_ms)
        ids = [segment for segment in self._ids if first <= segment <= last]
        if reverse:
            ids.reverse()
        return ids

    def of_id(self, segment: int) -> RowMap:
        return self._maps[segment]

    def all(self) -> list[RowMap]:
        return [self._maps[segment] for segment in self._ids]
