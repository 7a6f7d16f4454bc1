"""The committed offsets of one partition of `__consumer_offsets`, with those of open transactions: durable state.

Only the `replay_` functions, and `restore` with what they return, change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.step import Place
from broker_cy.core.classes import NamedTuple


class Groups(Protocol):
    """The state machine that the offsets belong to."""

    offsets: OffsetStore

    def remove_simple_group(self, group_id: str, number: int) -> None: ...


PartitionOffsets = dict[int, CommittedOffset]

NO_PRODUCER_ID = -1


class OffsetsBefore(NamedTuple):
    """The state that a record replaced: the committed offset of each place (None without one), and for each producer
    and place the offset of its open transaction. `created` names the simple group that the record created, and its
    number.
    """

    committed: tuple[tuple[Place, CommittedOffset | None], ...] = ()
    pending: tuple[tuple[int, Place, CommittedOffset | None], ...] = ()
    created: tuple[str, int] | None = None

    def offsets(self) -> OffsetsBefore:
        return self

    def restore(self, machine: Groups) -> None:
        machine.offsets.restore(self)
        if self.created is not None:
            machine.remove_simple_group(*self.created)


class CommitBefore(NamedTuple):
    """The offset that a commit outside of a transaction replaced: an OffsetsBefore that costs little, as loading makes
    one for each record.
    """

    place: Place
    offset: CommittedOffset | None

    def restore(self, machine: Groups) -> None:
        machine.offsets.restore(self.offsets())

    def offsets(self) -> OffsetsBefore:
        return OffsetsBefore(((self.place, self.offset),))


_new = tuple.__new__


class OffsetStore:
    """Committed offsets by group, topic and partition. No inner dict is ever left empty.

    An offset committed in a transaction waits in `pending` until the transaction's marker comes: a commit marker moves
    it over, unless a younger record has been seen for the partition; an abort marker drops it.
    """

    __slots__ = ("_groups_of", "_open", "_pending", "by_group", "commits", "count")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, PartitionOffsets]] = {}
        # The groups with a committed offset in each topic, in a fixed order: the index over by_group.
        self._groups_of: dict[str, dict[str, None]] = {}
        self.count = 0
        # Offsets committed since the partition was loaded: a counter of the operations, which a failed write does not
        # decrease.
        self.commits = 0
        self._pending: dict[int, dict[Place, CommittedOffset]] = {}
        # Producer ids with a pending offset, by group and then (topic, partition): the index over _pending.
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.by_group.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> dict[str, PartitionOffsets]:
        """Return the offsets of one group by topic; they must not be modified."""
        return self.by_group.get(group_id) or {}

    def groups_of(self, topic: str) -> list[str]:
        """The groups with a committed offset in the topic."""
        return list(self._groups_of.get(topic) or ())

    def has_any(self, group_id: str) -> bool:
        """Whether the group has an offset, also one of an open transaction."""
        return group_id in self.by_group or group_id in self._open

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has committed an offset in this group."""
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        open_partitions = self._open.get(group_id)
        return open_partitions is not None and (topic, partition) in open_partitions

    def pending_in(self, group_id: str, topic: str) -> Iterator[tuple[int, CommittedOffset]]:
        """(partition, offset) of everything pending of a group in a topic."""
        for (name, partition), producer_ids in (self._open.get(group_id) or {}).items():
            if name == topic:
                for producer_id in producer_ids:
                    yield partition, self._pending[producer_id][(group_id, topic, partition)]

    def pending_partitions(self, group_id: str) -> list[tuple[str, int]]:
        """(topic, partition) of each pending offset of a group."""
        return list(self._open.get(group_id) or ())

    def groups_with_pending(self) -> list[str]:
        """The groups of all pending offsets."""
        return list(self._open)

    def pending_offsets(self) -> Iterator[tuple[int, str, str, int, CommittedOffset]]:
        """(producer id, group, topic, partition, offset) of everything pending."""
        for producer_id, offsets in self._pending.items():
            for (group_id, topic, partition), offset in offsets.items():
                yield producer_id, group_id, topic, partition, offset

    # ---- replay ----

    def restore(self, before: OffsetsBefore) -> None:
        """Undo a record; everything newer is undone before."""
        for place, committed in before.committed:
            if committed is None:
                self._remove(*place)
            else:
                self._put(*place, committed)
        for producer_id, place, offset in before.pending:
            if offset is None:
                self._close(producer_id, *place)
            else:
                self._open_pending(producer_id, *place, offset)

    def replay_commit(self, place: Place, offset: CommittedOffset) -> CommitBefore:
        """A commit outside of a transaction. This is called once for each record of a log that is loaded."""
        group_id, topic, partition = place
        try:
            partitions = self.by_group[group_id][topic]
        except KeyError:
            before = self._put(group_id, topic, partition, offset)
        else:
            before = partitions.get(partition)
            if before is None:
                self.count += 1
            partitions[partition] = offset
        # As CommitBefore(...), at a third of the cost.
        return _new(CommitBefore, (place, before))

    def replay_pending(self, producer_id: int, place: Place, offset: CommittedOffset) -> OffsetsBefore:
        """A commit inside of a transaction, which no reader sees yet."""
        before = self._pending.get(producer_id, {}).get(place)
        self._open_pending(producer_id, *place, offset)
        return OffsetsBefore(pending=((producer_id, place, before),))

    def replay_tombstone(self, group_id: str, topic: str, partition: int) -> OffsetsBefore:
        """Delete the offset, and with it the pending offsets of open transactions there."""
        place = (group_id, topic, partition)
        before = self._remove(group_id, topic, partition)
        dropped: list[tuple[int, Place, CommittedOffset | None]] = []
        for producer_id in list(self._open.get(group_id, {}).get((topic, partition), ())):
            dropped.append((producer_id, place, self._pending[producer_id][place]))
            self._close(producer_id, group_id, topic, partition)
        return OffsetsBefore(((place, before),), tuple(dropped))

    def replay_marker(self, producer_id: int, committed: bool) -> OffsetsBefore:
        """A transaction ends. Nothing happens for a producer without pending offsets."""
        pending = dict(self._pending.get(producer_id, {}))
        replaced: list[tuple[Place, CommittedOffset | None]] = []
        for place, offset in pending.items():
            self._close(producer_id, *place)
            if not committed:
                continue
            # Compaction may have left a newer record than the transaction's; the newest one takes precedence.
            current = self.get(*place)
            if current is None or offset.record_offset > current.record_offset:
                replaced.append((place, current))
                self._put(*place, offset)
        dropped = tuple((producer_id, place, offset) for place, offset in pending.items())
        return OffsetsBefore(tuple(replaced), dropped)

    # ---- inner ----

    def _put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> CommittedOffset | None:
        topics = self.by_group.get(group_id)
        if topics is None:
            topics = self.by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
            self._groups_of.setdefault(topic, {})[group_id] = None
        before = partitions.get(partition)
        partitions[partition] = offset
        if before is None:
            self.count += 1
        return before

    def _remove(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        before = self.get(group_id, topic, partition)
        if before is not None:
            topics = self.by_group[group_id]
            del topics[topic][partition]
            if not topics[topic]:
                del topics[topic]
                groups = self._groups_of[topic]
                del groups[group_id]
                if not groups:
                    del self._groups_of[topic]
            if not topics:
                del self.by_group[group_id]
            self.count -= 1
        return before

    def _open_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset
    ) -> None:
        self._pending.setdefault(producer_id, {})[(group_id, topic, partition)] = offset
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def _close(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        pending = self._pending[producer_id]
        del pending[(group_id, topic, partition)]
        if not pending:
            del self._pending[producer_id]
        partitions = self._open[group_id]
        producers = partitions[(topic, partition)]
        producers.discard(producer_id)
        if not producers:
            del partitions[(topic, partition)]
        if not partitions:
            del self._open[group_id]
