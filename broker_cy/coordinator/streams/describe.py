"""StreamsGroupDescribe: one group, as its written records have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.coordinator.assignors.streams_spec import NO_TASKS, TaskAssignment
from broker_cy.coordinator.group import Group, GroupType, not_found
from broker_cy.coordinator.modern.description import Description
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import StreamsMember
from broker_cy.coordinator.streams.records import task_ids
from broker_cy.coordinator.streams.topology import InternalTopic, Subtopology
from broker_cy.wire import messages

Response = messages.StreamsGroupDescribeResponse


def describe(group: Group | None, group_id: str) -> Description[Response.DescribedGroup]:
    """A group of another type is an error, and so is a missing one (None)."""
    if not isinstance(group, StreamsGroup):
        error = not_found(group, group_id, GroupType.STREAMS)
        return Description(
            Response.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        )
    topology = _topology(group)
    found = Response.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
    )
    # Members and targets are values: the group may change before the last member is described.
    members, target = list(group.members.values()), dict(group.target)
    described = (_member(member, target.get(member.member_id, NO_TASKS)) for member in members)
    return Description(found, described, topics=_topic_names(topology))


def _topic_names(topology: Response.Topology | None) -> set[str]:
    """All topics that the topology names."""
    subtopologies = None if topology is None else topology.subtopologies
    return {
        name
        for each in subtopologies or ()
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }


def _topology(group: StreamsGroup) -> Response.Topology | None:
    """The topology with the numbers of partitions once it fits the topics; before, as the members have sent it."""
    if group.topology is None:
        return None
    shown: Iterable[Subtopology] = group.topology.subtopologies
    configured = group.configured
    if (
        configured is not None
        and configured.topology == group.topology
        and configured.is_ready
        and configured.subtopologies is not None
    ):
        shown = [each.described for each in configured.subtopologies.values()]
    return Response.Topology(epoch=group.topology.epoch, subtopologies=[_subtopology(each) for each in shown])


def _subtopology(subtopology: Subtopology) -> Response.Subtopology:
    return Response.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.sources),
        repartition_sink_topics=sorted(subtopology.repartition_sinks),
        state_changelog_topics=_infos(subtopology.changelogs),
        repartition_source_topics=_infos(subtopology.repartition_sources),
    )


def _infos(topics: Iterable[InternalTopic]) -> list[Response.TopicInfo]:
    return [
        Response.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[Response.KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics)
    ]


def _member(member: StreamsMember, target: TaskAssignment) -> Response.Member:
    endpoint = member.endpoint
    return Response.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Response.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[Response.KeyValue(key=key, value=value) for key, value in member.tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(roles: Iterable[Mapping[str, Iterable[int]]]) -> Response.Assignment:
    active, standby, warmup = (task_ids(Response.TaskIds, tasks) for tasks in roles)
    return Response.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
