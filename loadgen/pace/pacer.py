"""Hands the operations of an open loop to users at their due times.

A user is a greenlet that calls `take`. If it is idle when an operation becomes due, the timer wakes it; an operation
that becomes due while every user is busy goes to the first free user, and keeps its due time, from which its latency
counts. So the latency of a stalled cluster includes all operations that waited for it.

Lateness is recorded only for operations that an idle user waited for: the time between the due time and the wakeup.
This is the generator's own delay. Operations that waited for a user are counted in `queued`, and those that still
waited when the run ended in `unsent`.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress

import gevent
from greenlet import getcurrent, greenlet

from bench.measuring.histogram import Histogram
from loadgen.pace.schedule import WHOLE, Schedule
from loadgen.pace.timer import NS, Timer
from loadgen.scenario.profile import RateProfile
from loadgen.scenario.share import Share

# Users that are woken when the timer fires, before the hub reads sockets again.
WOKEN_AT_ONCE = 64


class Pacer:
    """The operations of one kind of users in one process, in rounds from `begin` to `end`.

    `profile` is that of all workers together; None is a closed loop, in which `take` returns immediately.
    """

    def __init__(self, share: Share = WHOLE) -> None:
        self._share = share
        self.profile: RateProfile | None = None
        self.start_ns = 0
        self.end_ns = 0
        self.is_ended = True
        self.is_cut = False
        self._schedule: Schedule | None = None
        self._number = 0
        self._due_ns = 0
        self._idle: deque[greenlet] = deque()
        self._timer: Timer | None = None
        self._is_set = False
        self._hub = gevent.get_hub()
        self.lateness = Histogram()
        self.queued = 0
        self.unsent = 0

    def begin(self, profile: RateProfile | None, start_ns: int, end_ns: int) -> None:
        """Hand out operations that are due from `start_ns` on and before `end_ns`."""
        self.profile, self.start_ns, self.end_ns = profile, start_ns, end_ns
        self._schedule = None if profile is None else Schedule(profile, self._share)
        self._number, self.is_ended, self.is_cut, self._is_set = 0, False, False, False
        self._due_ns = start_ns if self._schedule is None else self._due_of(0)
        if self._timer is None:
            self._timer = Timer(self._ring)
        if self._idle:
            self._set()

    def _due_of(self, number: int) -> int:
        assert self._schedule is not None
        # An operation that is never due: in 30 years.
        return self.start_ns + int(min(self._schedule.due_s(number), 1e9) * NS)

    def take(self) -> int | None:
        """Wait for the next operation; returns the time at which it was due, or None after the last one."""
        if self.is_ended:
            return None
        now_ns = time.monotonic_ns()
        if now_ns >= self._due_ns and not self._idle:
            return self._next(now_ns, queued=True)
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

    def _next(self, now_ns: int, *, queued: bool) -> int | None:
        if self._schedule is None:
            if now_ns < self.end_ns:
                return now_ns
            self.end()
            return None
        due_ns = self._due_ns
        if due_ns >= self.end_ns:
            self.end()
            return None
        self._number += 1
        self.queued += queued
        self._due_ns = self._due_of(self._number)
        return due_ns

    def _ring(self) -> None:
        """Wake an idle user for each operation that is due. Without idle users, `take` finds the operations that are
        due.
        """
        self._is_set = False
        for _ in range(WOKEN_AT_ONCE):
            if not self._idle:
                return
            now_ns = time.monotonic_ns()
            if min(self._due_ns, self.end_ns) > now_ns:
                break
            due_ns = self._next(now_ns, queued=False)
            if due_ns is None:
                return
            self.lateness.add(now_ns - due_ns)
            self._idle.popleft().switch(due_ns)
        if self._idle and not self._is_set:
            self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._is_set = True
            self._timer.set(min(self._due_ns, self.end_ns))

    def hand_over(self) -> None:
        """Note that an engine performs the round's operations by its own schedule: none counts as unsent here."""
        self._schedule = None
        self._due_ns = self.end_ns

    def cut(self, at_ns: int) -> None:
        """Let no operation be due from this time on; users still perform operations that were due before."""
        self.end_ns, self.is_cut = min(self.end_ns, at_ns), True
        if self._idle and not self.is_ended:
            self._set()

    def end(self) -> None:
        """Hand out no more operations; waiting users get None. Operations that were due and not handed out are
        `unsent`.
        """
        if self.is_ended:
            return
        self.is_ended = True
        if self._schedule is not None:
            due = self._schedule.due_before((min(self.end_ns, time.monotonic_ns()) - self.start_ns) / NS)
            self.unsent += max(0, due - self._number)
        while self._idle:
            self._hub.loop.run_callback(self._idle.popleft().switch, None)

    def close(self) -> None:
        """End, and release the timer."""
        self.end()
        if self._timer is not None:
            self._timer.close()
            self._timer = None
