"""Base of the state machines of both coordinators: their timers, and what follows when records were written, or could
not be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from broker_cy.coordinator.step import Now, Step
from broker_cy.coordinator.timers import Timers
from broker_cy.core.errors import ErrorCode

K = TypeVar("K")


class StateMachine(Generic[K]):
    """`next_offset` is the offset that the next record appended will have; `timers` are identified by a K."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.timers: Timers[K] = Timers()
        self.unknown_records = 0
        """Records that a newer Kafka may know; they stay in the log."""

    def written(self, steps: Iterable[Step], now: Now) -> Step:
        """The records of these steps are written: return what follows."""
        out = Step()
        for step in steps:
            for follow in step._written:
                follow(out, now)
            step.settle()
        return out

    def failed(self, steps: Sequence[Step], code: ErrorCode, now: Now) -> Step:
        """The records of these steps, which must be the newest, could not be written: undo them, and return what
        follows.
        """
        for step in reversed(steps):
            for undo in reversed(step._undo):
                undo()
            self.next_offset -= len(step.records)
        out = Step()
        for step in steps:
            for follow in step._failed:
                follow(out, now, code)
            step.settle()
        return out

    def next_wake_ms(self) -> int | None:
        """When `expire` is to be called at the latest, on the monotonic clock; None while nothing is awaited."""
        return self.timers.next_wake_ms()
