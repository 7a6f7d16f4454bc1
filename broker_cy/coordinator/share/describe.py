"""ShareGroupDescribe: one group, as its written records have it."""

from __future__ import annotations

from broker_cy.coordinator.group import Group, GroupType, not_found
from broker_cy.coordinator.modern.description import Description, existing_topics
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages

Response = messages.ShareGroupDescribeResponse


def describe(
    group: Group | None, group_id: str, assignor: str, image: MetadataImage
) -> Description[Response.DescribedGroup]:
    """A group of another type is an error, and so is a missing one (None)."""
    if not isinstance(group, ShareGroup):
        error = not_found(group, group_id, GroupType.SHARE)
        return Description(
            Response.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        )
    found = Response.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
    )
    # Members are values: the group may change before the last one is described.
    described = (_member(member, image) for member in list(group.members.values()))
    return Description(found, described, topics_of=_topic_names)


def _topic_names(member: Response.Member) -> set[str]:
    return {topic.topic_name for topic in member.assignment.topic_partitions}


def _member(member: ShareMember, image: MetadataImage) -> Response.Member:
    return Response.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Response.Assignment(
            topic_partitions=[
                Response.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
                for topic_id, name, partitions in existing_topics(member.assigned, image)
            ]
        ),
    )
