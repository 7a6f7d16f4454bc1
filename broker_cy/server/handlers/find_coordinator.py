"""FindCoordinator, versions 0 to 6: which broker coordinates a group.

1 names the type of the key, 4 asks for several keys, 6 has share coordinators. The first one asked for creates
`__consumer_offsets`. Omissions: there is no coordinator for transactions and for the state of share groups yet.

Transactional producers are refused here, with TRANSACTIONAL_ID_AUTHORIZATION_FAILED and in words. UNSUPPORTED_VERSION
would be nearer to the truth, but librdkafka takes any other code that fits, here and from InitProducerId, for
something that passes, and asks until its timeout; at this one every client gives up at once. The Java client and
kafka-python do not show the words, so the log has them, too: there are no ACLs to look for.
"""

from __future__ import annotations

from typing import NamedTuple

from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import NO_LEADER
from broker_cy.server import log_events
from broker_cy.server.registry import RequestContext, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

GROUP = 0
TRANSACTION = 1
SHARE = 2
VERSION_KEYS = 4
VERSION_SHARE = 6


class Found(NamedTuple):
    """Where the coordinator is; node -1 with a code other than NONE."""

    code: ErrorCode
    message: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1


@handler(
    ApiKey.FIND_COORDINATOR,
    versions=(0, 6),
    omissions="share coordinators get UNSUPPORTED_VERSION, transactional ones TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
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
    if key_type == TRANSACTION:
        log_events.transactions_refused(key, ctx.client_host)
        return Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker does not serve transactions yet")
    if key_type == SHARE and ctx.version >= VERSION_SHARE:
        return Found(ErrorCode.UNSUPPORTED_VERSION, "this broker does not serve share groups yet")
    if key_type != GROUP:
        return Found(
            ErrorCode.INVALID_REQUEST,
            f"coordinator type {key_type} is not one of 0 (group), 1 (transaction) and, from version 6 on, 2 (share)",
        )
    groups = ctx.broker.groups
    code = await groups.ensure_topic()
    if code is not ErrorCode.NONE:
        return Found(code, "the internal topic of the coordinator cannot be created")
    return _leader(ctx, groups.partition_for(key))


def _leader(ctx: RequestContext, index: int) -> Found:
    """The broker that leads the partition of `__consumer_offsets`, as clients of this listener reach it."""
    image = ctx.broker.image
    topic = image.topics.by_name(OFFSETS_TOPIC)
    partition = topic.partitions.get(index) if topic is not None else None
    return _address(ctx, partition.leader if partition is not None else NO_LEADER)


def _address(ctx: RequestContext, node_id: int) -> Found:
    """A broker as clients of this listener reach it."""
    broker = ctx.broker.image.brokers.get(node_id)
    endpoint = broker.listeners.get(ctx.listener) if broker is not None and not broker.fenced else None
    if broker is None or endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the partition of the coordinator has no leader")
    return Found(ErrorCode.NONE, "", broker.broker_id, endpoint.host, endpoint.port)
