"""Numbers of partitions of repartition topics, and of tasks.

A repartition topic without a number of the user has as many partitions as the largest topic that the sub-topologies in
front of it read. Topics that are joined have equally many: a repartition topic adapts itself to the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker_streams.plan.topology import Sink, Source, Subtopology, Topology, TopologyError


@dataclass(frozen=True)
class Partitions:
    """By the names in the plan: those of repartition topics lack the application id."""

    topology: Topology
    # All topics that the topology reads, with those of the user.
    of_topic: Mapping[str, int]

    def tasks(self, part: Subtopology) -> int:
        """The number of tasks of a sub-topology: its partition n of each topic goes to task n."""
        return max((self.of_topic[topic] for topic in topics_of(part.sources, self.of_topic)), default=0)


def topics_of(sources: Iterable[Source], topics: Iterable[str]) -> tuple[str, ...]:
    """The topics that sources read: those that they name, and those of `topics` that their patterns match."""
    found: dict[str, None] = {}
    for source in sources:
        found |= dict.fromkeys(source.topics)
        if source.pattern is not None:
            found |= dict.fromkeys(topic for topic in topics if re.fullmatch(source.pattern, topic))
    return tuple(found)


def copartitioned_topics(topology: Topology, topics: Iterable[str] = ()) -> list[set[str]]:
    """Groups of topics that must have equally many partitions, as they are joined directly or by others. Patterns
    stand for those of `topics` that they match.
    """
    by_name = {node.name: node for node in topology.nodes if isinstance(node, Source)}
    groups: list[set[str]] = []
    for names in topology.copartitioned:
        group = set(topics_of((by_name[name] for name in names if name in by_name), topics))
        touched = [each for each in groups if each & group]
        groups = [each for each in groups if not each & group]
        groups.append(group.union(*touched))
    return [each for each in groups if each]


def partitions_of(topology: Topology, counts: Mapping[str, int]) -> Partitions:
    """`counts` has the numbers of partitions of the topics in the cluster, and may have more topics.

    Raises TopologyError: a topic does not exist, or topics that are joined have other numbers of partitions.
    """
    return Partitions(topology, _Counting(topology, counts).counted())


class _Counting:
    def __init__(self, topology: Topology, counts: Mapping[str, int]) -> None:
        self._topology = topology
        self._parts = topology.subtopologies()
        self._given = {each.name: each.partitions for each in topology.repartition_topics}
        self._counts = {name: count for name, count in counts.items() if name not in self._given}
        self._counts |= {name: count for name, count in self._given.items() if count is not None}

    def counted(self) -> dict[str, int]:
        sources = [node for node in self._topology.nodes if isinstance(node, Source)]
        missing = sorted({topic for topic in topics_of(sources, ()) if topic not in self._counts | self._given})
        if missing:
            raise TopologyError(f"the topology reads topics that do not exist: {', '.join(missing)}")
        self._count_repartitions()
        for group in copartitioned_topics(self._topology, self._counts):
            self._adapt(group)
        return {topic: self._counts[topic] for topic in topics_of(sources, self._counts)}

    def _count_repartitions(self) -> None:
        waiting = [name for name in self._given if name not in self._counts]
        while waiting:
            ready = {name: count for name in waiting if (count := self._largest_before(name, False))}
            # Each of a circle of topics waits for another one: they are as large as the topics outside.
            ready = ready or {name: count for name in waiting if (count := self._largest_before(name, True))}
            if not ready:
                shown = ", ".join(sorted(waiting))
                raise TopologyError(f"no topic in front of {shown} exists, so the number of partitions is not known")
            self._counts |= ready
            waiting = [name for name in waiting if name not in ready]

    def _largest_before(self, name: str, skips_unknown: bool) -> int | None:
        """The size of the largest topic that is read in front of a repartition topic; None: some are not known yet."""
        largest = 0
        for part in self._parts:
            if not any(isinstance(node, Sink) and node.topic == name for node in part.nodes):
                continue
            for topic in topics_of(part.sources, self._counts):
                if topic in self._counts:
                    largest = max(largest, self._counts[topic])
                elif not skips_unknown:
                    return None
        return largest or None

    def _adapt(self, group: set[str]) -> None:
        """Raises TopologyError: numbers that the cluster or the user gave differ."""
        # The topics of the cluster decide, then the numbers of the user, then the largest one.
        fixed = {topic: self._counts[topic] for topic in group if topic not in self._given}
        fixed |= {topic: count for topic in group if (count := self._given.get(topic)) is not None}
        if len(set(fixed.values())) > 1:
            shown = ", ".join(f"{topic} has {count}" for topic, count in sorted(fixed.items()))
            raise TopologyError(f"topics that are joined have different numbers of partitions: {shown}")
        count = next(iter(fixed.values())) if fixed else max(self._counts[topic] for topic in group)
        self._counts |= dict.fromkeys(group, count)
