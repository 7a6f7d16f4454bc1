"""Rows in segments of time: a segment is forgotten as a whole when its time is over.

The times of segments decide which late rows are kept, so they are those of Kafka's persistent stores, whatever holds
the bytes (AbstractSegments).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from broker_streams.kernel.stores.keys import divide
from broker_streams.kernel.stores.ordered import OrderedMap

Rows = Iterator[tuple[bytes, bytes]]


def segment_interval(retention_ms: int) -> int:
    """Half of the retention, and at least a minute (Stores.persistentWindowStore)."""
    return max(retention_ms // 2, 60_000)


class TimedMap(OrderedMap):
    """A map with a second order of its keys: `time_key` gives the key that stands for a key in that order."""

    __slots__ = ("_time_key", "times")

    def __init__(self, time_key: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._time_key = time_key
        # Keys by their keys in the second order.
        self.times = OrderedMap()

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.times.put(self._time_key(key), None if value is None else key)

    def items_by_time(self, low: bytes | None, high: bytes | None, reverse: bool) -> Rows:
        """Rows in the second order, from `low` to before `high` of it."""
        values = self._values
        return ((key, values[key]) for _, key in self.times.items(low, high, False, reverse))


class Segments:
    """The live segments. `open_map` makes the map of a new one."""

    __slots__ = ("_first", "_ids", "_interval_ms", "_maps", "_next_ms", "_open_map", "_retention_ms")

    def __init__(self, retention_ms: int, interval_ms: int, open_map: Callable[[], OrderedMap] = OrderedMap) -> None:
        self._retention_ms = retention_ms
        self._interval_ms = interval_ms
        self._open_map = open_map
        self._ids: list[int] = []
        self._maps: dict[int, OrderedMap] = {}
        # The first live segment, and the stream time at which it is over. No segment lies before time 0.
        self._first = 0
        self._next_ms = interval_ms + retention_ms

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
                del self._maps[segment]
            del ids[:over]

    def live(self, segment: int, stream_time_ms: int) -> OrderedMap | None:
        """The map of a segment, for a put; None: the segment is over."""
        if stream_time_ms >= self._next_ms:
            self.expire(stream_time_ms)
        if segment < self._first:
            return None
        rows = self._maps.get(segment)
        if rows is None:
            rows = self._maps[segment] = self._open_map()
            insort(self._ids, segment)
        return rows

    def of_time(self, time_ms: int) -> OrderedMap | None:
        """The map that a row of this time is in, if the segment exists."""
        return self._maps.get(divide(time_ms, self._interval_ms))

    def between(self, from_ms: int, to_ms: int, reverse: bool = False) -> list[OrderedMap]:
        """The maps of segments of these times in their order."""
        return [self._maps[segment] for segment in self.ids_between(from_ms, to_ms, reverse)]

    def ids_between(self, from_ms: int, to_ms: int, reverse: bool = False) -> list[int]:
        first, last = self.id_of(from_ms), self.id_of(to_ms)
        ids = [segment for segment in self._ids if first <= segment <= last]
        if reverse:
            ids.reverse()
        return ids

    def of_id(self, segment: int) -> OrderedMap:
        return self._maps[segment]

    def all(self) -> list[OrderedMap]:
        return [self._maps[segment] for segment in self._ids]
