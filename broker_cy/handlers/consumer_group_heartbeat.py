"""ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848): members of consumer groups join, report, and learn their
partitions. In version 0 the coordinator makes the member ids; 1 also has subscriptions by regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.consumer import heartbeat, validation
from broker_cy.coordinator.consumer.heartbeat import heartbeat_error
from broker_cy.coordinator.consumer.steady import steady_heartbeat
from broker_cy.coordinator.step import ClientFacts
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import group_protocols
from broker_cy.handlers.shared.group_client import client_facts
from broker_cy.handlers.shared.steady_heartbeats import steady_answer
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse

# A group sends it all the time: members of enumerations are slow to look up.
_READ, _DESCRIBE, _GROUP, _TOPIC = Operation.READ, Operation.DESCRIBE, ResourceType.GROUP, ResourceType.TOPIC


@handler(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(ctx: RequestContext, request: Request) -> Response | Coroutine[Any, Any, Response]:
    if not group_protocols.is_consumer_served(ctx):
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    if ctx.broker.authorization is not None:
        if not ctx.allows(_READ, _GROUP, request.group_id):
            return heartbeat_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        names = request.subscribed_topic_names
        if names and len(ctx.allowed(_DESCRIBE, _TOPIC, names)) < len(set(names)):
            return heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    steady = steady_answer(ctx, request, steady_heartbeat)
    return _answered(ctx, request, client_facts(ctx)) if steady is None else steady


async def _answered(ctx: RequestContext, request: Request, client: ClientFacts) -> Response:
    groups = ctx.broker.groups
    try:
        validation.check_request(request, ctx.version, groups.settings.consumer.assignors)
        response: Response = await groups.run(
            request.group_id,
            heartbeat.heartbeat,
            request,
            client,
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
