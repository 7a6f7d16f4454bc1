"""The values of a session's feeds: groups with their lag, partitions of a topic, open transactions."""

from __future__ import annotations

from collections.abc import Mapping

from broker_cy.admin.group_lag import GroupLag
from broker_cy.admin.group_values import GroupDescription
from broker_cy.admin.lag import Status, Trend
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_in_flight import GroupInFlight
from broker_cy.admin.transactions import TransactionListing
from broker_cy.core.classes import NamedTuple, dataclass


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group's lag over all its partitions; not `is_complete` if that of some partitions is unknown, None if that of
    all is.

    `time_ms` is the longest time lag that the broker's events of commits report, None if they report none; not
    `is_time_complete` if they report none for some of the partitions with lag.
    """

    lag: int | None
    partitions: int
    is_complete: bool
    status: Status
    trend: Trend | None
    time_ms: int | None = None
    is_time_complete: bool = True


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group. `times_ms` is the lag in time by partition; `exact` are those that the broker's events report.
    `in_flight` is None if it is no share group, or no broker reports it.
    """

    description: GroupDescription
    lag: GroupLag
    times_ms: Mapping[TopicPartition, int | None]
    exact: frozenset[TopicPartition]
    status: Status
    trend: Trend | None
    at_ms: int
    in_flight: GroupInFlight | None = None


class PartitionRow(NamedTuple):
    """A partition of a topic: leader, replicas, offsets (None if the leader did not answer) and size on disk."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int | None
    end: int | None
    size_bytes: int | None
    directory: str
    # None if the broker does not report it.
    segments: int | None = None

    @property
    def is_offline(self) -> bool:
        return self.leader_id < 0

    @property
    def is_behind(self) -> bool:
        """Return whether the partition is under-replicated."""
        return len(self.in_sync) < len(self.replicas)

    @property
    def span(self) -> int | None:
        """Return the number of offsets; None if they are unknown."""
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transactional id; the fields after `listing` are known while a transaction is open."""

    listing: TransactionListing
    open_ms: int | None
    timeout_ms: int | None
    partitions: tuple[TopicPartition, ...]
