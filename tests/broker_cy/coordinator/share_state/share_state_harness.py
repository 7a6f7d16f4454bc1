"""A `ShareStateMachine` with a manual clock, a log in memory, and requests in short form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from broker_cy.coordinator.share_state import operations, upkeep
from broker_cy.coordinator.share_state.answers import Outcome, StateRead, SummaryRead
from broker_cy.coordinator.share_state.settings import ShareStateSettings
from broker_cy.coordinator.share_state.share_state_machine import ShareStateMachine
from broker_cy.coordinator.share_state.state import (
    NO_COUNT,
    NO_EPOCH,
    NO_START_OFFSET,
    Entry,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from broker_cy.coordinator.step import CoordinatorStep, Record
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now
from broker_cy.metadata.image import ImageDelta, MetadataImage, TopicDelta
from broker_cy.metadata.topics import TopicImage

TOPIC_ID = UUID(int=0x5EED)
OTHER_TOPIC_ID = UUID(int=0x5EEE)
KEY = SharePartitionKey("readers", TOPIC_ID, 0)
PARTITIONS = 4


def key(partition: int, topic_id: UUID = TOPIC_ID, group_id: str = "readers") -> SharePartitionKey:
    return SharePartitionKey(group_id, topic_id, partition)


def batch(first: int, last: int, count: int = 1, state: int = 0) -> StateBatch:
    return StateBatch(first, last, count, state)


class ShareStateHarness:
    """Runs operations; `answers` has every response by token. Records are written immediately unless `hold` is set. The
    topics `t` and `u` exist.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = ShareStateSettings(**settings)
        self.wall_ms = 1_700_000_000_000
        self.mono_ms = 0
        self.log: list[Record] = []
        self.log_start = 0
        self.answers: dict[object, Any] = {}
        self.hold = False
        self.held: list[CoordinatorStep] = []
        self._tokens = 0
        self.image = MetadataImage()
        for name, topic_id in (("t", TOPIC_ID), ("u", OTHER_TOPIC_ID)):
            # The partitions of this topic are only counted.
            self.image.topics.put(TopicImage(name, topic_id, dict.fromkeys(range(PARTITIONS), None)))  # type: ignore[arg-type]
        self.machine = self.replayed()

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.mono_ms)

    def entry(self, of: SharePartitionKey = KEY) -> Entry:
        return self.machine.entries[of]

    def state(self, of: SharePartitionKey = KEY) -> ShareState:
        return self.machine.entries[of].state

    # ---- steps ----

    def take(self, step: CoordinatorStep) -> CoordinatorStep:
        for token, response in step.replies:
            assert token not in self.answers, f"{token} is answered twice"
            self.answers[token] = response
        if step.records or step.follows:
            self.held.append(step)
            # Without records before it, a step without records waits for nothing.
            if not self.hold or not any(each.records for each in self.held):
                self.write_held()
        return step

    def write_held(self) -> None:
        """The held records reach the disk."""
        steps, self.held = self.held, []
        for step in steps:
            self.log += step.records
        self.take(self.machine.written(steps, self.now))

    def fail(self, code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """The held records cannot be written."""
        steps, self.held = self.held, []
        self.take(self.machine.failed(steps, code, self.now))

    def time_out(self) -> None:
        """The held records are in the log, and not committed when their answers are due."""
        self.take(self.machine.timed_out([step for step in self.held if not step.is_late], self.now))

    def replayed(self) -> ShareStateMachine:
        """Return a machine with the records of the log, which does not answer yet."""
        machine = ShareStateMachine(self.settings)
        machine.take_image(self.image)
        for offset, (record_key, value) in enumerate(self.log[self.log_start :], self.log_start):
            machine.apply(offset, -1, record_key, value)
        machine.next_offset = len(self.log)
        return machine

    def restart(self) -> None:
        """Load another state machine from the log."""
        self.held.clear()
        self.machine = self.replayed()
        self.take(self.machine.loaded(self.now))

    # ---- time ----

    def advance(self, ms: int) -> None:
        """Let time pass, and run everything that becomes due at its time."""
        end = self.mono_ms + ms
        while (wake := self.machine.next_wake_ms()) is not None and wake <= end:
            self._move(max(wake, self.mono_ms))
            self.take(self.machine.expire(self.now))
        self._move(end)

    def _move(self, mono_ms: int) -> None:
        self.wall_ms += mono_ms - self.mono_ms
        self.mono_ms = mono_ms

    # ---- requests ----

    def run(self, operation: Any, *request: Any, token: object = None) -> Any:
        """Return the response, None while it is awaited."""
        self._tokens += 1
        asked = self._tokens if token is None else token
        self.take(self.machine.run(operation, *request, asked, self.now))
        return self.answers.get(asked)

    def initialize(
        self,
        of: SharePartitionKey = KEY,
        state_epoch: int = 1,
        start_offset: int = NO_START_OFFSET,
        token: object = None,
    ) -> Outcome:
        found: Outcome = self.run(operations.initialize, of, state_epoch, start_offset, token=token)
        return found

    def write(
        self,
        *batches: StateBatch,
        of: SharePartitionKey = KEY,
        state_epoch: int = NO_EPOCH,
        leader_epoch: int = NO_EPOCH,
        start_offset: int = NO_START_OFFSET,
        complete: int = NO_COUNT,
        token: object = None,
    ) -> Outcome:
        change = ShareState(0, state_epoch, leader_epoch, start_offset, complete, batches)
        found: Outcome = self.run(operations.write, of, change, token=token)
        return found

    def read(self, of: SharePartitionKey = KEY, leader_epoch: int = NO_EPOCH, token: object = None) -> StateRead:
        found: StateRead = self.run(operations.read, of, leader_epoch, token=token)
        return found

    def summary(self, of: SharePartitionKey = KEY, token: object = None) -> SummaryRead:
        found: SummaryRead = self.run(operations.read_summary, of, token=token)
        return found

    def delete(self, of: SharePartitionKey = KEY, token: object = None) -> Outcome:
        found: Outcome = self.run(operations.delete, of, token=token)
        return found

    def snapshot_cold(self) -> None:
        self.take(self.machine.run(upkeep.snapshot_cold, self.now))

    def redundant_offset(self, token: object = None) -> int | None:
        found: int | None = self.run(upkeep.redundant_offset, token=token)
        return found

    def prune(self) -> None:
        """Cut the log below the offset whose records are redundant."""
        offset = self.redundant_offset()
        if offset is not None:
            self.log_start = offset

    def delete_topics(self, topic_ids: Iterable[UUID]) -> None:
        # Other machines keep the image that they have.
        after = self.image.copy()
        gone = [TopicDelta(after.topics.remove(topic_id), None) for topic_id in topic_ids]
        self.image = after
        self.take(self.machine.metadata_changed(ImageDelta(gone, [], [], []), after))
