"""Hands events to a supervisor, one after the other, and its actions to their owner; wakes it at its deadlines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

E = TypeVar("E")
A = TypeVar("A")
E_contra = TypeVar("E_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class Supervising(Protocol[E_contra, A_co]):
    """The part of a supervisor that is read here."""

    def take(self, event: E_contra, now_ms: int) -> Sequence[A_co]: ...
    def next_ms(self) -> int | None: ...


class EventQueue(Generic[E, A]):
    """Actions cause events, which are taken after all actions of their cause. `deadline` is the event of a deadline.
    The events that wait are bounded by the children: each has a few at a time.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        supervisor: Supervising[E, A],
        do: Callable[[Sequence[A]], None],
        deadline: E,
    ) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._do = do
        self._deadline = deadline
        self._events: deque[E] = deque()
        self._is_settling = False
        self._timer: asyncio.TimerHandle | None = None

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def begin(self, actions: Sequence[A]) -> None:
        """Carry out the first actions."""
        self._settle(actions)

    def take(self, *events: E) -> None:
        self._events += events
        if not self._is_settling:
            self._settle(())

    def _settle(self, actions: Sequence[A]) -> None:
        self._is_settling = True
        try:
            self._do(actions)
            while self._events:
                self._do(self._supervisor.take(self._events.popleft(), self.now_ms()))
        finally:
            self._is_settling = False
        self.close()
        due_ms = self._supervisor.next_ms()
        if due_ms is not None:
            self._timer = self._loop.call_later(max(0, due_ms - self.now_ms()) / 1000, self.take, self._deadline)

    def close(self) -> None:
        """Wait for no deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
