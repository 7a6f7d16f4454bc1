"""ConsumerGroupDescribe: one group, as its written records have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember, united, without_epochs
from broker_cy.coordinator.group import Group
from broker_cy.coordinator.modern.group import NO_PARTITIONS
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages

Response = messages.ConsumerGroupDescribeResponse

_CLASSIC, _CONSUMER = 0, 1


def describe(
    group: Group | None, group_id: str, default_assignor: str, image: MetadataImage
) -> Response.DescribedGroup:
    """A group of another type is an error, and so is a missing one (None)."""
    found = describe_without_members(group, group_id, default_assignor)
    if isinstance(group, ConsumerGroup):
        found.members = describe_members(group.members.values(), group.target, image)
    return found


def describe_without_members(group: Group | None, group_id: str, default_assignor: str) -> Response.DescribedGroup:
    """`describe`, up to the members."""
    if not isinstance(group, ConsumerGroup):
        reason = (
            f"there is no group {group_id}"
            if group is None
            else f"{group_id} is a {group.group_type.value} group, not a consumer group"
        )
        return Response.DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason)
    return Response.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
    )


def describe_members(
    members: Iterable[ConsumerMember], target: Mapping[str, Assignment], image: MetadataImage
) -> list[Response.Member]:
    """Members, and the target assignment of each."""
    return [_member(member, target.get(member.member_id, NO_PARTITIONS), image) for member in members]


def topic_names(members: Iterable[Response.Member]) -> set[str]:
    """The topics in the assignments of described members."""
    return {
        topic.topic_name
        for member in members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def _member(member: ConsumerMember, target: Assignment, image: MetadataImage) -> Response.Member:
    # The member answers for partitions until it has given them up.
    held = without_epochs(united((member.assigned, member.revoking)))
    return Response.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held, image),
        target_assignment=_assignment(target, image),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(assignment: Assignment, image: MetadataImage) -> Response.Assignment:
    """Without topics that were deleted."""
    topics = []
    for topic_id, partitions in assignment.items():
        topic = image.topics.by_id(topic_id)
        if topic is not None:
            topics.append(
                Response.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
            )
    return Response.Assignment(topic_partitions=topics)
