"""The places of stores: which instance has which part, from what the group says about its members (KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from broker_streams.plan.stores import Store
from broker_streams.plan.topology import Subtopology, Topology
from broker_streams.queries.views import StoreUnavailable

Place = tuple[str, int]
"""The host and the port of an instance (application.server)."""
Part = tuple[str, int]
"""A topic and a partition."""


class KeyQueryMetadata(NamedTuple):
    """Where a key is (Kafka's KeyQueryMetadata). `active` None: at an instance without application.server, or at none
    now.
    """

    active: Place | None
    standbys: frozenset[Place]
    partition: int


class StreamsMetadata(NamedTuple):
    """An instance (Kafka's StreamsMetadata)."""

    place: Place
    stores: frozenset[str]
    partitions: frozenset[Part]
    standby_stores: frozenset[str]
    standby_partitions: frozenset[Part]


class Placement:
    """`counts` are the partitions of topics in the cluster, `members` the active and standby partitions by instance."""

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        counts: Callable[[str], int],
        members: Callable[[], Mapping[Place, tuple[frozenset[Part], frozenset[Part]]]],
    ) -> None:
        self._counts, self._members = counts, members
        self._stores = {each.name: each for each in topology.stores}
        self._global = frozenset(topology.global_stores)
        self._parts: dict[str, Subtopology] = {}
        self._topics: dict[int, tuple[str, ...]] = {}
        for part in topology.subtopologies():
            self._parts |= {store.name: part for store in part.stores}
            self._topics[part.number] = tuple(
                topology.decorated(topic, application_id) for source in part.sources for topic in source.topics
            )

    def is_global(self, name: str) -> bool:
        return name in self._global

    def store(self, name: str) -> Store:
        """Raises StoreUnavailable: the topology has no such store."""
        found = self._stores.get(name)
        if found is None:
            known = ", ".join(sorted(self._stores)) or "none"
            raise StoreUnavailable(f"the application has no store {name}; its stores are {known}")
        return found

    def subtopology(self, name: str) -> str:
        """The sub-topology of a store that is not global. Raises StoreUnavailable."""
        self.store(name)
        return str(self._parts[name].number)

    def partitions(self, name: str) -> int:
        """The number of partitions of a store; 1 for a global one. Raises StoreUnavailable."""
        if self.is_global(name):
            return 1
        self.store(name)
        return max((self._counts(topic) for topic in self._topics[self._parts[name].number]), default=0)

    def at(self, name: str, partition: int) -> KeyQueryMetadata:
        """Raises StoreUnavailable."""
        if self.is_global(name):
            places = sorted(self._members())
            return KeyQueryMetadata(places[0] if places else None, frozenset(places[1:]), 0)
        self.store(name)
        wanted = {(topic, partition) for topic in self._topics[self._parts[name].number]}
        active, standbys = None, set()
        for place, (actives, copies) in self._members().items():
            if wanted & actives:
                active = place
            elif wanted & copies:
                standbys.add(place)
        return KeyQueryMetadata(active, frozenset(standbys), partition)

    def all(self) -> list[StreamsMetadata]:
        """All instances with application.server."""
        return [
            StreamsMetadata(place, self._stores_of(actives) | self._global, actives, self._stores_of(copies), copies)
            for place, (actives, copies) in sorted(self._members().items())
        ]

    def of_store(self, name: str) -> list[StreamsMetadata]:
        """The instances that have a part of a store, also as a standby. Raises StoreUnavailable."""
        self.store(name)
        return [each for each in self.all() if name in each.stores or name in each.standby_stores]

    def _stores_of(self, partitions: Iterable[Part]) -> frozenset[str]:
        topics = {topic for topic, _ in partitions}
        return frozenset(name for name, part in self._parts.items() if topics & set(self._topics[part.number]))
