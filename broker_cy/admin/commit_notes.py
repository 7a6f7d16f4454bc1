"""Commits of groups as reported in `__cluster_events`, and the time lag that follows from them.

A commit event contains the timestamp of the record at the committed offset. This gives the age of the first unread
record without a Fetch, even after that record was deleted. It is valid as long as the same offset is committed. The
timestamp is read from the records if the group had read all records then, or if the event is missing: in another
cluster, with events switched off, for a commit of this second, or for one so long ago that its event is out of reach.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable
from sys import intern

from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_lag import GroupLag, PartitionLag, TimestampSource
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.own_topics import Entry, OwnTopic
from broker_cy.admin.records import Start
from broker_cy.client.errors import ClientError, Failure
from broker_cy.metrics.events import Commits, Committed, Stamped, TopicDeleted

# Partitions of groups whose last commit is kept: about 50 MB. The one reported longest ago is dropped first.
COMMITS_MAX = 200_000
# Records of `__cluster_events` that are searched, the newest first, as long as a commit is not found; and at most
# own_topics.RANGE_BYTES_MAX in each step.
STEPS = (250, 750, 1_000, 1_000, 1_000)
# Brokers report commits once a second, so there are no newer ones before that.
REFRESH_S = 1.0
# How long a search may delay a caller that could read the records instead, and after which time it is retried.
LOOK_TIMEOUT_S = 5.0
RETRY_S = 30.0

_Key = tuple[str, str, int]


class CommitNotes:
    """The last reported commit, by group and partition. Pass events to `take` in their order."""

    def __init__(self, commits_max: int = COMMITS_MAX) -> None:
        self._commits_max = commits_max
        self._noted: OrderedDict[_Key, Committed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._noted)

    def clear(self) -> None:
        self._noted.clear()

    def take(self, stamped: Stamped) -> None:
        """Note the commits of an event. The deletion of a topic discards its offsets; all other events are ignored."""
        event = stamped.event
        if isinstance(event, Commits):
            group = intern(event.group)
            for each in event.offsets:
                each.topic = intern(each.topic)
                key = (group, each.topic, each.partition)
                self._noted[key] = each
                self._noted.move_to_end(key)
            self._bound()
        elif isinstance(event, TopicDeleted):
            for key in [key for key in self._noted if key[1] == event.topic]:
                del self._noted[key]

    def take_older(self, older: CommitNotes, gone: Iterable[str]) -> None:
        """Note commits that are not known yet, except those of topics that were deleted later."""
        deleted = set(gone)
        for key, each in reversed(older._noted.items()):
            if key not in self._noted and key[1] not in deleted:
                self._noted[key] = each
                self._noted.move_to_end(key, last=False)
        self._bound()

    def _bound(self) -> None:
        while len(self._noted) > self._commits_max:
            self._noted.popitem(last=False)

    def knows(self, group_id: str, partition: TopicPartition) -> bool:
        """Return whether a commit of this group to the partition is known."""
        return (group_id, partition.topic, partition.partition) in self._noted

    def at(self, group_id: str, part: PartitionLag) -> Committed | None:
        """Return the reported commit of the offset of the group; None if its last commit is another one, or is unknown.

        The offset that a share group has persisted is older: it follows with the next acknowledgement. Its last report
        counts as long as the group was not reset, and no records that it had completed became available again.
        """
        found, position = self._at(group_id, part.partition), part.position
        if found is None or part.committed is None or position is None:
            return None
        if part.incomplete is None:
            return found if found.offset == position else None
        return found if part.committed <= found.offset and found.offset + found.completed <= position else None

    def record_time_ms(self, group_id: str, part: PartitionLag) -> int | None:
        """The timestamp of the record that the group reads next; None if it is not known, or there was none yet."""
        found = self.at(group_id, part)
        if found is None or found.record_time_ms < 0 or found.offset < part.first_unread:
            return None
        return found.record_time_ms

    def sampled_time_ms(self, group_id: str, partition: TopicPartition, position: int) -> int | None:
        """`record_time_ms` by the PartitionLag.position of a sample, in the same state."""
        found = self._at(group_id, partition)
        if found is None or found.record_time_ms < 0 or found.offset + found.completed != position:
            return None
        return found.record_time_ms

    def _at(self, group_id: str, partition: TopicPartition) -> Committed | None:
        return self._noted.get((group_id, partition.topic, partition.partition))

    def with_commit_times(self, lag: GroupLag) -> GroupLag:
        """The lag with the time of each commit, if known, which makes the status of groups more accurate."""
        parts = []
        for part in lag.partitions:
            noted = self.at(lag.group_id, part)
            parts.append(part if noted is None else part._replace(commit_ms=noted.commit_ms))
        return GroupLag(lag.group_id, tuple(parts))

    def exact(self, lag: GroupLag) -> frozenset[TopicPartition]:
        """The partitions whose time lag is known from an event."""
        return frozenset(
            part.partition
            for part in lag.partitions
            if part.lag and self.record_time_ms(lag.group_id, part) is not None
        )


class NotedTimestamps:
    """A TimestampSource: noted commits, and `otherwise` for the rest."""

    def __init__(self, notes: CommitNotes, otherwise: TimestampSource) -> None:
        self.notes = notes
        self._otherwise = otherwise

    async def unread_timestamps(
        self, group_id: str, parts: Collection[PartitionLag]
    ) -> Outcome[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        missing: list[PartitionLag] = []
        for part in parts:
            at_ms = self.notes.record_time_ms(group_id, part)
            if at_ms is not None:
                found[part.partition] = at_ms
                continue
            noted = self.notes.at(group_id, part)
            missing.append(part if noted is None else part._replace(committed=noted.offset))
        if not missing:
            return Outcome(found, {})
        rest = await self._otherwise.unread_timestamps(group_id, missing)
        return Outcome(found | rest.found, rest.failed)


class CommitTail:
    """Searches the end of `__cluster_events` for commits: forward from its position, backward while one is missing."""

    def __init__(self, notes: CommitNotes) -> None:
        self.notes = notes
        self.problem: ClientError | None = None
        # The offsets that were searched, from and to; None before the first search.
        self._seen: tuple[int, int] | None = None
        self._earliest = 0
        self._steps_left: list[int] = []
        # Topics that were deleted within the searched offsets: older commits are of other records.
        self._deleted: set[str] = set()
        self._next_look_s = float("-inf")
        self._lock = asyncio.Lock()

    async def look(self, topic: OwnTopic[Stamped], group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Note the reported commits of a group; `problem` says why none can exist."""
        async with self._lock:
            now_s = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(LOOK_TIMEOUT_S):
                    if now_s >= self._next_look_s:
                        self._next_look_s = now_s + REFRESH_S
                        await self._look_ahead(topic)
                        self.problem = None
                    while self._steps_left and not all(self.notes.knows(group_id, key) for key in partitions):
                        await self._look_back(topic)
            except (ClientError, TimeoutError) as error:
                if not isinstance(error, ClientError):
                    error = ClientError(
                        Failure.TIMED_OUT, f"more than {LOOK_TIMEOUT_S:g} s", what=f"topic {topic.topic}"
                    )
                self.problem = error
                self._next_look_s = now_s + RETRY_S
                self._steps_left.clear()

    async def _look_ahead(self, topic: OwnTopic[Stamped]) -> None:
        """Read new events. At the first search, after the topic was re-created, and if the new events exceed one read,
        this only finds the end, from which to search backward.
        """
        span = await topic.span(Start.latest())
        if self._seen is not None and 0 <= span.end - self._seen[1] <= max(STEPS):
            entries = await topic.read_range(max(self._seen[1], span.earliest), span.end)
            if entries is not None:
                self._deleted |= _note(self.notes, entries)
                self._seen = (self._seen[0], span.end)
                return
        self.notes.clear()
        self._deleted.clear()
        self._seen = (span.end, span.end)
        self._earliest = span.earliest
        self._steps_left = list(STEPS)

    async def _look_back(self, topic: OwnTopic[Stamped]) -> None:
        """Search one step back, completely; if it is too large, search nothing, and make no further steps."""
        assert self._seen is not None
        first, end = self._seen
        start = max(self._earliest, first - self._steps_left.pop(0))
        entries = await topic.read_range(start, first)
        if entries is None or start == first:
            self._steps_left.clear()
            return
        older = CommitNotes()
        deleted = _note(older, entries)
        self.notes.take_older(older, self._deleted)
        self._deleted |= deleted
        self._seen = (start, end)


def _note(notes: CommitNotes, entries: Iterable[Entry[Stamped]]) -> set[str]:
    """Note the entries, and return the topics that were deleted in them."""
    deleted = set()
    for entry in entries:
        if entry.item is not None:
            notes.take(entry.item)
            if isinstance(entry.item.event, TopicDeleted):
                deleted.add(entry.item.event.topic)
    return deleted


class EventTimestamps(NotedTimestamps):
    """A TimestampSource that searches `__cluster_events` for the commits, and asks `otherwise` for the rest."""

    def __init__(self, tail: CommitTail, topic: OwnTopic[Stamped], otherwise: TimestampSource) -> None:
        super().__init__(tail.notes, otherwise)
        self._tail = tail
        self._topic = topic

    async def unread_timestamps(
        self, group_id: str, parts: Collection[PartitionLag]
    ) -> Outcome[TopicPartition, int | None]:
        await self._tail.look(self._topic, group_id, [part.partition for part in parts])
        return await super().unread_timestamps(group_id, parts)

    async def with_commit_times(self, lag: GroupLag) -> GroupLag:
        """See CommitNotes."""
        await self._tail.look(self._topic, lag.group_id, [part.partition for part in lag.partitions])
        return self.notes.with_commit_times(lag)
