"""ShareAcknowledge, versions 1 and 2 (renewed locks, KIP-1222): a member of a share group acknowledges records that it
has acquired, without fetching. With the session epoch -1 its session ends, and the records that it holds are released.

As in Kafka, the membership is not checked: the lock of a record names the member. Operators change records of any
member without a session, by a tagged field that Kafka does not have (wire.share_operations).
"""

from __future__ import annotations

from uuid import UUID

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.handlers.shared import share_operations, share_requests
from broker_cy.handlers.shared.share_requests import LEADER_ERRORS, Errors, topic_name
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.share.sessions import FINAL_EPOCH
from broker_cy.share_service.operations import Applied
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.share_operations import changed_tags, read_operation

Response = messages.ShareAcknowledgeResponse


@handler(ApiKey.SHARE_ACKNOWLEDGE)
async def share_acknowledge(ctx: RequestContext, request: messages.ShareAcknowledgeRequest) -> Response:
    service = ctx.broker.share
    try:
        operation = read_operation(request._unknown_tags)
    except WireError as error:
        return Response(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
    if operation is not None:
        try:
            results = await share_operations.operate(ctx, request, operation)
        except KafkaError as error:
            return Response(error_code=error.code)
        return _answered(ctx, results, service.config_of(request.group_id or "").lock_ms)
    try:
        key = share_requests.session_key(ctx, request.group_id, request.member_id)
        session = service.sessions.take(key, request.share_session_epoch)
    except KafkaError as error:
        return Response(error_code=error.code)
    names = [name for topic in request.topics if (name := topic_name(ctx, topic.topic_id)) is not None]
    readable = ctx.allowed(Operation.READ, ResourceType.TOPIC, names)
    errors = await share_requests.acknowledge(
        ctx, key, request.topics, readable, is_renew_ack=ctx.version >= 2 and request.is_renew_ack
    )
    if request.share_session_epoch == FINAL_EPOCH:
        service.close_session(session)
    return _answered(ctx, errors, service.config_of(key.group_id).lock_ms)


def _answered(ctx: RequestContext, results: Errors | share_operations.Results, lock_ms: int) -> Response:
    topics: dict[UUID, list[Response.PartitionData]] = {}
    endpoints: dict[int, Response.NodeEndpoint] = {}
    for partition, error in results.items():
        result = Response.PartitionData(partition_index=partition.partition)
        if isinstance(error, Applied):
            result._unknown_tags = changed_tags(error.changed)
        elif error is not None:
            result.error_code = error.code
            result.error_message = error.message or None
            if error.code in LEADER_ERRORS:
                leader = share_requests.current_leader(ctx, partition)
                result.current_leader.leader_id = leader.leader_id
                result.current_leader.leader_epoch = leader.leader_epoch
                if leader.address is not None:
                    host, port, rack = leader.address
                    endpoints[leader.leader_id] = Response.NodeEndpoint(
                        node_id=leader.leader_id, host=host, port=port, rack=rack
                    )
        topics.setdefault(partition.topic_id, []).append(result)
    return Response(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            Response.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=list(endpoints.values()),
    )
