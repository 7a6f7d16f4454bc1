"""Base of the state machines of both coordinators: their timers, and the effects of written records, and of records
that could not be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Self, TypeVar, TypeVarTuple

from broker_cy.coordinator.step import Awaited, Now, Step
from broker_cy.coordinator.timers import Timers
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage

K = TypeVar("K")
S = TypeVar("S", bound=Step)
Ts = TypeVarTuple("Ts")


class StateMachine(Generic[K, S]):
    """`next_offset` is the offset that the next record appended will have; `timers` are identified by a K.

    An operation is a function of this machine, an S (made by `new_step`), which it fills, and the parts of its request.
    """

    new_step: type[S]

    def __init__(self) -> None:
        self.next_offset = 0
        self.timers: Timers[K] = Timers()
        self.image = MetadataImage()
        """The committed metadata."""
        self.unknown_records = 0
        """Records that a newer Kafka may know; they stay in the log."""

    def run(self, operation: Callable[[Self, S, *Ts], None], *request: *Ts) -> S:
        """Run an operation on this state, and return its step."""
        step = self.new_step()
        operation(self, step, *request)
        return step

    def take_image(self, image: MetadataImage) -> None:
        """The committed metadata are `image` now; nothing follows from that yet, as the state is not loaded."""
        self.image = image

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> S:
        """The committed metadata are `image` now, with the changes `delta`: return the resulting step."""
        self.take_image(image)
        return self.new_step()

    def written(self, steps: Iterable[S], now: Now) -> S:
        """The records of these steps are written: return the resulting step."""
        out = self.new_step()
        for step in steps:
            for follow in step.follows:
                follow.written(self, out, now)
        return out

    def failed(self, steps: Sequence[S], code: ErrorCode, now: Now) -> S:
        """The records of these steps, which must be the newest, could not be written: undo them, and return the
        resulting step.
        """
        for step in reversed(steps):
            for before in reversed(step.before):
                before.restore(self)
            self.next_offset -= len(step.before)
        out = self.new_step()
        for step in steps:
            for follow in step.follows:
                follow.failed(self, out, now, code)
        return out

    def timed_out(self, steps: Iterable[S], now: Now) -> S:
        """The records of these steps are in the log, and were not committed in time: return the step for the requests
        that wait. The state stays; `written` or `failed` of these steps comes later.
        """
        out = self.new_step()
        for step in steps:
            step.is_late = True
            for follow in step.follows:
                if isinstance(follow, Awaited):
                    follow.timed_out(self, out, now)
            step.follows = [follow for follow in step.follows if not isinstance(follow, Awaited)]
        return out

    def next_wake_ms(self) -> int | None:
        """When `expire` is to be called at the latest, on the monotonic clock; None while nothing is awaited."""
        return self.timers.next_wake_ms()
