"""The share partitions of a node, and the fetches that wait for their records. A pure table.

A fetch waits for all its share partitions at once, and is woken once, by the first cause: records that became available
or a start offset that moved, new records, the end of loading, or a share partition that is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.share import acknowledging
from broker_cy.share.sessions import Closed, TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import StateWrite

# A fetch that waits takes about 1 KB. More of them are answered as if their time were over.
WAITING_MAX: Final = 10_000


class ShareKey(NamedTuple):
    group_id: str
    topic: TopicPartition


class SharePartitions:
    """Share partitions by group and partition, while this node leads them; at most one for each pair."""

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._partitions: dict[ShareKey, SharePartition] = {}
        self._groups: dict[TopicPartition, dict[str, None]] = {}
        self._max = waiting_max
        self._waiting: dict[Hashable, Collection[ShareKey]] = {}
        # In the order of arrival; no entry is empty.
        self._waiting_for: dict[ShareKey, dict[Hashable, None]] = {}

    def get(self, key: ShareKey) -> SharePartition | None:
        return self._partitions.get(key)

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[ShareKey]:
        return iter(list(self._partitions))

    def keys_of(self, topic: TopicPartition) -> list[ShareKey]:
        """Return the share partitions of all groups of a partition."""
        return [ShareKey(group_id, topic) for group_id in self._groups.get(topic, ())]

    def keys_of_group(self, group_id: str) -> list[ShareKey]:
        return [key for key in self._partitions if key.group_id == group_id]

    def topics(self) -> list[TopicPartition]:
        return list(self._groups)

    def add(self, key: ShareKey, partition: SharePartition) -> None:
        """Add the share partition of a leadership that has just begun to serve the group."""
        self._partitions[key] = partition
        self._groups.setdefault(key.topic, {})[key.group_id] = None

    # ---- the end of share partitions; each returns the fetches to look at again

    def drop(self, key: ShareKey) -> list[Hashable]:
        """Fence and forget a share partition: its state is another broker's, or is gone."""
        partition = self._partitions.pop(key, None)
        if partition is None:
            return []
        partition.fence()
        groups = self._groups[key.topic]
        del groups[key.group_id]
        if not groups:
            del self._groups[key.topic]
        return self.wake(key)

    def drop_topic(self, topic: TopicPartition) -> list[Hashable]:
        """Drop the share partitions of a partition that this node no longer leads, or that failed or was deleted."""
        return [fetch for key in self.keys_of(topic) for fetch in self.drop(key)]

    def drop_group(self, group_id: str) -> list[Hashable]:
        """Drop the share partitions of a group that has no session here."""
        return [fetch for key in self.keys_of_group(group_id) for fetch in self.drop(key)]

    def release(self, closed: Closed) -> list[tuple[ShareKey, StateWrite]]:
        """Release what the member of a session that has ended holds; returns what to write."""
        writes = []
        for topic in closed.partitions:
            key = ShareKey(closed.key.group_id, topic)
            partition = self._partitions.get(key)
            write = acknowledging.release(partition, closed.key.member_id) if partition is not None else None
            if write is not None:
                writes.append((key, write))
        return writes

    # ---- fetches that wait

    def wait(self, fetch: Hashable, keys: Collection[ShareKey]) -> bool:
        """Let a fetch wait; False if too many wait already. It has looked at its share partitions in this turn."""
        if len(self._waiting) >= self._max or not keys:
            return False
        self._waiting[fetch] = keys
        for key in keys:
            self._waiting_for.setdefault(key, {})[fetch] = None
        return True

    def forget(self, fetch: Hashable) -> None:
        """A fetch no longer waits: its time is over, or its connection is closed."""
        for key in self._waiting.pop(fetch, ()):
            waiting = self._waiting_for[key]
            del waiting[fetch]
            if not waiting:
                del self._waiting_for[key]

    def waiting(self, key: ShareKey) -> int:
        """Return the number of fetches that wait for a share partition."""
        return len(self._waiting_for.get(key, ()))

    def wake(self, key: ShareKey) -> list[Hashable]:
        """Return the fetches that wait for a share partition, in the order of their arrival; they wait no longer."""
        fetches = list(self._waiting_for.get(key, ()))
        for fetch in fetches:
            self.forget(fetch)
        return fetches

    def wake_topic(self, topic: TopicPartition) -> list[Hashable]:
        """`wake` for all groups of a partition that has new records."""
        return [fetch for key in self.keys_of(topic) for fetch in self.wake(key)]
