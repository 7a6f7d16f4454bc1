"""A topology against the topics of the cluster: the number of partitions of each internal topic, the number of tasks of
each subtopology, and what is missing. Values in, a value out.

As in Kafka, subtopologies are looked at in the order of their ids, which decides where two answers are possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NoReturn

from broker_cy.coordinator.assignors import streams_spec
from broker_cy.coordinator.streams.topology import InternalTopic, Subtopology, Topology
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError

# Topics that a message names; of the others it has the number.
NAMES_MAX: Final = 3

# The number of partitions of a topic of the cluster; None if it does not exist.
Count = Callable[[str], int | None]


class Status(IntEnum):
    """The status codes of a heartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(NamedTuple):
    """Why a topology has no tasks yet."""

    status: Status
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """`described` has the numbers of partitions of its internal topics."""

    tasks: int
    described: Subtopology


class ConfiguredTopology(NamedTuple):
    """`subtopologies` (by id) are None if the topics do not fit; `missing` are the internal topics to be created. The
    metadata hash is None if it was not known yet.
    """

    topology: Topology
    metadata_hash: int | None
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...]
    problem: Problem | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    def spec(self) -> dict[str, streams_spec.Subtopology]:
        """The tasks, for the assignor; none unless the topology is ready."""
        if not self.is_ready or self.subtopologies is None:
            return {}
        return {
            subtopology_id: streams_spec.Subtopology(each.tasks, bool(each.described.changelogs))
            for subtopology_id, each in self.subtopologies.items()
        }


def configure(topology: Topology, metadata_hash: int | None, count: Count) -> ConfiguredTopology:
    """`count` gives the partitions of topics that exist. Raises KafkaError(STREAMS_INVALID_TOPOLOGY) for a topology
    that no topics fit, and KafkaError(UNKNOWN_SERVER_ERROR) for one that Kafka stumbles over.
    """
    copartitioned = [_copartitioned(each) for each in topology.subtopologies]
    try:
        missing_sources = {
            topic
            for each in topology.subtopologies
            if None in map(count, each.sources)
            for topic in each.sources
            if count(topic) is None
        }
        if missing_sources:
            raise _Unfit(Status.MISSING_SOURCE_TOPICS, f"Source topics {summary(missing_sources)} are missing.")
        decided = _Decided(topology, count)
        decided.repartition_topics()
        for groups in copartitioned:
            for group in groups:
                decided.copartition(group)
        decided.changelogs()
        subtopologies = {each.subtopology_id: decided.configured(each) for each in topology.subtopologies}
        missing = _missing(subtopologies, count)
    except _Unfit as unfit:
        return ConfiguredTopology(topology, metadata_hash, None, (), unfit.problem)
    problem = None
    if missing:
        names = summary(topic.name for topic in missing)
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology, metadata_hash, subtopologies, missing, problem)


def summary(names: Iterable[str]) -> str:
    """The first names, and how many there are besides."""
    ordered = sorted(names)
    more = len(ordered) - NAMES_MAX
    return ", ".join(ordered[:NAMES_MAX]) + (f" and {more} additional topics" if more > 0 else "")


