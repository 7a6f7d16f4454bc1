"""ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848): members of consumer groups join, report, and learn their
partitions. In version 0 the coordinator makes the member ids; 1 also has subscriptions by regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.consumer import heartbeat, validation
from broker_cy.coordinator.consumer.heartbeat import heartbeat_error
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import consumer_protocol
from broker_cy.handlers.shared.group_client import client_facts
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), requires="READ on the group, DESCRIBE on each topic of its list"
)
async def consumer_group_heartbeat(
    ctx: RequestContext, request: messages.ConsumerGroupHeartbeatRequest
) -> messages.ConsumerGroupHeartbeatResponse:
    if not consumer_protocol.is_served(ctx):
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return heartbeat_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = request.subscribed_topic_names
    if names and len(ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(set(names)):
        return heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    groups = ctx.broker.groups
    try:
        validation.check_request(request, ctx.version, groups.settings.consumer.assignors)
        response: messages.ConsumerGroupHeartbeatResponse = await groups.run(
            request.group_id,
            heartbeat.heartbeat,
            request,
            client_facts(ctx),
            str(ctx.broker.randomness.uuid()) if not request.member_id else "",
            _may_describe(ctx),
        )
    except KafkaError as error:
        return heartbeat_error(error.code, error.message)
    return response


def _may_describe(ctx: RequestContext) -> Callable[[str], bool] | None:
    """The rights of the client, for topics that match its regular expression; they are not named in the request, so
    none of them is denied.
    """
    authorization = ctx.broker.authorization
    return None if authorization is None else partial(_describes, authorization, ctx.principal, ctx.client_host)


def _describes(authorization: Any, principal: str, host: str, topic: str) -> bool:
    return bool(authorization.mask(principal, host, ResourceType.TOPIC, topic) >> Operation.DESCRIBE & 1)
