"""The in-sync set of a partition, as the leader of one epoch knows it: KIP-497, KIP-841, KIP-903, KIP-966.

A pure state machine. Its inputs are committed metadata (`image`), fetches of followers (`fetched`), answers to
AlterPartition (`answered`), time (`tick`), and the followers that have stopped fetching (`silence`). Its outputs are
the limit of the high watermark (`bound`), and the AlterPartition to send (`proposal`, while `unsent`).

Invariants, between calls:
  isr <= maximal <= isr plus one replica; maximal is isr if nothing is proposed, or a smaller set
  at most one proposal is under way; the controller decides by its partition epoch whether it still applies
  a follower's end offset is one that it fetched from in this leader epoch and its present incarnation, or UNKNOWN
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.silence import FollowerSilence

# The offsets of a follower that has not fetched yet in this leader epoch.
UNKNOWN = -1
# The broker epoch of a follower that has not fetched yet. A fetch below version 15 has none, which is -1.
NO_BROKER_EPOCH = -2
ANY_BROKER_EPOCH = -1

# Answers that end the proposal: the set goes back to the committed one, and may be proposed again.
_REJECTED = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# Answers after which nothing is proposed until the metadata that they announce arrives. The proposal may have been
# applied by an earlier attempt, so its set still counts for the high watermark.
_OVERTAKEN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


class Assigned(Protocol):
    """The metadata of a partition (metadata.image.PartitionImage)."""

    @property
    def replicas(self) -> tuple[int, ...]: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...


class Proposal(NamedTuple):
    """An AlterPartition for one partition. `isr` is (broker id, broker epoch); `added` is -1 if it makes the set
    smaller.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    added: int = -1


