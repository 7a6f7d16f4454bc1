"""Counts of the share groups of this broker since its start, in the terms of Kafka's ShareGroupMetrics and
SharePartitionMetrics, and the causes of deliveries that are repeated or given up, also for each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from broker_cy.metrics.histogram import Histogram
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import AcknowledgeType, StateWrite
from broker_cy.wire.share_operations import OperatorAction

_ARCHIVED: Final = 4
_ARCHIVING: Final = (AcknowledgeType.GAP, AcknowledgeType.REJECT)


# Groups with counts of their own, of about 500 bytes. The group that was counted first gives way to a new one.
GROUPS_MAX: Final = 1_000


class Archived(Enum):
    """Why records will not be delivered again, although no member accepted them."""

    REJECT = "reject"
    # Their last delivery ended without an acknowledgement, or with a release.
    LIMIT = "limit"
    # They are no longer in the log (retention, compaction), or a member found a gap.
    MISSING = "missing"
    # The record is of an aborted transaction.
    ABORTED = "aborted"
    OPERATOR = "operator"


class Returned(Enum):
    """Why records became available again after a delivery."""

    RELEASE = "release"
    TIMEOUT = "timeout"
    SESSION = "session"
    # The next leader takes locked records for available ones, and does not count their delivery.
    LEADER = "leader"
    OPERATOR = "operator"
    # An operator made archived records available again.
    REDRIVE = "redrive"


class GroupCounts:
    """Records of one group by cause. `archived` lacks those of share partitions that are served now: each counts its
    own until it is dropped.
    """

    __slots__ = ("archived", "returned")

    def __init__(self) -> None:
        self.archived = dict.fromkeys(Archived, 0)
        self.returned = dict.fromkeys(Returned, 0)

    @property
    def total(self) -> int:
        return sum(self.archived.values()) + sum(self.returned.values())

    def copy(self) -> GroupCounts:
        found = GroupCounts()
        found.archived, found.returned = dict(self.archived), dict(self.returned)
        return found

    def archived_by(self, share: SharePartition) -> None:
        """Add what a share partition counted itself."""
        self.archived[Archived.MISSING] += share.archived_missing
        self.archived[Archived.ABORTED] += share.archived_aborted


class ShareCounts:
    """All numbers are of records."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupCounts] = {}
        self.acknowledgements = dict.fromkeys(AcknowledgeType, 0)
        """RecordAcknowledgementsPerSec, by type."""
        self.deliveries = 0
        self.redeliveries = 0
        """Deliveries after the first one of a record."""
        self.expired_locks = 0
        """AcquisitionLockTimeoutPerSec."""
        self.released_by_sessions = 0
        """Records of sessions that ended."""
        self.archived_at_limit = 0
        """Records whose last delivery ended without an acknowledgement."""
        self.load_times = Histogram()
        """PartitionLoadTimeMs."""

    def acquired(self, acquired: Iterable[tuple[int, int, int]]) -> None:
        for first, last, count in acquired:
            self.deliveries += last - first + 1
            if count > 1:
                self.redeliveries += last - first + 1

    def acknowledged(self, group_id: str, batches: Iterable[tuple[int, int, bytes]], write: StateWrite | None) -> None:
        """`write` has the states that the acknowledgements gave; None if they gave none."""
        counted = dict.fromkeys(AcknowledgeType, 0)
        for first, last, types in batches:
            for kind in set(types):
                counted[AcknowledgeType(kind)] += last - first + 1 if len(types) == 1 else types.count(kind)
        for kind, number in counted.items():
            self.acknowledgements[kind] += number
        if write is None:
            return
        at_limit = max(0, _archived(write) - sum(counted[kind] for kind in _ARCHIVING))
        self.archived_at_limit += at_limit
        group = self._group(group_id)
        group.archived[Archived.REJECT] += counted[AcknowledgeType.REJECT]
        group.archived[Archived.MISSING] += counted[AcknowledgeType.GAP]
        group.archived[Archived.LIMIT] += at_limit
        group.returned[Returned.RELEASE] += max(0, counted[AcknowledgeType.RELEASE] - at_limit)

    def expired(self, group_id: str, write: StateWrite) -> None:
        self.expired_locks += _records(write)
        self._given_back(group_id, write, Returned.TIMEOUT)

    def released(self, group_id: str, write: StateWrite) -> None:
        self.released_by_sessions += _records(write)
        self._given_back(group_id, write, Returned.SESSION)

    def operated(self, group_id: str, action: OperatorAction, write: StateWrite) -> None:
        """An operator has changed records."""
        if action is OperatorAction.RELEASE:
            self._given_back(group_id, write, Returned.OPERATOR)
        elif action is OperatorAction.REJECT:
            self._group(group_id).archived[Archived.OPERATOR] += _records(write)
        else:
            self._group(group_id).returned[Returned.REDRIVE] += _records(write)

    def dropped(self, group_id: str, share: SharePartition, held: int, cause: Returned) -> None:
        """Keep the counts of a share partition that this broker no longer serves, while members held records of it."""
        if share.archived_missing or share.archived_aborted:
            self._group(group_id).archived_by(share)
        if held:
            self._group(group_id).returned[cause] += held

    def by_group(self) -> dict[str, GroupCounts]:
        """Copies of the counts of each group."""
        return {group_id: each.copy() for group_id, each in self._groups.items()}

    def _group(self, group_id: str) -> GroupCounts:
        group = self._groups.get(group_id)
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                del self._groups[next(iter(self._groups))]
            group = self._groups[group_id] = GroupCounts()
        return group

    def _given_back(self, group_id: str, write: StateWrite, cause: Returned) -> None:
        at_limit = _archived(write)
        self.archived_at_limit += at_limit
        group = self._group(group_id)
        group.archived[Archived.LIMIT] += at_limit
        group.returned[cause] += _records(write) - at_limit


def add_archived(counts: dict[str, GroupCounts], group_id: str, share: SharePartition) -> None:
    """Add what a share partition of a group counted itself, if anything."""
    if share.archived_missing or share.archived_aborted:
        counts.setdefault(group_id, GroupCounts()).archived_by(share)


def _records(write: StateWrite) -> int:
    return sum(last - first + 1 for first, last, _, _ in write.batches)


def _archived(write: StateWrite) -> int:
    return sum(last - first + 1 for first, last, _, state in write.batches if state == _ARCHIVED)