class _Unfit(Exception):
    """The topics do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def _partitioned(detail: str) -> _Unfit:
    return _Unfit(Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)


def _stumble(reason: str) -> NoReturn:
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)


def _copartitioned(subtopology: Subtopology) -> list[set[str]]:
    """The topics of each copartition group. Raises KafkaError for an index without a topic."""
    groups = []
    for group in subtopology.copartitions:
        names: set[str] = set()
        for indexes, topics in (
            (group.sources, subtopology.sources),
            (group.repartition_sources, tuple(topic.name for topic in subtopology.repartition_sources)),
        ):
            for index in indexes:
                if not 0 <= index < len(topics):
                    _stumble(f"a copartition group of subtopology {subtopology.subtopology_id} has the index {index}")
                names.add(topics[index])
        groups.append(names)
    return groups


class _Decided:
    """The numbers of partitions that are decided so far."""

    def __init__(self, topology: Topology, count: Count) -> None:
        self._subtopologies = topology.subtopologies
        self._existing = count
        self._counts: dict[str, int] = {}
        sources = [topic for each in topology.subtopologies for topic in each.repartition_sources]
        # Repartition topics whose number of partitions the application has set, and the others.
        self._fixed = {topic.name: topic.partitions for topic in sources if topic.partitions}
        self._flexible = {topic.name for topic in sources if not topic.partitions}

    def _count(self, topic: str) -> int:
        found = self._existing(topic)
        if found is None:
            found = self._counts.get(topic)
        if found is None:
            _stumble(f"the number of partitions of {topic} is not known")
        return found

    def _tasks(self, inputs: Sequence[str]) -> int:
        """The number of partitions of the largest of these topics: there may be 10,000."""
        found = [each for each in map(self._existing, inputs) if each is not None]
        return max(found if len(found) == len(inputs) else map(self._count, inputs))

    def repartition_topics(self) -> None:
        """A repartition topic has as many partitions as the largest input of its first writer whose inputs are known.
        Raises KafkaError if that never ends, or if nothing writes a topic.
        """
        counts = dict(self._fixed)
        while True:
            has_unknown = has_progress = False
            for each in self._subtopologies:
                for sink in each.repartition_sinks:
                    if sink in counts:
                        continue
                    inputs = [counts[topic.name] for topic in each.repartition_sources if topic.name in counts]
                    inputs += [found for topic in each.sources if (found := self._existing(topic)) is not None]
                    if inputs:
                        counts[sink] = max(inputs)
                        has_progress = True
                    else:
                        has_unknown = True
            if not has_unknown:
                break
            if not has_progress:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                    "topology that cannot be resolved."
                )
        if not self._flexible <= counts.keys():
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
                "is never used as a sink topic."
            )
        self._counts.update(counts)

    def copartition(self, group: set[str]) -> None:
        """Give the repartition topics of the group the same number of partitions. Raises _Unfit if its topics differ,
        and KafkaError.
        """
        if not group:
            return
        repartitioned = {
            topic: self._count(topic) for topic in group if topic in self._fixed or topic in self._flexible
        }
        others = {topic: self._count(topic) for topic in group if topic not in repartitioned}
        if others:
            wanted = _same(others, others)
        elif self._fixed:
            # As in Kafka, all topics with a set number count here, also those of other groups.
            wanted = _same({topic: self._count(topic) for topic in self._fixed}, repartitioned)
        else:
            wanted = max(repartitioned.values())
        for topic, found in repartitioned.items():
            self._counts[topic] = wanted
            if topic in self._fixed and found != wanted:
                raise _partitioned(
                    f"Number of partitions [{found}] of repartition topic [{topic}] doesn't match number of partitions "
                    f"[{wanted}] of the source topic."
                )

    def changelogs(self) -> None:
        """A changelog topic has a partition for each task. Raises KafkaError for a subtopology without inputs."""
        for each in self._subtopologies:
            inputs = each.inputs()
            if not inputs:
                raise _invalid(f"No source topics found for subtopology {each.subtopology_id}")
            tasks = self._tasks(inputs)
            self._counts.update(dict.fromkeys((topic.name for topic in each.changelogs), tasks))

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Raises KafkaError for an internal topic that occurs twice, or has no partitions."""
        topics = []
        for part in (subtopology.repartition_sources, subtopology.changelogs):
            if len({topic.name for topic in part}) < len(part):
                _stumble(f"an internal topic of subtopology {subtopology.subtopology_id} occurs twice")
            named = tuple(topic._replace(partitions=topic.partitions or self._counts[topic.name]) for topic in part)
            if any(topic.partitions < 1 for topic in named):
                _stumble(f"an internal topic of subtopology {subtopology.subtopology_id} has no partitions")
            topics.append(named)
        tasks = self._tasks(subtopology.inputs())
        described = subtopology._replace(repartition_sources=topics[0], changelogs=topics[1])
        return ConfiguredSubtopology(tasks, described)


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """The only value of `counts`. Raises _Unfit, whose message has `shown`, if there are others."""
    first, *others = dict.fromkeys(counts.values())
    if others:
        topics = ", ".join(f"{topic}={shown[topic]}" for topic in sorted(shown))
        raise _partitioned(f"Following topics do not have the same number of partitions: [{{{topics}}}]")
    return first


def _missing(subtopologies: Mapping[str, ConfiguredSubtopology], count: Count) -> tuple[InternalTopic, ...]:
    """The internal topics that do not exist, by name. Raises _Unfit if one exists with other partitions."""
    wanted = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.described.repartition_sources, *each.described.changelogs)
    }
    for name in sorted(wanted):
        found = count(name)
        if found is not None and found != wanted[name].partitions:
            raise _partitioned(
                f"Existing topic {name} has different number of partitions: expected {wanted[name].partitions}, found "
                f"{found}"
            )
    return tuple(wanted[name] for name in sorted(wanted) if count(name) is None)
