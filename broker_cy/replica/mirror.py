"""A partition whose leader copies a partition of another cluster, batch for batch (docs/mirror.md, Link flows).

The leader of such a partition is a consumer of the source: it reads below the source's high watermark, so every record
that it has is committed there. A pure state machine: its inputs are the local leader epoch, the metadata of the source
cluster, and answers to fetches; its outputs are `want`, the next act, and the Step that an answer asks for.

Invariants, between calls:
  the leader epoch of each batch in the log is at most `source.leader_epoch`, and that is at most `leader_epoch` while
  records are fetched; so a promoted leader (controller.mirror_ops) never writes in an epoch of the source
  the epoch of the source never decreases, and neither does the local one
  nothing is fetched from a topic with another id than `topic_id`, and no log is truncated to nothing
  the log begins again with the first batch that the source still has, in one step: it never begins at an offset within
  that batch, to begin before it with the next answer, when consumers may have read the later offset
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.replica import following
from broker_cy.replica.following import NONE, Answer, Ask, Epochs, Step
from broker_cy.replica.replica import Role

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.replica.replica import Replica


class Act(Enum):
    """`NOTHING`: the flow is paused, or failed."""

    NOTHING = "nothing"
    LOOK_UP = "look up"  # the leader of the source, in the metadata of its cluster
    PIN = "pin"  # store the id of the source topic in the settings of the local one
    RAISE = "raise"  # have the controller raise the local leader epoch to that of the source
    FETCH = "fetch"


class Cause(Enum):
    """Why a flow has failed, or waits, in one word for metrics and programs; a sentence comes with it."""

    # failures
    RECREATED = "source_recreated"
    OTHER_ID = "other_source_id"
    NO_PARTITION = "no_partition"
    UNRELATED = "unrelated_logs"
    ITSELF = "itself"
    CONTROLLER = "controller"
    OLD_RECORDS = "old_records"
    # a topic with fewer partitions than its source: the others are not copied
    FEWER_PARTITIONS = "fewer_partitions"
    # waits
    LINK_FILE = "link_file"
    UNREACHABLE = "unreachable"
    OLD_SOURCE = "old_source"
    UNAUTHORIZED = "unauthorized"
    NO_TOPIC = "no_topic"
    NO_LEADER = "no_leader"
    CIRCLE = "circle"
    REFUSED = "refused"


class Problem(NamedTuple):
    """`reason` is a sentence for people."""

    cause: Cause
    reason: str


class Source(NamedTuple):
    """The partition in the metadata of its cluster; `leader` is -1 without one."""

    topic_id: UUID
    leader: int
    leader_epoch: int


class Mirror:
    """The state of one partition on its local leader. `topic_id` is the id that the settings of the topic pin, if
    any.
    """

    __slots__ = (
        "_begins_at",
        "_is_current",
        "_is_pinned",
        "failure",
        "is_paused",
        "leader_epoch",
        "source",
        "source_high",
        "source_start",
        "topic_id",
    )

    def __init__(self, leader_epoch: int, topic_id: UUID | None, *, is_paused: bool = False) -> None:
        self.leader_epoch = leader_epoch
        self.topic_id = topic_id
        self._is_pinned = topic_id is not None
        self.source: Source | None = None
        self._is_current = False  # the metadata of the source hold, as far as we know
        self.source_high = self.source_start = NONE  # the high watermark and log start of the source, as last answered
        self._begins_at = NONE  # the log start of the source, if the log begins again with the batch that has it
        self.is_paused = is_paused
        self.failure: Problem | None = None  # why it cannot go on before an operator acts

    @property
    def want(self) -> Act:
        """The next act."""
        if self.is_paused or self.failure is not None:
            return Act.NOTHING
        if self.source is None or not self._is_current or self.source.leader == NONE:
            return Act.LOOK_UP
        if not self._is_pinned:
            return Act.PIN
        return Act.RAISE if self.source.leader_epoch > self.leader_epoch else Act.FETCH

    # --- inputs

    def led(self, leader_epoch: int) -> None:
        """This broker leads the partition in a further epoch."""
        self.leader_epoch = max(self.leader_epoch, leader_epoch)

    def pinned(self, topic_id: UUID) -> None:
        """The settings of the topic name the id of the source topic."""
        if self.topic_id is not None and topic_id != self.topic_id:
            self.fail(Cause.OTHER_ID, f"the source topic has the id {self.topic_id}, and the settings name {topic_id}")
        self.topic_id = topic_id
        self._is_pinned = True

    def found(self, source: Source, newest_epoch: int) -> None:
        """The metadata of the source cluster name the partition; `newest_epoch` is that of the local log. Metadata that
        are older than the newest known ones, or than the log, change nothing: a deposed leader would have the log
        truncated.
        """
        if self.topic_id is not None and source.topic_id != self.topic_id:
            self.fail(
                Cause.RECREATED,
                f"the source topic was deleted and created again: its id is {source.topic_id}, not {self.topic_id}",
            )
            return
        self.topic_id = source.topic_id
        known = newest_epoch if self.source is None else max(newest_epoch, self.source.leader_epoch)
        if source.leader_epoch >= known:
            self.source = source
            self._begins_at = NONE
            self._is_current = True

    def lost(self, leader_epoch: int) -> None:
        """The leader of that epoch does not answer, or is not the leader: its metadata may have changed."""
        if self.source is not None and leader_epoch == self.source.leader_epoch:
            self._is_current = False

    def fail(self, cause: Cause, reason: str) -> None:
        """End the flow until an operator acts; the first reason is kept."""
        if self.failure is None:
            self.failure = Problem(cause, reason)

    # --- fetches

    def ask(self, replica: Replica, epochs: Epochs) -> Ask | None:
        """The next fetch, in the leader epoch of the source; None while nothing may be fetched, or while records are
        not written: the answer would follow on records that a failed write takes back.
        """
        if self.want is not Act.FETCH or replica.role != Role.LEADER or replica.sync_lost:
            return None
        assert self.source is not None
        end = replica.staged["offset"]
        if replica.written["offset"] != end:
            return None
        if self._begins_at != NONE:
            return Ask(self.source.leader_epoch, self._begins_at, NONE)
        return Ask(self.source.leader_epoch, end, epochs.latest_epoch)

    def is_expected(self, replica: Replica, asked: Ask, epochs: Epochs) -> bool:
        """Whether the answer belongs to the log as it is now, and to the newest leader of the source that is known."""
        return self.want is Act.FETCH and asked == self.ask(replica, epochs)

    def take(self, replica: Replica, asked: Ask, answer: Answer, epochs: Epochs, log_start: int) -> Step:
        """Judge the answer to a fetch: as a follower does, and take only what is committed at the source."""
        if not self.is_expected(replica, asked, epochs):
            return Step(is_ignored=True)
        step = following.decide(asked, answer, epochs)
        if step.truncate_to != NONE:
            return self._cut(step.truncate_to, asked.offset, log_start)
        self.source_high, self.source_start = answer.high_watermark, answer.log_start_offset
        committed = sum(batch.end_offset <= answer.high_watermark for batch in answer.batches[: step.append])
        step = step._replace(append=committed)
        if self._begins_at == NONE:
            return step
        if not committed:
            return Step()
        self._begins_at = NONE
        return step if step.restart_at != NONE else step._replace(restart_at=asked.offset)

    def out_of_range(self, log_start: int, log_end: int, source_start: int, source_end: int) -> Step | None:
        """The source does not have the offset that was fetched from. `source_end` is its high watermark. None: it has
        the end of this log.
        """
        self._begins_at = NONE
        if source_end < log_end == log_start:
            # The log is empty: after a reversal, if its records had been deleted. There is nothing to truncate.
            return self._begin(source_start, source_end)
        step = following.out_of_range(log_end, source_start, source_end)
        if step.restart_at != NONE:
            return self._begin(source_start, source_end)
        return None if step.truncate_to == NONE else self._cut(step.truncate_to, log_end, log_start)

    def _begin(self, source_start: int, source_end: int) -> Step:
        """Begin the log again where the source begins, or with the first batch there: a part of that may be deleted."""
        if source_start >= source_end:
            return Step(restart_at=source_start)
        self._begins_at = source_start
        return Step()

    def _cut(self, offset: int, end: int, log_start: int) -> Step:
        """Truncate, unless that would leave nothing of a log with records: then the topics are no relatives, and no
        record may be lost by a wrong setting.
        """
        if offset <= log_start < end:
            self.fail(
                Cause.UNRELATED,
                f"the log shares no record with the source: it has the offsets {log_start} to {end}, and would have to "
                f"be truncated to {offset}; delete the topic to copy it again",
            )
            return Step(is_ignored=True)
        return Step(truncate_to=offset)
