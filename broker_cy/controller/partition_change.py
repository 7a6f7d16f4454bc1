"""A change of one partition, and the election that follows from it, as one PartitionChangeRecord.

The order of candidates, as in Apache Kafka 4.3.1 with KIP-966: the leader of today if it still may lead, in-sync
replicas in the order of assignment, eligible leader replicas (ELR) while no replica is in sync, the last known leader
if neither set has a member, and any live replica where unclean elections are allowed. The last two lose records, so the
new leader is then the only in-sync replica, and the partition is marked as recovering (KIP-704).

Invariants of the result: the in-sync set is a subset of the replicas; the leader is in it, or there is none; the ELR
has no member of the in-sync set; both epochs grow, the leader epoch only with the partition epoch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final
from uuid import UUID

from broker_cy.controller.rules import Rules, default_directory
from broker_cy.metadata import features
from broker_cy.metadata.image import NO_LEADER, PartitionImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages

RECOVERED: Final = 0
RECOVERING: Final = 1
_NO_LEADER_CHANGE: Final = -2
# Brokers that run an older metadata.version than 3.6-IV0 follow an in-sync set that shrinks only with a new leader
# epoch (KAFKA-15021).
_MV_NO_EPOCH_FOR_SHRINK: Final = 12


class Election(Enum):
    """The wanted leader: any replica that keeps the partition online, the first of the assignment, or, without an
    in-sync replica, one that may lack records.
    """

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class PartitionChange:
    """The wanted state of a partition; unset parts do not change. `record` may be called once."""

    __slots__ = (
        "_elected_uncleanly",
        "adding",
        "directories",
        "election",
        "elr",
        "index",
        "isr",
        "new_epoch",
        "partition",
        "recovery",
        "removing",
        "replicas",
        "rules",
        "topic",
        "unclean_shutdown",
    )

    def __init__(self, rules: Rules, topic: TopicImage, index: int, partition: PartitionImage) -> None:
        self.rules = rules
        self.topic = topic
        self.index = index
        self.partition = partition
        self.election = Election.UNCLEAN if rules.unclean_allowed(topic) else Election.ONLINE
        self.isr = partition.isr
        self.replicas = partition.replicas
        self.removing = partition.removing_replicas
        self.adding = partition.adding_replicas
        self.elr = partition.elr
        self.recovery = partition.leader_recovery_state
        # Log directories that replicas moved to, by broker.
        self.directories: dict[int, UUID] = {}
        # Brokers that may have lost records that they had acknowledged: they are no eligible leaders.
        self.unclean_shutdown: frozenset[int] = frozenset()
        # A new leader epoch, even if the leader stays.
        self.new_epoch = False
        self._elected_uncleanly = False

    def record(self) -> VersionedRecord | None:
        """The record of the change; None if nothing changes."""
        old = self.partition
        self._complete_reassignment()
        self._update_elr()
        leader = self._elect()
        change = messages.PartitionChangeRecord(partition_id=self.index, topic_id=self.topic.topic_id)
        if leader != old.leader:
            change.leader = leader
        elif self.new_epoch or (self.replicas is not old.replicas and not set(old.replicas) <= set(self.replicas)):
            # Without a new epoch, a broker that left the partition could still act for it.
            change.leader = leader
        if self.isr != old.isr and (self.isr or self.rules.elr_enabled):
            change.isr = list(self.isr)
            if (
                self.rules.level < _MV_NO_EPOCH_FOR_SHRINK
                and change.leader == _NO_LEADER_CHANGE
                and not set(old.isr) <= set(self.isr)
            ):
                change.leader = leader
        if self.elr != old.elr:
            change.eligible_leader_replicas = list(self.elr)
        self._set_last_known_leader(change)
        self._set_assignment(change)
        recovery = RECOVERING if self._elected_uncleanly else self.recovery
        if recovery != old.leader_recovery_state:
            change.leader_recovery_state = recovery
        if _changes_nothing(change):
            return None
        return VersionedRecord(change, self.rules.change_version)

    # --- the leader

    def _elect(self) -> int:
        """The leader; sets the in-sync set and the ELR to the result of the election."""
        chosen = self._cleanly_elected()
        if chosen == NO_LEADER:
            chosen = self._last_known_leader()
            if chosen == NO_LEADER and self.election is Election.UNCLEAN:
                alive = (r for r in self.replicas if self.rules.may_lead(r, self.partition))
                chosen = next(alive, NO_LEADER)
            self._elected_uncleanly = chosen != NO_LEADER
        if self._elected_uncleanly:
            self.isr, self.elr = (chosen,), ()
        elif chosen in self.elr:
            self.isr = (chosen,)
            self.elr = tuple(r for r in self.elr if r != chosen)
        elif chosen != self.partition.leader and self.partition.leader == NO_LEADER:
            # All its members were lost together, so each was kept as a possible leader. Now the others are out of sync.
            self.isr = tuple(r for r in self.isr if r == chosen or self.rules.may_lead(r, self.partition))
        if not self.rules.elr_enabled:
            self.elr = ()
        return chosen

    def _cleanly_elected(self) -> int:
        if self.election is Election.PREFERRED and self._is_valid(self.replicas[0]):
            return self.replicas[0]
        if self._is_valid(self.partition.leader):
            return self.partition.leader
        return next((replica for replica in self.replicas if self._is_valid(replica)), NO_LEADER)

    def _is_valid(self, replica: int) -> bool:
        return replica in (self.isr or self.elr) and self.rules.may_lead(replica, self.partition)

    def _last_known_leader(self) -> int:
        """The last known leader if it may be elected: only while no replica is known to have all records. A fenced one
        is not elected (KAFKA-19522).
        """
        known = self.partition.last_known_elr
        if not self.rules.elr_enabled or self.isr or self.elr or len(known) != 1:
            return NO_LEADER
        is_electable = known[0] in self.replicas and self.rules.may_lead(known[0], self.partition)
        return known[0] if is_electable else NO_LEADER

    # --- consequences

    def _complete_reassignment(self) -> None:
        """End the reassignment (KIP-455) if all replicas that stay are in sync: with fewer, the partition could end up
        below min.insync.replicas (KAFKA-15665).
        """
        if not self.removing and not self.adding:
            return
        isr = tuple(r for r in self.isr if r not in self.removing)
        replicas = tuple(r for r in self.replicas if r not in self.removing)
        if isr and replicas and set(replicas) <= set(isr):
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, (), ()

    def _update_elr(self) -> None:
        """Update the eligible leaders. A replica that leaves an in-sync set below min.insync.replicas has all committed
        records: the high watermark does not move then (KIP-966).
        """
        if not self.rules.elr_enabled:
            return
        if len(self.isr) >= self.rules.min_isr(self.topic):
            self.elr = ()
            return
        candidates = {*self.elr, *self.partition.isr} - {*self.isr} - self.unclean_shutdown
        # Unlike Kafka, drop replicas that have left the partition: one added again would be eligible without records.
        self.elr = tuple(sorted(candidates & {*self.replicas}))

    def _set_last_known_leader(self, change: messages.PartitionChangeRecord) -> None:
        """Note the leader that the partition loses, in sync or not, until it has one again. A change that moves
        replicas of a partition without a leader notes no leader (Kafka notes -1 then).
        """
        old = self.partition
        if not self.rules.elr_enabled:
            return
        if change.leader == NO_LEADER and old.leader != NO_LEADER and not old.last_known_elr:
            change.last_known_elr = [old.leader]
        elif change.leader >= 0 and old.last_known_elr:
            change.last_known_elr = []

    def _set_assignment(self, change: messages.PartitionChangeRecord) -> None:
        old = self.partition
        is_moved = self.replicas != old.replicas or len(old.directories) != len(old.replicas) or self.directories
        if is_moved and self.rules.level >= features.MV_DIRECTORIES:
            known = {**dict(zip(old.replicas, old.directories, strict=False)), **self.directories}
            directories = tuple(
                known[r] if r in known else default_directory(self.rules.state, r) for r in self.replicas
            )
            if directories != old.directories:
                change.directories = list(directories)
        if self.replicas != old.replicas:
            change.replicas = list(self.replicas)
        if self.removing != old.removing_replicas:
            change.removing_replicas = list(self.removing)
        if self.adding != old.adding_replicas:
            change.adding_replicas = list(self.adding)


def _changes_nothing(change: messages.PartitionChangeRecord) -> bool:
    return (
        change.leader == _NO_LEADER_CHANGE
        and change.isr is None
        and change.replicas is None
        and change.directories is None
        and change.adding_replicas is None
        and change.removing_replicas is None
        and change.eligible_leader_replicas is None
        and change.last_known_elr is None
        and change.leader_recovery_state == -1
    )
