"""Every partition of this broker, by topic name, topic id and index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition


class PartitionTable:
    """Partitions are looked up once per request and topic, so the keys are the bytes that a request contains.

    `by_name` (UTF-8 name) and `by_id` (16 bytes) map to the same list, whose index is the partition index; an entry is
    None if this broker does not have that partition.
    """

    def __init__(self) -> None:
        self.by_name: dict[bytes, list[Partition | None]] = {}
        self.by_id: dict[bytes, list[Partition | None]] = {}

    def add(self, partition: Partition) -> None:
        """Add a partition; it replaces an existing one of the same topic and index."""
        name = partition.topic.encode()
        places = self.by_name.get(name)
        if places is None:
            places = []
            self.by_name[name] = places
            self.by_id[partition.topic_id.bytes] = places
        while len(places) <= partition.index:
            places.append(None)
        places[partition.index] = partition

    def remove_topic(self, topic: str, topic_id: UUID) -> list[Partition]:
        """Remove a topic. Returns its partitions, which the caller has to close."""
        self.by_id.pop(topic_id.bytes, None)
        places = self.by_name.pop(topic.encode(), [])
        return [p for p in places if p is not None]

    def remove(self, topic: str, index: int) -> Partition | None:
        """Remove one partition of a topic that stays. Returns it; the caller has to close it."""
        places = self.by_name.get(topic.encode(), [])
        if not 0 <= index < len(places):
            return None
        found, places[index] = places[index], None
        return found

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None if this broker does not have it."""
        places = self.by_name.get(topic.encode())
        return places[index] if places is not None and 0 <= index < len(places) else None

    def topic(self, topic: str) -> list[Partition]:
        """The partitions of one topic that this broker has."""
        return [p for p in self.by_name.get(topic.encode(), []) if p is not None]

    def __iter__(self) -> Iterator[Partition]:
        for places in self.by_name.values():
            for partition in places:
                if partition is not None:
                    yield partition

    def __len__(self) -> int:
        return sum(1 for _ in self)
