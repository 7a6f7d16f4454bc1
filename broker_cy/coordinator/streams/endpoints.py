"""Which partitions are served at which endpoint: with it, an application finds the member that has a key."""

from __future__ import annotations

from broker_cy.coordinator.assignors.streams_spec import Tasks
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages

Response = messages.StreamsGroupHeartbeatResponse


def partitions_by_endpoint(group: StreamsGroup, image: MetadataImage) -> list[Response.EndpointToPartitions]:
    """The input partitions of the tasks of each member that has an endpoint."""
    return [
        Response.EndpointToPartitions(
            user_endpoint=Response.Endpoint(host=member.endpoint.host, port=member.endpoint.port),
            active_partitions=_partitions(
                group,
                {subtopology: frozenset(tasks) for subtopology, tasks in member.assigned.active.items()},
                image,
            ),
            standby_partitions=_partitions(group, member.assigned.standby, image),
        )
        for member in group.members.values()
        if member.endpoint is not None
    ]


def _partitions(group: StreamsGroup, tasks: Tasks, image: MetadataImage) -> list[Response.TopicPartition]:
    """A task reads the partition of its number of each input that has it. Topics that do not exist are left out; Kafka
    4.3 fails on them.
    """
    if group.topology is None:
        return []
    found = []
    for subtopology in group.topology.subtopologies:
        numbers = tasks.get(subtopology.subtopology_id)
        if numbers is None:
            continue
        for name in dict.fromkeys(subtopology.inputs()):
            topic = image.topics.by_name(name)
            partitions = [] if topic is None else sorted(number for number in numbers if number in topic.partitions)
            if partitions:
                found.append(Response.TopicPartition(topic=name, partitions=partitions))
    return found
