"""Base of the state machines of both coordinators: what follows when records were written, or could not be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker_cy.coordinator.step import Now, Step
from broker_cy.core.errors import ErrorCode


class StateMachine:
    """`next_offset` is the offset that the next record appended will have."""

    def __init__(self) -> None:
        self.next_offset = 0

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
