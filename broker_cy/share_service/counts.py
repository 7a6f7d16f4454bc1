"""What the share groups of this broker did since its start, in the terms of Kafka's ShareGroupMetrics and
SharePartitionMetrics, and the causes of deliveries that are repeated or given up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker_cy.metrics.histogram import Histogram
from broker_cy.share.state_write import AcknowledgeType, StateWrite

_ARCHIVED: Final = 4
_ARCHIVING: Final = (AcknowledgeType.GAP, AcknowledgeType.REJECT)


class ShareCounts:
    """All numbers are of records."""

    def __init__(self) -> None:
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

    def acknowledged(self, batches: Iterable[tuple[int, int, bytes]], write: StateWrite | None) -> None:
        """`write` has the states that the acknowledgements gave; None if they gave none."""
        archived = 0
        for first, last, types in batches:
            for kind in set(types):
                count = last - first + 1 if len(types) == 1 else types.count(kind)
                self.acknowledgements[AcknowledgeType(kind)] += count
                if kind in _ARCHIVING:
                    archived += count
        if write is not None:
            self.archived_at_limit += max(0, _archived(write) - archived)

    def expired(self, write: StateWrite) -> None:
        self.expired_locks += _records(write)
        self.archived_at_limit += _archived(write)

    def released(self, write: StateWrite) -> None:
        self.released_by_sessions += _records(write)
        self.archived_at_limit += _archived(write)


def _records(write: StateWrite) -> int:
    return sum(last - first + 1 for first, last, _, _ in write.batches)


def _archived(write: StateWrite) -> int:
    return sum(last - first + 1 for first, last, _, state in write.batches if state == _ARCHIVED)
