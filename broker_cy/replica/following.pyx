"""The requests of a follower to its leader, and its decisions on the answers (KIP-101, KIP-279, KIP-595).

Pure functions: the caller truncates the log, appends to it and moves it, in the order of a Step.
"""

from broker_cy.replica.replica cimport FOLLOWER, Replica

from collections.abc import Sequence
from typing import NamedTuple, Protocol


NONE = -1


class Epochs(Protocol):
    """The leader epochs of a log (storage.epochs.LeaderEpochs)."""

    @property
    def latest_epoch(self) -> int: ...
    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...


class Ask(NamedTuple):
    """A follower's fetch of one partition. `offset` acknowledges everything before it."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int


class BatchSpan(NamedTuple):
    """The header of a fetched batch, as far as it is judged."""

    base_offset: int
    end_offset: int
    leader_epoch: int


class Answer(NamedTuple):
    """A leader's answer without an error. `diverging` is (epoch, end offset)."""

    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None = None
    batches: Sequence[BatchSpan] = ()


class Step(NamedTuple):
    """The changes to make, in this order; -1: no change. `restart_at` replaces the whole log by an empty one that
    begins there. The high watermark moves when the appended records are written: `Replica.learn` limits it to them.
    Each time it has moved, and before any client can read, the log start moves as far as `log_start` says.
    """

    truncate_to: int = NONE
    restart_at: int = NONE
    append: int = 0  # the number of batches that are part of the log
    high_watermark: int = NONE
    log_start_offset: int = NONE
    is_ignored: bool = False


def ask(Replica replica not None, epochs: Epochs) -> Ask | None:
    """The next fetch, or None while this replica does not follow, or while some records are not written, or not on disk as
    flush.messages requires: a fetch offset behind those would acknowledge missing records.
    """
    if replica.role != FOLLOWER or replica.sync_lost:
        return None
    end = acknowledged_end(replica)
    return Ask(replica.leader_epoch, end, epochs.latest_epoch) if end == replica.staged.offset else None


def acknowledged_end(Replica replica not None) -> int:
    """The end of the records that are in the files, and on disk if required."""
    return replica.local_end().offset


def take(Replica replica not None, asked: Ask, answer: Answer, epochs: Epochs) -> Step:
    """Judge the answer to a fetch of this replica."""
    return decide(asked, answer, epochs) if is_expected(replica, asked, epochs) else Step(is_ignored=True)


def decide(asked: Ask, answer: Answer, epochs: Epochs) -> Step:
    """Judge an answer that belongs to the log as it is now, in the leader epoch of the fetch."""
    if answer.diverging is not None:
        # The leader's high watermark may be among records that this log does not have yet (KAFKA-14704).
        return Step(truncate_to=truncation(epochs, asked.offset, answer.diverging))
    accepted = 0
    end, newest, restart_at = asked.offset, asked.last_fetched_epoch, NONE
    first = answer.batches[0] if answer.batches else None
    is_useless = answer.log_start_offset >= end or asked.last_fetched_epoch == NONE
    if first is not None and first.base_offset < end < first.end_offset and is_useless:
        # A leader, this one or one before, has deleted a part of this batch, and this one sends all of it. Everything
        # here is deleted there, or there is nothing here.
        end = restart_at = first.base_offset
        newest = NONE
    for batch in answer.batches:
        if not belongs(batch.base_offset, batch.leader_epoch, end, newest, asked.leader_epoch):
            break
        end, newest = batch.end_offset, batch.leader_epoch
        accepted += 1
    return Step(NONE, restart_at, accepted, answer.high_watermark, answer.log_start_offset)


def has_all(Replica replica not None, high_watermark: int) -> bool:
    """Whether it has all that its leader has committed, or will have with the next write."""
    return replica.staged.offset >= high_watermark


def opening_high_watermark(checkpointed: int, log_start: int) -> int:
    """The high watermark of a replica when it opens its log: deletions may have been checkpointed after it (KAFKA-9491)."""
    return max(checkpointed, log_start)


def is_expected(Replica replica not None, asked: Ask, epochs: Epochs) -> bool:
    """Whether the answer belongs to the log as it is now, which may have been truncated and appended to since: an end
    offset and the newest epoch, in one leader epoch, stand for one content.
    """
    return (
        replica.role == FOLLOWER
        and asked.leader_epoch == replica.leader_epoch
        and asked.offset == replica.staged.offset
        and asked.last_fetched_epoch == epochs.latest_epoch
    )


def belongs(base_offset: int, epoch: int, end: int, newest_epoch: int, leader_epoch: int) -> bool:
    """Whether a batch may follow on a log that ends at `end`. One of a later epoch than that of the fetch comes from
    a leader that has become another one meanwhile, and may hide that the logs diverge (KAFKA-18723). Compaction
    leaves gaps.
    """
    return base_offset >= end and newest_epoch <= epoch <= leader_epoch


def log_start(leader_start: int, high_watermark: int) -> int:
    """The offset up to which records are deleted because the leader has deleted them: never above this replica's high
    watermark (KAFKA-9491). Records before the leader's log start cannot be compared with the leader's, so clients may
    not read them here.
    """
    return min(leader_start, high_watermark)


def truncation(epochs: Epochs, log_end: int, diverging: tuple[int, int]) -> int:
    """The new end of the log: up to there, it either equals the leader's log, or the next fetch finds a further
    divergence.
    """
    epoch, end_offset = diverging
    own_epoch, own_end = epochs.end_offset_for(epoch, log_end)
    if own_epoch == NONE:
        return min(end_offset, log_end)
    if own_epoch != epoch:
        # Without records of that epoch here, the next fetch asks about the newest epoch before it.
        return min(own_end, log_end)
    return min(own_end, end_offset, log_end)


def out_of_range(log_end: int, leader_start: int, leader_end: int) -> Step:
    """The leader does not have the offset that was fetched from: its log ends before, or begins after it."""
    if leader_end < log_end:
        return Step(truncate_to=leader_end)
    if leader_start > log_end:
        return Step(restart_at=leader_start)
    return Step()


def begin_again(step: Step, log_start: int, leader_start: int = NONE) -> Step:
    """A follower's log cannot end before it begins, at `log_start`: an empty log replaces it. This happens if the leader was elected
    uncleanly, or truncates a mirror, and records were deleted here that the leader still has.

    As in Kafka, the log begins again at the end that the epochs have in common: everything before that is deleted here. The caller
    passes `leader_start` if the epochs decided nothing. Then the leader's records before its end may be others than those that were
    deleted here. The log begins at `leader_start`; at the leader's end, as in Kafka, it would acknowledge records that it lacks.
    """
    if not NONE < step.truncate_to < log_start:
        return step
    return step._replace(truncate_to=NONE, restart_at=step.truncate_to if leader_start == NONE else leader_start)
