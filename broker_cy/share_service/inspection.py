"""The records of share groups in flight on this broker, for consoles: their holders, locks and delivery counts."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey
from broker_cy.share_service.counts import GroupCounts, add_archived
from broker_cy.share_service.leader_changes import ACQUIRED

if TYPE_CHECKING:
    from broker_cy.share_service.share_service import ShareService

STATES: Final = {0: "available", ACQUIRED: "acquired", 2: "acknowledged", 4: "archived"}
UNFINISHED: Final = frozenset({"available", "acquired"})


class InFlight(NamedTuple):
    """Neighboring records that have everything in common. `lock_left_ms` is None without a lock. `is_pending`: the
    state is being persisted, and is undone if that fails.
    """

    first_offset: int
    last_offset: int
    state: str
    deliveries: int
    member_id: str | None
    lock_left_ms: int | None
    is_pending: bool


class SharePartitionView(NamedTuple):
    """A share partition. `is_blocked`: a fetch gets nothing, because too many records are in flight.

    The archived records are counted since this broker serves the share partition. Members have not rejected them: the
    log has them no longer (compaction, retention), or their transactions were aborted.
    """

    key: ShareKey
    status: str
    start_offset: int
    end_offset: int
    finished_records: int
    in_flight: list[InFlight]
    is_blocked: bool
    waiting_fetches: int
    archived_missing: int
    archived_aborted: int


def most_in_flight(service: ShareService, limit: int) -> list[tuple[ShareKey, str, int]]:
    """(share partition, name of its topic, records in flight) of the `limit` share partitions with most of them."""
    found = [(share.unfinished_records, key) for key in service.table if (share := service.table.get(key)) is not None]
    largest = heapq.nlargest(limit, (each for each in found if each[0]))
    return [(key, name, records) for records, key in largest if (name := service.topic_name(key.topic)) is not None]


class GroupFlight:
    """Records in flight of a group: by the number of their deliveries, and those that a member has got for the last
    time.
    """

    __slots__ = ("by_deliveries", "last_attempts")

    def __init__(self) -> None:
        self.by_deliveries: Counter[int] = Counter()
        self.last_attempts = 0

    def add(self, share: SharePartition) -> None:
        """Count a share partition of the group."""
        for first, last, state, deliveries, member_id, _, _ in share.in_flight():
            if STATES[state] not in UNFINISHED:
                continue
            records = last - first + 1
            self.by_deliveries[deliveries] += records
            if member_id is not None and deliveries >= share.delivery_limit:
                self.last_attempts += records


def groups_by_cause(service: ShareService, limit: int) -> list[tuple[str, GroupCounts]]:
    """The groups with most records that were archived or given back since this broker started, with the counts of the
    share partitions that it serves now.
    """
    found = service.counts.by_group()
    for key in service.table:
        share = service.table.get(key)
        if share is not None:
            add_archived(found, key.group_id, share)
    return heapq.nlargest(limit, found.items(), key=lambda each: each[1].total)


def views(service: ShareService, group_id: str | None = None) -> Iterator[SharePartitionView]:
    """The share partitions of a group, or of all groups."""
    for key in service.table if group_id is None else service.table.keys_of_group(group_id):
        view = view_of(service, key)
        if view is not None:
            yield view


def view_of(service: ShareService, key: ShareKey) -> SharePartitionView | None:
    """A share partition, with at most about share.partition.max.record.locks entries; None if it was dropped."""
    share = service.table.get(key)
    if share is None:
        return None
    now_ms = service.now_ms()
    runs = [
        InFlight(
            first,
            last,
            STATES[state],
            deliveries,
            member_id,
            None if member_id is None else max(0, deadline_ms - now_ms),
            is_pending,
        )
        for first, last, state, deliveries, member_id, deadline_ms, is_pending in share.in_flight()
    ]
    return SharePartitionView(
        key,
        share.status_name,
        share.start_offset,
        share.end_offset,
        share.delivery_complete_count,
        runs,
        share.is_active and not share.can_acquire(),
        service.table.waiting(key),
        share.archived_missing,
        share.archived_aborted,
    )
