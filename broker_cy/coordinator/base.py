"""Base of the state machines of all coordinators: their timers, the effects of written records, and of records that
could not be written, and the pace of deletions that no request waits for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Self, TypeVar, TypeVarTuple

from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.coordinator.timers import Timers
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Awaited, Before, Now
from broker_cy.metadata.image import ImageDelta, MetadataImage

K = TypeVar("K")
S = TypeVar("S", bound=CoordinatorStep)
Ts = TypeVarTuple("Ts")


class Deletions(NamedTuple):
    """The step has deletions; `taken` are the entries that the machine gave up for them."""

    taken: tuple[Any, ...] = ()

    def written(self, machine: Any, out: CoordinatorStep, now: Now) -> None:
        machine.deletions_due_ms = 0

    def failed(self, machine: Any, out: CoordinatorStep, now: Now, code: ErrorCode) -> None:
        machine.deletions_failed(self.taken, now)


class StateMachine(ABC, Generic[K, S]):
    """A coordinator's state machine, without socket, file or clock: see `group_machine`, `txn.transaction_machine`
    and `share_state.share_state_machine`. `next_offset` is the offset that the next record appended will have; `timers`
    are identified by a K.

    An operation is a function of this machine, an S (made by `new_step`), which it fills, and the parts of its request.

    Deletions that no request waits for (the retention of unused groups, the expiration of transactional ids) are made
    in steps of bounded size, and one such step is written at a time. Nothing else would bound their number while the
    followers hang.
    """

    new_step: type[S]

    def __init__(self) -> None:
        self.next_offset = 0
        self.timers: Timers[K] = Timers()
        self.image = MetadataImage()
        """The committed metadata."""
        self.unknown_records = 0
        """Records that a newer Kafka may know; they stay in the log."""
        self.undoings = 0
        """How often records were undone: a result of the background may stand on them."""
        self.unswept: deque[str] = deque()
        """Ids that the current search for expired ones has not looked at. Bounded by the number of ids."""
        self.deletions_due_ms: int | None = 0
        """When the next step of deletions may be made (monotonic); None while one is being written."""

    def run(self, operation: Callable[[Self, S, *Ts], None], *request: *Ts) -> S:
        """Run an operation on this state, and return its step."""
        step = self.new_step()
        operation(self, step, *request)
        return step

    # ---- records ----

    @abstractmethod
    def apply(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
        """Change the state by a record read from the log, and return the state before it. `producer_id` is that of its
        batch if the batch is transactional, else -1. Raises WireError if the record is malformed.
        """

    @abstractmethod
    def apply_marker(self, offset: int, producer_id: int, committed: bool) -> Before:
        """The same for the marker that ends a transaction."""

    @abstractmethod
    def loaded(self, now: Now) -> S:
        """All records of the log are applied: return the resulting step."""

    @abstractmethod
    def unload(self) -> S:
        """This broker no longer coordinates the partition: return the step that answers all waiting requests."""

    # ---- changes from outside ----

    def take_image(self, image: MetadataImage) -> None:
        """The committed metadata are `image` now; nothing follows from that yet, as the state is not loaded."""
        self.image = image

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> S:
        """The committed metadata are `image` now, with the changes `delta`: return the resulting step."""
        self.take_image(image)
        return self.new_step()

    def abandon(self, step: S) -> None:
        """Undo the records of an operation that fails half-way; its step must be the newest one. Its work in the
        background stays: the state may wait for the result.
        """
        if step.before:
            self.undoings += 1
        for before in reversed(step.before):
            before.restore(self)
        self.next_offset -= len(step.before)
        step.records.clear()
        step.before.clear()
        step.follows.clear()

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
        self.undoings += 1
        for step in reversed(steps):
            for before in reversed(step.before):
                before.restore(self)
            self.next_offset -= len(step.before)
        out = self.new_step()
        self.undone(out, code)
        for step in steps:
            for follow in step.follows:
                follow.failed(self, out, now, code)
        return out

    def undone(self, out: S, code: ErrorCode) -> None:
        """The newest records were undone, before any request is answered."""

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

    # ---- time ----

    @abstractmethod
    def expire(self, now: Now) -> S:
        """Apply deadlines that have passed, and make more of the deletions: return the resulting step. `next_wake_ms`
        has passed too if there are more.
        """

    def next_wake_ms(self) -> int | None:
        """When `expire` is to be called at the latest, on the monotonic clock; None while nothing is awaited."""
        timer_ms = self.timers.next_wake_ms()
        if self.deletions_due_ms is None or not self.has_deletions():
            return timer_ms
        return self.deletions_due_ms if timer_ms is None else min(timer_ms, self.deletions_due_ms)

    # ---- deletions ----

    def has_deletions(self) -> bool:
        """Whether deletions may be left to make."""
        return bool(self.unswept)

    def may_delete(self, now: Now) -> bool:
        """Whether a step of deletions may be made now."""
        return self.deletions_due_ms is not None and self.deletions_due_ms <= now.mono_ms

    def deletes(self, step: S, taken: Sequence[Any] = ()) -> None:
        """The step has deletions: the next ones wait until it is written."""
        self.deletions_due_ms = None
        step.then(Deletions(tuple(taken)))

    @abstractmethod
    def deletions_failed(self, taken: Sequence[Any], now: Now) -> None:
        """A step of deletions could not be written. The cause, a full disk or a small in-sync set, often lasts."""
