"""One replica of the replication simulation: a log in memory, its disk, and a real Replica that decides."""

from __future__ import annotations

from typing import NamedTuple

from broker_cy.replica import following
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.following import BatchSpan
from broker_cy.replica.in_sync import Proposal
from broker_cy.replica.replica import Replica, Role
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.storage.epochs import LeaderEpochs


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    ident: int

    @property
    def span(self) -> BatchSpan:
        return BatchSpan(self.base_offset, self.end_offset, self.epoch)


class Log:
    """The process has `batches`. The first `written` ones are in the files, and the first `durable` ones on disk."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.cuts = 0
        self.restart_at(0)

    def restart_at(self, offset: int) -> None:
        self.cuts += 1
        self.batches: list[Batch] = []
        self.base = offset  # where the log ends if it has no batch
        self.written = self.durable = 0
        self.epochs = LeaderEpochs("/nowhere")
        self.log_start_offset = offset

    def end_of(self, count: int) -> int:
        return self.batches[count - 1].end_offset if count else self.base

    @property
    def end_offset(self) -> int:
        return self.end_of(len(self.batches))

    @property
    def written_end_offset(self) -> int:
        return self.end_of(self.written)

    @property
    def synced_end_offset(self) -> int:
        return self.end_of(self.durable)

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end_offset, f"{batch} appended at {self.end_offset}"
        self.batches.append(batch)
        if batch.epoch > self.epochs.latest_epoch:
            self.epochs.assign(batch.epoch, batch.base_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.written_end_offset)

    def truncate(self, offset: int) -> list[Batch]:
        """Drop everything from the batch that contains `offset` on, durably, and return it."""
        keep = len([batch for batch in self.batches if batch.end_offset <= offset])
        removed = self.batches[keep:]
        offset = self.end_of(keep)
        self.cuts += 1
        del self.batches[keep:]
        self.written = self.durable = keep
        self.epochs.truncate_from_end(offset)
        return removed

    def cut(self, keep: int) -> None:
        """Reduce the log to its first `keep` batches, as a start finds it."""
        del self.batches[keep:]
        self.written = self.durable = keep
        self.epochs = LeaderEpochs("/nowhere")
        for batch in self.batches:
            if batch.epoch > self.epochs.latest_epoch:
                self.epochs.assign(batch.epoch, batch.base_offset)
        if self.end_offset < self.log_start_offset:
            self.restart_at(self.log_start_offset)

    def delete_before(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, offset)
        gone = len([batch for batch in self.batches if batch.end_offset <= self.log_start_offset])
        gone = min(gone, self.durable)
        if gone:
            self.base = self.batches[gone - 1].end_offset
            del self.batches[:gone]
            self.written -= gone
            self.durable -= gone
            self.epochs.truncate_from_start(max(self.base, self.log_start_offset))


class Node:
    """A broker with one partition; `replica` is None while its process does not run."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log = Log()
        self.replica: Replica | None = None
        self.broker_epoch = -1
        self.life = 0
        self.version = -1  # of the metadata that it has; it keeps its metadata log
        self.is_informed = False  # this process has metadata
        self.leader = -1
        self.isr: tuple[int, ...] = ()  # as the metadata says that it has
        self.throttles: tuple[ReplicaThrottle, ReplicaThrottle]  # of what it sends, and of what it fetches
        self.broker_statuses: dict[int, BrokerStatus] = {}
        self.silence: FollowerSilence  # of this process
        self.checkpointed_high = self.checkpointed_start = 0
        self.deleting: list[tuple[int, int]] = []  # (offset, until) of DeleteRecords that have no answer yet
        self.waiting: list[tuple[int, Batch]] = []  # (leader epoch, record) that acks=all waits for
        self.parked: list[
            tuple[int, int, int, following.Ask, int]
        ] = []  # (from, its epoch, its log start, what, until)
        self.asked_until_ms = -1  # a fetch is on its way
        self.is_flushing = self.is_syncing = False
        self.stopping = False
        self.leader_start = 0  # the leader has deleted everything before
        self.proposed: Proposal | None = None

    @property
    def is_leader(self) -> bool:
        return self.replica is not None and self.replica.role == Role.LEADER

    def start(self, broker_epoch: int) -> None:
        self.life += 1
        self.broker_epoch = broker_epoch
        self.leader = self.asked_until_ms = -1
        self.is_informed = False
        self.leader_start = 0
        self.waiting, self.parked, self.deleting = [], [], []
        self.is_flushing = self.is_syncing = self.stopping = False
        self.replica = Replica(0)
        self.replica.follow(0)
        log = self.log
        # A log start that moved after the last checkpoint is forgotten, as far as the files still exist.
        log.log_start_offset = max(min(log.log_start_offset, self.checkpointed_start), log.base)
        high = following.opening_high_watermark(self.checkpointed_high, log.log_start_offset)
        self.replica.open(log.written_end_offset, log.synced_end_offset, high)

    def stop(self) -> None:
        self.replica = None
        self.life += 1
        self.log.cut(self.log.written)

    def delete_as_leader(self) -> None:
        """The high watermark of a follower may have moved."""
        if self.replica is not None and not self.is_leader:
            start = following.log_start(self.leader_start, self.replica.high["offset"])
            if start > self.log.log_start_offset:
                self.log.delete_before(start)
