"""The topics of an image of the cluster, with an index of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Set
from typing import Any
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.metadata import topic_names
from broker_cy.metadata.overlay import ABSENT, Overlay, changes_of
from broker_cy.metadata.partition import PartitionImage
from broker_cy.metadata.partition_index import Masks, PartitionIndex, bits, is_imbalanced, is_reassigning


class TopicImage(NamedTuple):
    """One topic; `partitions` is keyed by index, without gaps."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionImage]

    @property
    def is_internal(self) -> bool:
        return topic_names.is_internal(self.name)


class TopicsImage:
    """Topics by name and by id. Iterating gives TopicImage in no particular order."""

    __slots__ = ("_below", "_by_id", "_by_name", "_colliding", "_index", "_owned")

    def __init__(
        self,
        by_id: MutableMapping[UUID, TopicImage],
        by_name: MutableMapping[str, TopicImage],
        colliding: MutableMapping[str, frozenset[str]],
        owned: set[UUID] | None,
        below: TopicsImage | None = None,
    ) -> None:
        self._below = below  # the image that this one is a branch of
        self._by_id = by_id
        self._by_name = by_name
        self._colliding = colliding
        # The ids of the topics whose partition dict this image may change in place; None means all of them, because no
        # other image shares the tables.
        self._owned = owned
        # The index of a committed image: built at its first use, then kept up to date by `absorb`; None: not built.
        self._index: PartitionIndex | None = None

    def by_name(self, name: str) -> TopicImage | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        return self._by_id.get(topic_id)

    def with_ids(self, topic_ids: Iterable[UUID]) -> list[TopicImage | None]:
        """The topic of each id, in their order; None for one that does not exist."""
        return list(map(self._by_id.get, topic_ids))

    def with_names(self, names: Iterable[str]) -> list[TopicImage | None]:
        """The topic of each name, in their order; None for one that does not exist."""
        return list(map(self._by_name.get, names))

    def named(self, names: Iterable[str]) -> list[TopicImage]:
        """Those of the topics that exist, each once, in no particular order. Looks up 10,000 names in a millisecond."""
        return [topic for topic in map(self._by_name.get, set(names)) if topic is not None]

    def existing(self, names: Set[str]) -> Set[str]:
        """Those of the names that a topic has. It takes a seventh of the time of `named`, as no topic is looked at."""
        return self._by_name.keys() & names

    def missing(self, topic_ids: Iterable[UUID]) -> list[UUID]:
        """Those of the ids that no topic has."""
        return [topic_id for topic_id in topic_ids if topic_id not in self._by_id]

    def names(self) -> list[str]:
        """The names of all topics: a new list, in no particular order."""
        return list(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[TopicImage]:
        return iter(self._by_id.values())

    def collides_with(self, name: str) -> str | None:
        """An existing topic whose name differs from `name` at most in '.' and '_', or None."""
        key = topic_names.collision_key(name)
        if key is None:
            return None
        found = self._colliding.get(key)
        return min(found) if found else None

    def put(self, topic: TopicImage) -> None:
        self._index = None
        self._by_id[topic.topic_id] = topic
        self._by_name[topic.name] = topic
        if self._owned is not None:
            self._owned.add(topic.topic_id)
        key = topic_names.collision_key(topic.name)
        if key is not None:
            self._colliding[key] = self._colliding.get(key, frozenset()) | {topic.name}

    def remove(self, topic_id: UUID) -> TopicImage:
        """Remove a topic and return it. Raises KeyError if it does not exist."""
        topic = self._by_id[topic_id]
        self._index = None
        del self._by_id[topic_id]
        del self._by_name[topic.name]
        key = topic_names.collision_key(topic.name)
        if key is not None:
            left = self._colliding[key] - {topic.name}
            if left:
                self._colliding[key] = left
            else:
                del self._colliding[key]
        return topic

    def partitions_for_write(self, topic_id: UUID) -> dict[int, PartitionImage]:
        """The partitions of a topic, for the caller to change in place; copied first if another image shares them."""
        topic = self._by_id[topic_id]
        self._index = None
        if self._owned is None or topic_id in self._owned:
            return topic.partitions
        own = TopicImage(topic.name, topic_id, dict(topic.partitions))
        self.put(own)
        return own.partitions

    def branch(self) -> TopicsImage:
        """See MetadataImage.branch."""
        return TopicsImage(Overlay(self._by_id), Overlay(self._by_name), Overlay(self._colliding), set(), self)

    def tables(self) -> tuple[MutableMapping[Any, Any], ...]:
        """All tables that contain topics, in the same order for each image."""
        return self._by_id, self._by_name, self._colliding

    def changes(self) -> list[tuple[UUID, Any]]:
        """The topics that this branch changes by their ids, ABSENT for a removed one."""
        return changes_of(self._by_id)

    def _committed(self) -> tuple[PartitionIndex, set[UUID]]:
        """The index of the image at the bottom, and the topics that the branches above it change. Only a committed
        image has an index, because its branches live shortly.
        """
        changed: set[UUID] = set()
        image = self
        while image._below is not None:
            changed.update(topic_id for topic_id, _ in image.changes())
            image = image._below
        if image._index is None:
            image._index = PartitionIndex.of((topic.topic_id, topic.partitions) for topic in image)
        return image._index, changed

    def absorb_index(self, above: TopicsImage) -> None:
        """Keep the index right while the changes of `above` become part of this committed image."""
        if self._index is not None:
            for topic_id, after in above.changes():
                before = self._by_id.get(topic_id)
                self._index.change(
                    topic_id, before.partitions if before else {}, {} if after is ABSENT else after.partitions
                )

    def _select(
        self, masks: Masks, changed: set[UUID], wanted: Callable[[PartitionImage], bool]
    ) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic_id, mask in masks.items():
            if topic_id not in changed:
                topic = self._by_id[topic_id]
                partitions = topic.partitions
                for number in bits(mask):
                    yield topic, number, partitions[number]
        for topic_id in changed:
            found = self._by_id.get(topic_id)
            if found is not None:
                for number, partition in found.partitions.items():
                    if wanted(partition):
                        yield found, number, partition

    def with_replica(self, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """(topic, index, partition) of each partition with a replica on the broker, in no particular order.
        O(partitions of the broker, and of topics with uncommitted changes). The topics must not change meanwhile.
        """
        index, changed = self._committed()
        return self._select(index.replicas.get(broker_id, {}), changed, lambda p: broker_id in p.replicas)

    def led_by(self, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The same for the partitions that the broker leads; NO_LEADER: those without a leader."""
        index, changed = self._committed()
        return self._select(index.leaders.get(broker_id, {}), changed, lambda p: p.leader == broker_id)

    def imbalanced(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The same for the partitions that their preferred replica, the first one, does not lead."""
        index, changed = self._committed()
        return self._select(index.imbalanced, changed, is_imbalanced)

    def reassigning(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The same for the partitions that are being reassigned (KIP-455)."""
        index, changed = self._committed()
        return self._select(index.reassigning, changed, is_reassigning)
