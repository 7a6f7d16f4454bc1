"""Hands the operations of an open loop to users at their due times.

A user is a greenlet that calls `take`. If it is idle when an operation becomes due, the timer wakes it; an operation
that becomes due while every user is busy goes to the first one that is free again, and keeps its due time, from which
its latency counts. So a cluster that stalls is charged for all operations that waited for it.

Lateness is recorded only for operations that an idle user waited for: how much later than due it was woken. That is the
generator's own delay. Operations that waited for a user are counted in `queued`.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress

import gevent
from greenlet import getcurrent, greenlet

from bench.histogram import Histogram
from loadgen.pace.schedule import Schedule
from loadgen.pace.timer import NS, Timer

# Users woken at one ring of the timer, before the hub reads sockets again.
WOKEN_AT_ONCE = 64


class Pacer:
    """The operations of one kind of users in one process, from `begin` until `end`."""

    def __init__(self, schedule: Schedule | None) -> None:
        """Without a schedule every `take` returns at once: a closed loop."""
        self._schedule = schedule
        self._number = 0
        self._begun_ns = 0
        self._due_ns = 0
        self._ended_ns: int | None = None
        self._idle: deque[greenlet] = deque()
        self._timer: Timer | None = None
        self._is_set = False
        self._hub = gevent.get_hub()
        self.lateness = Histogram()
        self.queued = 0
        self.taken = 0
        self.is_ended = False

    def begin(self, start_ns: int, end_ns: int | None = None) -> None:
        """Let operations be due from `start_ns` on, and none that is due at `end_ns` or later."""
        self._begun_ns, self._ended_ns = start_ns, end_ns
        if self._schedule is not None:
            self._timer = Timer(self._ring)
            self._due_ns = self._due_of(0)
            if self._idle:
                self._set()

    def _due_of(self, number: int) -> int:
        assert self._schedule is not None
        due_s = self._schedule.due_s(number)
        # An operation that is never due: in 30 years.
        return self._begun_ns + int(min(due_s, 1e9) * NS)

    def take(self) -> int | None:
        """Wait for the next operation; returns the time at which it was due, or None when there are no more."""
        if self.is_ended:
            return None
        now_ns = time.monotonic_ns()
        if self._schedule is None:
            if self._ended_ns is not None and now_ns >= self._ended_ns:
                return None
            self.taken += 1
            return now_ns
        if self._timer is not None and self._due_ns <= now_ns and not self._idle:
            return self._next(queued=True)
        me = getcurrent()
        self._idle.append(me)
        if not self._is_set:
            self._set()
        try:
            due_ns: int | None = self._hub.switch()
        except BaseException:
            # A user that was killed must not be handed an operation.
            with suppress(ValueError):
                self._idle.remove(me)
            raise
        return due_ns

    def _next(self, *, queued: bool) -> int | None:
        due_ns = self._due_ns
        if self._ended_ns is not None and due_ns >= self._ended_ns:
            self.end()
            return None
        self._number += 1
        self.taken += 1
        self.queued += queued
        self._due_ns = self._due_of(self._number)
        return due_ns

    def _ring(self) -> None:
        """Wake an idle user for each operation that is due. Without idle users, `take` finds what is due."""
        self._is_set = False
        for _ in range(WOKEN_AT_ONCE):
            if not self._idle:
                return
            now_ns = time.monotonic_ns()
            if self._due_ns > now_ns:
                break
            due_ns = self._next(queued=False)
            if due_ns is None:
                return
            self.lateness.add(now_ns - due_ns)
            self._idle.popleft().switch(due_ns)
        if self._idle and not self._is_set:
            self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._is_set = True
            self._timer.set(self._due_ns)

    def end(self) -> None:
        """Hand out no more operations; waiting users get None."""
        if self.is_ended:
            return
        self.is_ended = True
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        while self._idle:
            self._hub.loop.run_callback(self._idle.popleft().switch, None)
