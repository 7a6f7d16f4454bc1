"""ShareGroupDescribe: one group, as its written records have it."""

from __future__ import annotations

from broker_cy.coordinator.group import Group
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages

Response = messages.ShareGroupDescribeResponse


def describe(group: Group | None, group_id: str, assignor: str, image: MetadataImage) -> Response.DescribedGroup:
    """A group of another type is an error, and so is a missing one (None)."""
    if not isinstance(group, ShareGroup):
        reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        return Response.DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason)
    return Response.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(member, image) for member in group.members.values()],
    )


def _member(member: ShareMember, image: MetadataImage) -> Response.Member:
    """Without the partitions of topics that were deleted."""
    topics = []
    for topic_id, partitions in member.assigned.items():
        topic = image.topics.by_id(topic_id)
        if topic is not None:
            topics.append(
                Response.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
            )
    return Response.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Response.Assignment(topic_partitions=topics),
    )
