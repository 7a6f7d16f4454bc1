"""FindCoordinator, versions 0 to 6: the broker that coordinates a group or a transactional id.

1 names the type of the key, 4 asks for several keys, 6 has share coordinators. The first request creates the
coordinator's topic. A coordinator that is suspected to be gone is named only after the verdict of the controller
(control.watch.suspects). As in Kafka, share coordinators are found whatever the level of share.version is.
"""

from __future__ import annotations

from typing import Any

from broker_cy.access.authorization import MESSAGES
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator_services.coordinator_service import CoordinatorService
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import NO_LEADER
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

GROUP = 0
TRANSACTION = 1
SHARE = 2
VERSION_KEYS = 4
VERSION_SHARE = 6


class Found(NamedTuple):
    """The coordinator's broker; node -1 with a code other than NONE."""

    code: ErrorCode
    message: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1


@handler(
    ApiKey.FIND_COORDINATOR,
    versions=(0, 6),
    requires="DESCRIBE on the group or transactional id; CLUSTER_ACTION on the cluster for share coordinators",
)
async def find_coordinator(
    ctx: RequestContext, request: messages.FindCoordinatorRequest
) -> messages.FindCoordinatorResponse:
    if ctx.version >= VERSION_KEYS:
        found = [(key, await _find(ctx, request.key_type, key)) for key in request.coordinator_keys]
        return messages.FindCoordinatorResponse(
            coordinators=[
                messages.FindCoordinatorResponse.Coordinator(
                    key=key,
                    node_id=one.node_id,
                    host=one.host,
                    port=one.port,
                    error_code=one.code,
                    error_message=one.message,
                )
                for key, one in found
            ]
        )
    one = await _find(ctx, request.key_type, request.key)
    return messages.FindCoordinatorResponse(
        error_code=one.code,
        error_message=one.message or ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(ctx: RequestContext, key_type: int, key: str) -> Found:
    refused = _refusal(ctx, key_type, key)
    if refused is not None:
        return refused
    services: dict[int, CoordinatorService[Any, Any]] = {
        GROUP: ctx.broker.groups,
        TRANSACTION: ctx.broker.transactions,
        SHARE: ctx.broker.share_state,
    }
    service = services[key_type]
    if key_type == SHARE:
        try:
            key = SharePartitionKey.from_text(key).text
        except ValueError as error:
            return Found(ErrorCode.INVALID_REQUEST, str(error))
    code = await service.ensure_topic()
    if code is not ErrorCode.NONE:
        return Found(code, "the internal topic of the coordinator cannot be created")
    # While this waits, the topic may be deleted.
    index = service.partition_for(key)
    found = _leader(ctx, service.topic, index)
    if found.node_id not in (ctx.broker.node_id, NO_LEADER):
        # A client that is sent to a broker which is gone loses more time than the controller needs to decide.
        await ctx.broker.suspects.verdict(lambda: [_leader(ctx, service.topic, index).node_id])
        found = _leader(ctx, service.topic, index)
    return found


def _refusal(ctx: RequestContext, key_type: int, key: str) -> Found | None:
    """Why this client gets no coordinator of this type; None if it does."""
    if key_type == SHARE and ctx.version >= VERSION_SHARE:
        if ctx.allows_cluster(Operation.CLUSTER_ACTION):
            return None
        return Found(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    if key_type not in (GROUP, TRANSACTION):
        return Found(
            ErrorCode.INVALID_REQUEST,
            f"coordinator type {key_type} is not one of 0 (group), 1 (transaction) and, from version 6 on, 2 (share)",
        )
    kind = ResourceType.GROUP if key_type == GROUP else ResourceType.TRANSACTIONAL_ID
    if ctx.allows(Operation.DESCRIBE, kind, key):
        return None
    denied = (
        ErrorCode.GROUP_AUTHORIZATION_FAILED if key_type == GROUP else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    # As in Kafka, answers about several keys have no message.
    return Found(denied, MESSAGES[denied] if ctx.version < VERSION_KEYS else "")


def _leader(ctx: RequestContext, name: str, index: int) -> Found:
    """The broker that leads the partition of an internal topic, as clients of this listener reach it."""
    topic = ctx.broker.image.topics.by_name(name)
    partition = topic.partitions.get(index) if topic is not None else None
    return _address(ctx, partition.leader if partition is not None else NO_LEADER)


def _address(ctx: RequestContext, node_id: int) -> Found:
    """A broker as clients of this listener reach it."""
    broker = ctx.broker.image.brokers.get(node_id)
    endpoint = broker.listeners.get(ctx.listener) if broker is not None and not broker.fenced else None
    if broker is None or endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the partition of the coordinator has no leader")
    return Found(ErrorCode.NONE, "", broker.broker_id, endpoint.host, endpoint.port)