class Altered(NamedTuple):
    """The answer to an AlterPartition. Without an error the other fields are those that the controller committed."""

    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class Follower:
    """The leader's state of one follower. Times are those of the leader's monotonic clock."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetched_ms", "leader_end_then", "log_start_offset")

    def __init__(self) -> None:
        self.end_offset = UNKNOWN  # the offset that it fetched from: it has all records before it
        self.log_start_offset = UNKNOWN
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = 0  # it had everything that the leader had at this time
        self.fetched_ms = 0
        self.leader_end_then = UNKNOWN  # at the last fetch

    def __repr__(self) -> str:
        return f"{self.log_start_offset}..{self.end_offset} (broker epoch {self.broker_epoch})"


class InSync:
    """The in-sync set of a partition that `broker_id` leads. All partitions share `broker_statuses` and `silence`;
    their owner updates them before it reports an image, or the time.
    """

    __slots__ = (
        "broker_id",
        "broker_statuses",
        "epoch_start",
        "followers",
        "isr",
        "lag_max_ms",
        "leader_epoch",
        "maximal",
        "min_isr",
        "now_ms",
        "partition_epoch",
        "proposal",
        "silence",
        "unsent",
    )

    def __init__(
        self,
        broker_id: int,
        broker_statuses: Mapping[int, BrokerStatus],
        lag_max_ms: int,
        min_isr: int,
        silence: FollowerSilence,
    ) -> None:
        self.broker_id = broker_id
        self.broker_statuses = broker_statuses
        self.silence = silence
        self.lag_max_ms = lag_max_ms
        self.min_isr = min_isr
        self.followers: dict[int, Follower] = {}
        self.isr: frozenset[int] = frozenset()  # committed
        self.maximal: frozenset[int] = frozenset()  # with the replica that is proposed: it may be committed already
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.epoch_start = UNKNOWN  # where the log ended when this leader epoch began
        self.proposal: Proposal | None = None
        self.unsent = False
        self.now_ms = 0

    def __repr__(self) -> str:
        proposed = f", proposed {self.proposal}" if self.proposal is not None else ""
        return (
            f"InSync({sorted(self.isr)} of leader {self.broker_id}, epochs {self.leader_epoch} and "
            f"{self.partition_epoch}, followers {self.followers}{proposed})"
        )

    @property
    def is_under_min(self) -> bool:
        """Whether acks=all is refused. As in Kafka, min.insync.replicas is at most the number of replicas."""
        return len(self.isr) < self._min_isr

    @property
    def _min_isr(self) -> int:
        return min(self.min_isr, len(self.followers) + 1)

    # --- inputs

    def image(self, image: Assigned, log_end: int, now_ms: int) -> bool:
        """Take committed metadata that names this broker as the leader. Returns whether it was new."""
        self.now_ms = max(self.now_ms, now_ms)
        if (image.leader_epoch, image.partition_epoch) <= (self.leader_epoch, self.partition_epoch):
            return False  # The answer to an AlterPartition was faster.
        is_new_epoch = image.leader_epoch > self.leader_epoch
        if is_new_epoch:
            self.leader_epoch = image.leader_epoch
            self.epoch_start = log_end
        self.partition_epoch = image.partition_epoch
        known = {} if is_new_epoch else self.followers
        self.followers = {}
        for broker_id in image.replicas:
            if broker_id != self.broker_id:
                self.followers[broker_id] = known.get(broker_id) or self._unknown(broker_id in image.isr)
        self._commit(frozenset(image.isr))
        return True

    def _unknown(self, is_in_sync: bool) -> Follower:
        follower = Follower()
        # It gets replica.lag.time.max.ms to fetch for the first time.
        follower.caught_up_ms = self.now_ms if is_in_sync else self.now_ms - self.lag_max_ms - 1
        return follower

    def refusal(self, broker_id: int, broker_epoch: int, leader_epoch: int) -> ErrorCode:
        """The error of a fetch of a follower in its `leader_epoch`, or -1; NONE if it may be served."""
        if broker_id not in self.followers:
            # It may know of a reassignment that this broker has not heard of.
            return ErrorCode.UNKNOWN_LEADER_EPOCH if leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._is_outdated(broker_id, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _is_outdated(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether an earlier incarnation of the broker sent it, which may have had records that this one lost
        (KAFKA-15221).
        """
        status = self.broker_statuses.get(broker_id)
        if broker_epoch == ANY_BROKER_EPOCH:
            return False
        newest = max(self.followers[broker_id].broker_epoch, status.epoch if status is not None else NO_BROKER_EPOCH)
        return broker_epoch < newest

    def fetched(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        log_start: int,
        log_end: int,
        high_watermark: int,
        now_ms: int,
    ) -> None:
        """A follower whose fetch was not refused, and whose log does not diverge, has everything before `offset`."""
        self.now_ms = max(self.now_ms, now_ms)
        follower = self.followers[broker_id]
        if offset >= log_end:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        elif offset >= follower.leader_end_then > UNKNOWN:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.leader_end_then = max(follower.leader_end_then, log_end)
        follower.fetched_ms = now_ms
        follower.end_offset = offset
        follower.log_start_offset = log_start
        follower.broker_epoch = broker_epoch
        if self.proposal is None and broker_id not in self.isr and self._may_join(broker_id, high_watermark, log_end):
            self._propose_set(self.isr | {broker_id}, broker_id)

    def truncated(self, log_end: int) -> None:
        """The leader of a mirror has truncated its log (replica.mirror), or begins it again: the followers have the
        same records up to there, and none of those that are appended from now on.
        """
        self.epoch_start = min(self.epoch_start, log_end)
        for follower in self.followers.values():
            follower.end_offset = min(follower.end_offset, log_end)
            follower.leader_end_then = min(follower.leader_end_then, log_end)

    def kept_up(self, broker_id: int, until_ms: int) -> None:
        """A member that has everything has fetched again and again, last at `until_ms`, without calls of fetched. The
        report may come after the controller has removed the member, because its disk died: then it changes nothing, or
        the high watermark would wait for the follower as for one that is about to join.
        """
        follower = self.followers.get(broker_id)
        if follower is not None and broker_id in self.isr:
            follower.caught_up_ms = max(follower.caught_up_ms, until_ms)
            follower.fetched_ms = max(follower.fetched_ms, until_ms)

    def _may_join(self, broker_id: int, high_watermark: int, log_end: int) -> bool:
        """Whether the follower may join. Before the start of the leader's epoch it may lack records that an earlier
        leader committed. Below min.insync.replicas the high watermark does not move, so that a follower that has
        reached it may be far behind: it would leave with the next tick, and join again with the next fetch
        (KAFKA-19996).
        """
        end_offset = self.followers[broker_id].end_offset
        if end_offset < high_watermark or end_offset < self.epoch_start or not self._is_eligible(broker_id):
            return False
        return not self.is_under_min or self._is_caught_up(broker_id, log_end)

    def _is_eligible(self, broker_id: int) -> bool:
        """Whether the metadata allows it in the set, in the incarnation that fetches (KAFKA-13916, KAFKA-14617)."""
        status = self.broker_statuses.get(broker_id)
        if status is None or not status.is_eligible:
            return False
        return self.followers[broker_id].broker_epoch in (ANY_BROKER_EPOCH, status.epoch)

    def answered(self, proposal: Proposal, answer: Altered) -> None:
        """The controller has answered a proposal; an answer to an earlier proposal changes nothing (KAFKA-12686)."""
        if proposal is not self.proposal:
            return
        if answer.error == ErrorCode.NONE:
            if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
                return  # The metadata of another leader epoch is on its way.
            self.partition_epoch = answer.partition_epoch
            self._commit(frozenset(answer.isr))
        elif answer.error in _REJECTED:
            self._commit(self.isr)
        elif answer.error not in _OVERTAKEN:
            self.unsent = True

    def tick(self, log_end: int, now_ms: int) -> None:
        """Propose to remove those that have not caught up for replica.lag.time.max.ms; and those that lack records and
        have stopped fetching, as long as min.insync.replicas are left without them.
        """
        self.now_ms = max(self.now_ms, now_ms)
        if self.proposal is not None:
            return
        left = frozenset(each for each in self.isr if each == self.broker_id or self._is_caught_up(each, log_end))
        silent = [each for each in self.silence.silent if each in left and self._lacks_records(each, log_end)]
        if silent and len(left) - len(silent) >= self._min_isr:
            left = left.difference(silent)
            for each in silent:
                self.silence.dropped(each)
        if left != self.isr:
            self._propose_set(left, -1)

    def _lacks_records(self, broker_id: int, log_end: int) -> bool:
        """False also for one that has not fetched yet in this leader epoch: it has replica.lag.time.max.ms to begin."""
        follower = self.followers.get(broker_id)
        return follower is not None and UNKNOWN < follower.end_offset < log_end

    def _is_caught_up(self, broker_id: int, log_end: int) -> bool:
        follower = self.followers.get(broker_id)
        if follower is None:
            return False
        return follower.end_offset == log_end or self.now_ms - follower.caught_up_ms <= self.lag_max_ms

    # --- proposals

    def _commit(self, isr: frozenset[int]) -> None:
        for broker_id in self.isr - isr:
            # A follower that left may rejoin only when it has all records of the leader: else the high watermark would
            # wait while the follower copies the missing ones.
            follower = self.followers.get(broker_id)
            if follower is not None:
                follower.caught_up_ms = self.now_ms - self.lag_max_ms - 1
                follower.leader_end_then = UNKNOWN
        self.isr = self.maximal = isr
        self.proposal = None
        self.unsent = False

    def _propose_set(self, isr: frozenset[int], added: int) -> None:
        self.maximal = self.isr | isr
        self.unsent = True
        self.proposal = Proposal(
            self.leader_epoch, self.partition_epoch, tuple((each, self._epoch_of(each)) for each in sorted(isr)), added
        )

    def _epoch_of(self, broker_id: int) -> int:
        """The incarnation that the leader knows to be in sync. A member that has not fetched yet is in the committed
        set.
        """
        follower = self.followers.get(broker_id)
        if follower is not None and follower.broker_epoch != NO_BROKER_EPOCH:
            return follower.broker_epoch
        status = self.broker_statuses.get(broker_id)
        return status.epoch if status is not None else ANY_BROKER_EPOCH

    def unchanged(self) -> Proposal:
        """The committed set, for a request that changes something else."""
        return Proposal(
            self.leader_epoch, self.partition_epoch, tuple((each, self._epoch_of(each)) for each in sorted(self.isr))
        )

    def sent(self) -> Proposal:
        """The proposal, which the caller sends now."""
        assert self.proposal is not None
        self.unsent = False
        return self.proposal

    # --- output

    def bound(self, end_offset: int) -> int:
        """The limit of the high watermark: the end that all replicas have reached that may be in the set; UNKNOWN while
        the set is smaller than min.insync.replicas (KAFKA-15583). The leader itself has all records before
        `end_offset`.

        A follower that is about to join also counts, so that it can. One that may not join never does (KAFKA-15021).
        """
        if self.is_under_min:
            return UNKNOWN
        bound = end_offset
        for broker_id, follower in self.followers.items():
            if follower.end_offset < bound and (broker_id in self.maximal or self._is_joining(broker_id, end_offset)):
                bound = follower.end_offset
        return bound

    def low_watermark(self, log_start: int) -> int:
        """All records before it are deleted (DeleteRecords) in the leader's log, which begins at `log_start`, and in
        all followers that are active or in the set; UNKNOWN if one of them has not fetched yet. As in Kafka, the low
        watermark does not wait for a fenced broker. The log start of an earlier incarnation is UNKNOWN, too: it may
        have ended before it checkpointed its log start.
        """
        low = log_start
        for broker_id, follower in self.followers.items():
            if not self._is_counted(broker_id):
                continue
            status = self.broker_statuses.get(broker_id)
            if status is not None and follower.broker_epoch not in (ANY_BROKER_EPOCH, status.epoch):
                return UNKNOWN
            low = min(low, follower.log_start_offset)
        return low

    def _is_counted(self, broker_id: int) -> bool:
        """Whether the low watermark waits for it."""
        status = self.broker_statuses.get(broker_id)
        return broker_id in self.isr or (status is not None and status.is_eligible)

    def nearest(self, rack: str, offset: int) -> int:
        """The in-sync replica in a consumer's rack that has `offset` and the most records; the leader if it is in this
        rack, and -1 if no replica is (KIP-392, RackAwareReplicaSelector).
        """
        own = self.broker_statuses.get(self.broker_id)
        if own is not None and own.rack == rack:
            return self.broker_id
        found = UNKNOWN, UNKNOWN
        for broker_id in self.isr:
            follower, status = self.followers.get(broker_id), self.broker_statuses.get(broker_id)
            if follower is None or status is None or status.rack != rack or not status.is_eligible:
                continue
            if follower.log_start_offset <= offset <= follower.end_offset:
                found = max(found, (follower.end_offset, broker_id))
        return found[1]

    def _is_joining(self, broker_id: int, end_offset: int) -> bool:
        return self._is_eligible(broker_id) and self._is_caught_up(broker_id, end_offset)
