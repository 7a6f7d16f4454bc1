"""The topics of an application: their numbers of partitions, and internal topics, which are created before a run.

In a streams group the coordinator creates internal topics. Spark's tasks are members of no group, so the driver does
it, with the same names, numbers and settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_streams.hosts.announced import announced, new_topic
from broker_streams.hosts.settings import HostSettings
from broker_streams.plan.partitions import partitions_of
from broker_streams.plan.topology import Sink, Source, Subtopology, Topology, TopologyError


@dataclass(frozen=True)
class Topics:
    """`counts` are numbers of partitions by names in the cluster."""

    topology: Topology
    application_id: str
    counts: Mapping[str, int]
    global_inputs: tuple[TopicPartition, ...]

    def inputs(self, part: Subtopology) -> dict[int, tuple[TopicPartition, ...]]:
        """The inputs of each task of a sub-topology: its partition n of each topic goes to task n."""
        found: dict[int, list[TopicPartition]] = {}
        for source in part.sources:
            for topic in source.topics:
                name = self.topology.decorated(topic, self.application_id)
                for number in range(self.counts[name]):
                    found.setdefault(number, []).append(TopicPartition(name, number))
        return {number: tuple(found[number]) for number in sorted(found)}


async def prepared(client: AdminClient, topology: Topology, settings: HostSettings) -> Topics:
    """Create what is missing. Raises TopologyError: a topic of the user is missing, joined topics do not fit, a pattern
    of topics is read, or an internal topic has another number of partitions. ClientError: the cluster refuses.
    """
    name_of = settings.application_id
    for node in topology.nodes:
        if isinstance(node, Source) and node.pattern is not None:
            raise TopologyError(f"source {node.name} reads topics by the pattern {node.pattern}; name them instead")
    read = {topic for node in topology.nodes if isinstance(node, Source) for topic in node.topics}
    outer = {topic for topic in read if not topology.is_internal(topic)}
    written = {node.topic for node in topology.nodes if isinstance(node, Sink) and node.topic is not None}
    present = await _counts(client, outer | {topic for topic in written if not topology.is_internal(topic)})
    partitions = partitions_of(topology, present)
    wanted: dict[str, NewTopic] = {}
    by_number = {str(part.number): part for part in topology.subtopologies()}
    made = announced(
        topology,
        name_of,
        replication_factor=settings.replication_factor,
        topic_config=settings.topic_config,
        additional_retention_ms=settings.additional_retention_ms,
    )
    for each in made.subtopologies:
        for topic in each.repartition_source_topics:
            count = partitions.of_topic[topic.name.removeprefix(f"{name_of}-")]
            wanted[topic.name] = new_topic(topic, count)
        for topic in each.state_changelog_topics:
            wanted[topic.name] = new_topic(topic, partitions.tasks(by_number[each.subtopology_id]))
    await _create(client, wanted)
    inner = await _counts(client, wanted)
    for name, new in wanted.items():
        if inner[name] != new.partitions:
            raise TopologyError(
                f"internal topic {name} has {inner[name]} partitions, and the application needs {new.partitions}:"
                " reset the application, or give it another application.id"
            )
    counts = present | inner
    reading = [
        node.topics for node in topology.nodes if isinstance(node, Source) and node.name in topology.global_nodes
    ]
    return Topics(
        topology,
        name_of,
        counts,
        tuple(TopicPartition(topic, number) for names in reading for topic in names for number in range(counts[topic])),
    )


async def _counts(client: AdminClient, names: Iterable[str]) -> dict[str, int]:
    """The numbers of partitions of those topics that exist. Raises ClientError."""
    found = {}
    for name in sorted(names):
        try:
            found[name] = len(await client.records.partitions(name))
        except ClientError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return found


async def _create(client: AdminClient, wanted: Mapping[str, NewTopic]) -> None:
    present = await _counts(client, wanted)
    missing = [topic for name, topic in wanted.items() if name not in present]
    if missing:
        for error in (await client.topics.create(missing)).failed.values():
            # Another process of the same application was quicker.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error
