"""The deadlines of one state machine: a heap whose entries may be earlier than the deadline they stand for.

A heartbeat moves a deadline by writing its time; the heap is corrected when the old entry comes up. So a member costs
one heap operation per session timeout, not per heartbeat.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, Generic, TypeVar

from broker_cy.core.classes import NamedTuple


class TimerKind(IntEnum):
    """The kind of a deadline."""

    SESSION = 0
    """The session of a member, or of a member id that was handed out and has not joined yet."""
    JOIN = 1
    """The join phase of a group."""
    SYNC = 2
    """The wait for the SyncGroup requests of a group."""
    REBALANCE = 3
    """The time in which a member has to give up partitions, or tasks."""
    INITIAL_DELAY = 4
    """The wait of an empty streams group for more members, before its first assignment."""

    # Keys are hashed with each heartbeat, and the hash of an enumeration's member is computed in Python.
    __hash__ = int.__hash__


class TimerKey(NamedTuple):
    """`member_id` is "" for the timers of a group."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


class Deadline:
    """When a timer ends, in milliseconds of the monotonic clock; OVER once it has ended, or was cancelled.

    Its holder may move it to a later time. A key gets another one when its timer is set again after that.
    """

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


OVER: Final = -1

# Entries that are due within this time, of deadlines that are later by now, are put off with those that are due: of
# 10,000 members with heartbeats, one or another has such an entry each few milliseconds, and each one would be a turn
# of the loop. So many at a time at most.
AHEAD_MS: Final = 100
AHEAD_MAX: Final = 500

# Heap entries of cancelled timers are removed when they outnumber the live ones by this many.
STALE_ENTRIES_MAX = 1024


K = TypeVar("K")


class Timers(Generic[K]):
    """At most one deadline per key, in milliseconds of the monotonic clock."""

    __slots__ = ("_deadlines", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[K, Deadline] = {}
        # (when, sequence, key); invariant: each key of _deadlines has an entry not later than its deadline, at
        # _queued[key].
        self._heap: list[tuple[int, int, K]] = []
        self._queued: dict[K, int] = {}
        self._sequence = 0

    def set(self, key: K, deadline_ms: int) -> Deadline:
        """Set or move a deadline."""
        deadline = self._deadlines.get(key)
        if deadline is None:
            deadline = self._deadlines[key] = Deadline(deadline_ms)
        else:
            deadline.at_ms = deadline_ms
        queued = self._queued.get(key)
        if queued is None or queued > deadline_ms:
            self._push(key, deadline_ms)
        return deadline

    def cancel(self, key: K) -> None:
        """Cancel a deadline, if it is set."""
        deadline = self._deadlines.pop(key, None)
        if deadline is None:
            return
        deadline.at_ms = OVER
        if len(self._heap) > 2 * len(self._deadlines) + STALE_ENTRIES_MAX:
            self._rebuild()

    def get(self, key: K) -> int | None:
        deadline = self._deadlines.get(key)
        return None if deadline is None else deadline.at_ms

    def next_wake_ms(self) -> int | None:
        """When to call `due` next: at the earliest deadline or some time before it. None without a deadline."""
        return self._heap[0][0] if self._heap else None

    def due(self, mono_ms: int) -> Iterator[K]:
        """Take out, in order, each key whose deadline has come. Keys may be set and cancelled while this runs."""
        while self._heap and self._heap[0][0] <= mono_ms:
            when, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != when:
                continue
            del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline.at_ms > mono_ms:
                self._push(key, deadline.at_ms)
                continue
            del self._deadlines[key]
            deadline.at_ms = OVER
            yield key
        self._put_off(mono_ms + AHEAD_MS)

    def _put_off(self, until_ms: int) -> None:
        """Queue deadlines again whose entries are not after `until_ms`, up to one that comes by then."""
        for _ in range(AHEAD_MAX):
            if not self._heap or self._heap[0][0] > until_ms:
                return
            when, _, key = self._heap[0]
            is_queued = self._queued.get(key) == when
            deadline = self._deadlines.get(key) if is_queued else None
            if deadline is not None and deadline.at_ms <= until_ms:
                return
            heapq.heappop(self._heap)
            if is_queued:
                del self._queued[key]
            if deadline is not None:
                self._push(key, deadline.at_ms)

    def __len__(self) -> int:
        return len(self._deadlines)

    def _push(self, key: K, when: int) -> None:
        self._sequence += 1
        self._queued[key] = when
        heapq.heappush(self._heap, (when, self._sequence, key))

    def _rebuild(self) -> None:
        self._queued = {key: deadline.at_ms for key, deadline in self._deadlines.items()}
        self._heap = [(when, i, key) for i, (key, when) in enumerate(self._queued.items())]
        self._sequence = len(self._heap)
        heapq.heapify(self._heap)
