"""A ShareAcknowledge by which an operator changes records in flight (wire.share_operations)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.broker.context import RequestContext
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.share_requests import exists, topic_name
from broker_cy.metrics.events import ShareRecordsChanged
from broker_cy.security.acls import Operation as Right
from broker_cy.security.acls import ResourceType
from broker_cy.share.sessions import TopicPartition
from broker_cy.share_service.operations import Applied, Ranges, apply_operation
from broker_cy.wire import messages
from broker_cy.wire.share_operations import Operation

Results = dict[TopicPartition, Applied | KafkaError]


async def operate(ctx: RequestContext, request: messages.ShareAcknowledgeRequest, operation: Operation) -> Results:
    """Change the records, and return the result of each partition. Raises KafkaError for the request as a whole.

    A client needs the rights of AlterShareGroupOffsets, which skips and repeats records, too.
    """
    group_id = request.group_id
    if not ctx.broker.share.is_enabled:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not ctx.allows(Right.READ, ResourceType.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [name for topic in request.topics if (name := topic_name(ctx, topic.topic_id)) is not None]
    readable = ctx.allowed(Right.READ, ResourceType.TOPIC, names)
    results: Results = {}
    wanted: dict[TopicPartition, Ranges] = {}
    for topic in request.topics:
        name = topic_name(ctx, topic.topic_id)
        for each in topic.partitions:
            partition = TopicPartition(topic.topic_id, each.partition_index)
            ranges = [(batch.first_offset, batch.last_offset) for batch in each.acknowledgement_batches]
            if name is None:
                results[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            elif name not in readable:
                results[partition] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not exists(ctx, partition):
                results[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif (problem := _problem(ranges)) is not None:
                results[partition] = KafkaError(ErrorCode.INVALID_REQUEST, problem)
            else:
                wanted[partition] = ranges
    results |= await apply_operation(ctx.broker.share, group_id, request.member_id or None, operation, wanted)
    if not operation.is_preview:
        _note(ctx, group_id, request.member_id or "", operation, wanted, results)
    return results


def _problem(ranges: Ranges) -> str | None:
    """Return why ranges are refused; None if they are valid."""
    if not ranges:
        return "no offsets are named"
    for first, last in ranges:
        if not 0 <= first <= last:
            return f"offsets {first} to {last}: the first one must be at least 0, and at most the last one"
    return None


def _note(
    ctx: RequestContext,
    group_id: str,
    member_id: str,
    operation: Operation,
    wanted: Iterable[TopicPartition],
    results: Results,
) -> None:
    for partition in wanted:
        result, name = results[partition], topic_name(ctx, partition.topic_id)
        if isinstance(result, Applied) and name is not None:
            ctx.broker.events.note(
                ShareRecordsChanged(
                    group_id, name, partition.partition, operation.action.name.lower(), result.changed.records,
                    result.first_offset, result.last_offset, member_id, ctx.client,
                )
            )  # fmt: skip
