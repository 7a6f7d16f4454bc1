"""The lag of groups in records and in time.

The time lag is the age of the first record that a group has not read. It comes from a TimestampSource: the records
themselves, one batch per partition, or the events of commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Protocol

from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.group_positions import PositionCalls
from broker_cy.admin.lag import time_lag_ms
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation, OffsetCalls
from broker_cy.admin.records import RecordCalls
from broker_cy.admin.share_offsets import ShareOffsets
from broker_cy.client.errors import ClientError
from broker_cy.client.turns import Turns
from broker_cy.core.classes import NamedTuple, dataclass


class PartitionLag(NamedTuple):
    """A partition with a committed offset of a group. `start` and `end` are None if unknown; `problem` says why.

    `commit_ms` is the time of the commit, None if unknown (Kafka does not report it). For a share group, `committed` is
    its start offset, None before it has read the partition, and `incomplete` the number of records that it has not
    completed: it completes them in any order.
    """

    partition: TopicPartition
    committed: int | None
    start: int | None
    end: int | None
    metadata: str = ""
    problem: ClientError | None = None
    commit_ms: int | None = None
    incomplete: int | None = None

    @property
    def lag(self) -> int | None:
        """Unread records (more exactly: offsets); None if the end is not known, or where the group begins."""
        if self.incomplete is not None:
            return self.incomplete
        return None if self.end is None or self.committed is None else max(0, self.end - self.committed)

    @property
    def position(self) -> int | None:
        """The committed offset; for a share group, the end less its lag, as its start offset may stay where it is while
        the group completes records behind it. None if that is not known.
        """
        if self.incomplete is None:
            return self.committed
        return None if self.end is None else self.end - self.incomplete

    @property
    def first_unread(self) -> int:
        """The offset that the group will read next: behind records that were deleted before it read them. For a share
        group, the first one that may be unread: its start offset is persisted with the next acknowledgement.
        """
        return max(self.committed or 0, self.start or 0)

    @property
    def lost(self) -> int:
        """Offsets that were deleted before the group read them."""
        return 0 if self.start is None or self.committed is None else max(0, self.start - self.committed)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of one group, by partition."""

    group_id: str
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        """The total lag of the partitions whose lag is known."""
        return sum(part.lag or 0 for part in self.partitions)

    @property
    def is_complete(self) -> bool:
        """Whether the lag of every partition is known."""
        return all(part.lag is not None for part in self.partitions)

    @property
    def least(self) -> int | None:
        """The total lag, which is a lower bound unless `is_complete`; None if no partition has a known lag."""
        return self.total if not self.partitions or any(part.lag is not None for part in self.partitions) else None


class TimestampSource(Protocol):
    """Knows the timestamps of the records that groups read next."""

    async def unread_timestamps(
        self, group_id: str, parts: Collection[PartitionLag]
    ) -> Outcome[TopicPartition, int | None]:
        """Timestamps in ms since 1970 of the first unread records, by partition; None if there is no such record, or if
        it has no timestamp.
        """


class RecordTimestamps:
    """Reads the records themselves: exact, at the cost of one Fetch per partition."""

    def __init__(self, records: RecordCalls) -> None:
        self._records = records

    async def unread_timestamps(
        self, group_id: str, parts: Collection[PartitionLag]
    ) -> Outcome[TopicPartition, int | None]:
        return await self._records.timestamps({part.partition: part.first_unread for part in parts})


class LagCalls:
    """`client.lag`."""

    def __init__(self, offsets: OffsetCalls, positions: PositionCalls, timestamps: TimestampSource) -> None:
        self._offsets = offsets
        self._positions = positions
        self._timestamps = timestamps

    def using(self, timestamps: TimestampSource) -> LagCalls:
        """The same, with the time lag from another source."""
        return LagCalls(self._offsets, self._positions, timestamps)

    async def of(
        self, group_ids: Iterable[str], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> Outcome[str, GroupLag]:
        """The lag of each group, in every partition with a committed offset, or with a start offset of a share group.

        One request fetches the offsets of many groups. Each partition's start and end are fetched once, after the
        commits, so that no lag is too small. A partition that cannot be examined (for example of a deleted topic) is
        reported with its problem.
        """
        ids = list(dict.fromkeys(group_ids))
        committed, shared = await self._positions.fetch_by_type(ids)
        partitions = {key for offsets in committed.found.values() for key in offsets}
        partitions.update(key for offsets in shared.values() for key in offsets)
        starts, ends = await asyncio.gather(
            self._offsets.earliest(partitions), self._offsets.latest(partitions, isolation=isolation)
        )
        found: dict[str, GroupLag] = {}
        # 100,000 partitions take a while.
        turns = Turns()
        for group, offsets in committed.found.items():
            found[group] = _group_lag(group, offsets, starts, ends)
            await turns.pause()
        for group, known in shared.items():
            found[group] = _share_lag(group, known, starts, ends)
        # In the order of the request, whatever the types.
        return Outcome({group: found[group] for group in ids if group in found}, committed.failed)

    async def times(self, group: GroupLag, now_ms: int) -> Outcome[TopicPartition, int | None]:
        """The time lag of each partition in ms: 0 without lag; None if no timestamp is known."""
        behind = [part for part in group.partitions if part.lag]
        stamps = await self._timestamps.unread_timestamps(group.group_id, behind) if behind else Outcome({}, {})
        found: dict[TopicPartition, int | None] = {}
        for part in group.partitions:
            if part.lag == 0:
                found[part.partition] = 0
            elif part.lag is None:
                found[part.partition] = None
            elif part.partition in stamps.found:
                found[part.partition] = time_lag_ms(part.lag, stamps.found[part.partition], now_ms)
        return Outcome(found, stamps.failed)


def _group_lag(
    group_id: str, committed: Committed, starts: Outcome[TopicPartition, int], ends: Outcome[TopicPartition, int]
) -> GroupLag:
    found_starts, found_ends = starts.found, ends.found
    parts = [
        PartitionLag(key, each.offset, found_starts.get(key), end, each.metadata)
        if (end := found_ends.get(key)) is not None
        else PartitionLag(key, each.offset, found_starts.get(key), None, each.metadata, ends.failed.get(key))
        for key, each in committed.items()
    ]
    # By partition, which is the first field and unique.
    parts.sort()
    return GroupLag(group_id, tuple(parts))


def _share_lag(
    group_id: str, known: ShareOffsets, starts: Outcome[TopicPartition, int], ends: Outcome[TopicPartition, int]
) -> GroupLag:
    parts = [
        PartitionLag(
            key,
            each.start,
            starts.found.get(key),
            ends.found.get(key),
            problem=ends.failed.get(key),
            incomplete=each.lag,
        )
        for key, each in sorted(known.items())
    ]
    return GroupLag(group_id, tuple(parts))
