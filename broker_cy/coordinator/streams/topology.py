"""The topology of an application, as its members send it and the log has it: immutable values.

A subtopology is a part of the application that reads a set of topics, writes into others, and keeps its state in
changelog topics. The application makes the repartition and changelog topics by itself, or rather the coordinator does
for it: they are internal topics.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import codec, messages

Value = messages.StreamsGroupTopologyValue


class InternalTopic(NamedTuple):
    """A repartition or changelog topic. The number of `partitions` is 0 if the coordinator decides it, and the
    replication factor if the broker does.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics that must have the same number of partitions, as indexes into the lists of their subtopology."""

    sources: tuple[int, ...]
    source_regexes: tuple[int, ...]
    repartition_sources: tuple[int, ...]


class Subtopology(NamedTuple):
    """`sources` are topics of users; `repartition_sources` are read, and `repartition_sinks` are written."""

    subtopology_id: str
    sources: tuple[str, ...]
    source_regexes: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartitions: tuple[CopartitionGroup, ...]

    def inputs(self) -> tuple[str, ...]:
        """The topics that its tasks read: there may be 10,000."""
        return (*self.sources, *(topic.name for topic in self.repartition_sources))


class Topology(NamedTuple):
    """The subtopologies have different ids, and are sorted by them."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def required_topics(self) -> set[str]:
        """The topics whose metadata the tasks depend on."""
        found: set[str] = set()
        for each in self.subtopologies:
            found.update(each.inputs())
            found.update(topic.name for topic in each.changelogs)
        return found

    def readers(self) -> dict[str, str]:
        """The subtopology that reads each topic; of several, the last one, as with Kafka."""
        found: dict[str, str] = {}
        for each in self.subtopologies:
            found.update(dict.fromkeys(each.inputs(), each.subtopology_id))
        return found


def of_request(topology: messages.StreamsGroupHeartbeatRequest.Topology) -> Topology:
    """Raises KafkaError(UNKNOWN_SERVER_ERROR), as Kafka does, for a negative epoch and for an id that occurs twice."""
    if topology.epoch < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the topology epoch {topology.epoch} is negative")
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "two subtopologies have the same id")
    return Topology(topology.epoch, _subtopologies(topology.subtopologies))


def of_value(value: bytes) -> Topology:
    """Raises WireError if the value of the record is malformed."""
    data, _ = codec.decode_versioned(Value, value)
    return Topology(data.epoch, _subtopologies(data.subtopologies))


def to_value(topology: Topology) -> Value:
    return Value(
        epoch=topology.epoch,
        subtopologies=[
            Value.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.sources),
                source_topic_regex=list(each.source_regexes),
                state_changelog_topics=[_info(topic) for topic in each.changelogs],
                repartition_sink_topics=list(each.repartition_sinks),
                repartition_source_topics=[_info(topic) for topic in each.repartition_sources],
                copartition_groups=[
                    Value.CopartitionGroup(
                        source_topics=list(group.sources),
                        source_topic_regex=list(group.source_regexes),
                        repartition_source_topics=list(group.repartition_sources),
                    )
                    for group in each.copartitions
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _info(topic: InternalTopic) -> Value.TopicInfo:
    return Value.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[Value.TopicConfig(key=key, value=value) for key, value in topic.configs],
    )


def _subtopologies(
    found: Iterable[Value.Subtopology | messages.StreamsGroupHeartbeatRequest.Subtopology],
) -> tuple[Subtopology, ...]:
    made = (
        Subtopology(
            each.subtopology_id,
            tuple(each.source_topics),
            tuple(each.source_topic_regex),
            _topics(each.state_changelog_topics),
            tuple(each.repartition_sink_topics),
            _topics(each.repartition_source_topics),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics),
                    tuple(group.source_topic_regex),
                    tuple(group.repartition_source_topics),
                )
                for group in each.copartition_groups
            ),
        )
        for each in found
    )
    return tuple(sorted(made, key=lambda each: each.subtopology_id))


def _topics(
    infos: Iterable[Value.TopicInfo | messages.StreamsGroupHeartbeatRequest.TopicInfo],
) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            info.name,
            info.partitions,
            info.replication_factor,
            tuple((config.key, config.value) for config in info.topic_configs),
        )
        for info in infos
    )
