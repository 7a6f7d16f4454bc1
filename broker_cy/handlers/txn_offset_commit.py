"""TxnOffsetCommit, versions 0 to 5: offsets that count once the producer's transaction is committed.

2 has the leader epoch, 3 names the member (KIP-447), 4 knows TRANSACTION_ABORTABLE, and from 5 on the group's partition
of `__consumer_offsets` is added to the transaction by this request (KIP-890); before, AddOffsetsToTxn did that, and
this broker verifies it with the transaction coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.commit import txn_commit_error
from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.coordinator.step import append_error
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from broker_cy.metadata.image import MetadataImage
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.verification import Verification

VERSION_LOADING_KNOWN = 2
VERSION_ABORTABLE = 4
VERSION_ADDS = 5

RequestTopic = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
RequestPartition = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
ResponseTopic = messages.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = messages.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


@handler(ApiKey.TXN_OFFSET_COMMIT)
async def txn_offset_commit(
    ctx: RequestContext, request: messages.TxnOffsetCommitRequest
) -> messages.TxnOffsetCommitResponse:
    if not ctx.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return txn_commit_error(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return txn_commit_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    readable = ctx.allowed(Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    refused = [topic for topic in request.topics if topic.name not in readable]
    request.topics, missing = _split(ctx.broker.image, [topic for topic in request.topics if topic.name in readable])
    response = messages.TxnOffsetCommitResponse(topics=[])
    if request.topics:
        try:
            response = await _commit(ctx, request)
        except KafkaError as error:
            response = txn_commit_error(request, append_error(error.code))
    response = _with_failed(response, missing, refused)
    if ctx.version < VERSION_LOADING_KNOWN:
        # Clients of that time may crash on the other one (KAFKA-7296).
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response


async def _commit(ctx: RequestContext, request: messages.TxnOffsetCommitRequest) -> messages.TxnOffsetCommitResponse:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    runtime = await ctx.broker.groups.ready(request.group_id)
    verification = await _verify(ctx, request, runtime.partition)
    # The coordinator may have changed meanwhile.
    runtime = ctx.broker.groups.runtime_for(request.group_id)
    response: messages.TxnOffsetCommitResponse = await runtime.commit_transactional(request, verification)
    return response


async def _verify(
    ctx: RequestContext, request: messages.TxnOffsetCommitRequest, partition: Partition
) -> Verification | None:
    """Return the verification that the append needs. Raises KafkaError if the transaction coordinator refuses."""
    adds = ctx.version >= VERSION_ADDS
    verification = partition.verify_producer(request.producer_id, request.producer_epoch, adds=adds)
    if verification is None:
        return None
    place = (OFFSETS_TOPIC, partition.index)
    answers = await ctx.broker.transactions.verify(
        request.transactional_id, request.producer_id, request.producer_epoch, [place], add=adds
    )
    code = answers.get(place, ErrorCode.NONE)
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and ctx.version < VERSION_ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    if code is not ErrorCode.NONE:
        raise KafkaError(code)
    return verification


def _split(image: MetadataImage, topics: Iterable[RequestTopic]) -> tuple[list[RequestTopic], list[RequestTopic]]:
    """Split the topics of a request into partitions that exist and partitions that do not."""
    known: list[RequestTopic] = []
    missing: list[RequestTopic] = []
    for topic in topics:
        found = image.topics.by_name(topic.name)
        parts: tuple[list[RequestPartition], list[RequestPartition]] = ([], [])
        for partition in topic.partitions:
            exists = found is not None and partition.partition_index in found.partitions
            parts[0 if exists else 1].append(partition)
        for where, partitions in zip((known, missing), parts, strict=True):
            if partitions:
                where.append(RequestTopic(name=topic.name, partitions=partitions))
    return known, missing


def _with_failed(
    response: messages.TxnOffsetCommitResponse, missing: Iterable[RequestTopic], refused: Iterable[RequestTopic]
) -> messages.TxnOffsetCommitResponse:
    """Return the answer with committed partitions after missing ones, as in Kafka; a topic with both has one entry."""
    by_name: dict[str, ResponseTopic] = {}
    failed = [(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for topic in missing]
    failed += [(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in refused]
    for topic, code in failed:
        found = by_name.setdefault(topic.name, ResponseTopic(name=topic.name, partitions=[]))
        found.partitions.extend(
            ResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in topic.partitions
        )
    for done in response.topics:
        found = by_name.setdefault(done.name, done)
        if found is not done:
            found.partitions.extend(done.partitions)
    return messages.TxnOffsetCommitResponse(topics=list(by_name.values()))
