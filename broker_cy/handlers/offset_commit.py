"""OffsetCommit, versions 2 to 10.

2 to 4 may have their own retention, 6 has the leader epoch, 7 static members, 9 an error for an unknown group
(KIP-848), 10 names topics by id (KIP-516). Topics and partitions that do not exist get their own errors; the rest is
committed.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import commit
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.uuid import ZERO
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_TOPIC_IDS = 10


@handler(ApiKey.OFFSET_COMMIT)
async def offset_commit(ctx: RequestContext, request: messages.OffsetCommitRequest) -> messages.OffsetCommitResponse:
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return commit.commit_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: list[messages.OffsetCommitResponse.OffsetCommitResponseTopic] = []
    accepted: list[messages.OffsetCommitRequest.OffsetCommitRequestTopic] = []
    for topic in request.topics:
        _sort(ctx, topic, ctx.version >= VERSION_TOPIC_IDS, accepted, refused)
    if not accepted:
        return messages.OffsetCommitResponse(topics=refused)
    request.topics = accepted
    try:
        response: messages.OffsetCommitResponse = await ctx.broker.groups.run(
            request.group_id, commit.commit, request, ctx.version
        )
    except KafkaError as error:
        response = commit.commit_error(request, error.code)
    if refused:
        _merge(response.topics, refused)
    return response


def _sort(
    ctx: RequestContext,
    topic: messages.OffsetCommitRequest.OffsetCommitRequestTopic,
    by_id: bool,
    accepted: list[messages.OffsetCommitRequest.OffsetCommitRequestTopic],
    refused: list[messages.OffsetCommitResponse.OffsetCommitResponseTopic],
) -> None:
    """Split a topic of the request into the existing part, with name and id filled in, and the answer for partitions
    that do not exist, or that the client may not read.
    """
    image = ctx.broker.image
    known = image.topics.by_id(topic.topic_id) if by_id else image.topics.by_name(topic.name)
    code = ErrorCode.NONE
    if by_id and known is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif not ctx.allows(Operation.READ, ResourceType.TOPIC, topic.name if known is None else known.name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif known is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code is not ErrorCode.NONE or known is None:
        results = [
            messages.OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=p.partition_index, error_code=code
            )
            for p in topic.partitions
        ]
        refused.append(
            messages.OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id if by_id else ZERO, partitions=results
            )
        )
        return
    exists = [p for p in topic.partitions if p.partition_index in known.partitions]
    if len(exists) < len(topic.partitions):
        results = [
            messages.OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=p.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for p in topic.partitions
            if p.partition_index not in known.partitions
        ]
        refused.append(
            messages.OffsetCommitResponse.OffsetCommitResponseTopic(
                name=known.name, topic_id=known.topic_id, partitions=results
            )
        )
    if exists:
        accepted.append(
            messages.OffsetCommitRequest.OffsetCommitRequestTopic(
                name=known.name, topic_id=known.topic_id, partitions=exists
            )
        )


def _merge(
    topics: list[messages.OffsetCommitResponse.OffsetCommitResponseTopic],
    refused: list[messages.OffsetCommitResponse.OffsetCommitResponseTopic],
) -> None:
    """Add the answers for missing topics and partitions, to the entry of the same topic if it exists."""
    by_topic = {(topic.name, topic.topic_id): topic for topic in topics}
    for topic in refused:
        found = by_topic.get((topic.name, topic.topic_id))
        if found is None:
            topics.append(topic)
        else:
            found.partitions.extend(topic.partitions)
