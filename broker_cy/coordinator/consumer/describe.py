"""ConsumerGroupDescribe: one group, as its written records have it."""

from __future__ import annotations

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember, united, without_epochs
from broker_cy.coordinator.group import Group, GroupType, not_found
from broker_cy.coordinator.modern.description import Description, existing_topics
from broker_cy.coordinator.modern.group import NO_PARTITIONS
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages

Response = messages.ConsumerGroupDescribeResponse

_CLASSIC, _CONSUMER = 0, 1


def describe(
    group: Group | None, group_id: str, default_assignor: str, image: MetadataImage
) -> Description[Response.DescribedGroup]:
    """A group of another type is an error, and so is a missing one (None)."""
    if not isinstance(group, ConsumerGroup):
        error = not_found(group, group_id, GroupType.CONSUMER)
        return Description(
            Response.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        )
    found = Response.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
    )
    # Members and targets are values: the group may change before the last member is described.
    members, target = list(group.members.values()), dict(group.target)
    described = (_member(member, target.get(member.member_id, NO_PARTITIONS), image) for member in members)
    return Description(found, described, topics_of=_topic_names)


def _topic_names(member: Response.Member) -> set[str]:
    return {
        topic.topic_name
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
    return Response.Assignment(
        topic_partitions=[
            Response.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            for topic_id, name, partitions in existing_topics(assignment, image)
        ]
    )
