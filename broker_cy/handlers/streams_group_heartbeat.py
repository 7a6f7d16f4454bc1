"""StreamsGroupHeartbeat, version 0 (KIP-1071): members of streams groups join, report, and learn their tasks.

Omissions, as in Kafka 4.3: static members, warm-up tasks, task offsets, regular expressions of source topics, and
changes of the topology are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.streams import heartbeat, validation
from broker_cy.coordinator.streams.heartbeat import heartbeat_error
from broker_cy.coordinator.streams.internal_topics import MemberRights, Requester
from broker_cy.coordinator.streams.steady import steady_heartbeat
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import group_protocols
from broker_cy.handlers.shared.group_client import client_facts
from broker_cy.handlers.shared.steady_heartbeats import steady_answer
from broker_cy.metadata.topic_names import invalid_reason, is_internal
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.StreamsGroupHeartbeatRequest
Response = messages.StreamsGroupHeartbeatResponse

# A group sends it all the time: members of enumerations are slow to look up.
_READ, _GROUP = Operation.READ, ResourceType.GROUP


@handler(ApiKey.STREAMS_GROUP_HEARTBEAT)
def streams_group_heartbeat(ctx: RequestContext, request: Request) -> Response | Coroutine[Any, Any, Response]:
    if not group_protocols.is_streams_served(ctx):
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    if ctx.broker.authorization is not None and not ctx.allows(_READ, _GROUP, request.group_id):
        return heartbeat_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    steady = steady_answer(ctx, request, steady_heartbeat)
    return _answered(ctx, request) if steady is None else steady


async def _answered(ctx: RequestContext, request: Request) -> Response:
    names = _topics(request)
    if internal := [name for name in names if is_internal(name)]:
        return heartbeat_error(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited.",
        )
    if invalid := [name for name in names if invalid_reason(name) is not None]:
        return heartbeat_error(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names."
        )
    if names and len(ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    requester = Requester(ctx.client_id, ctx.client_host, ctx.listener, ctx.principal, ctx.by_token)
    try:
        validation.check_request(request)
        response: Response = await ctx.broker.groups.run(
            request.group_id,
            heartbeat.heartbeat,
            request,
            client_facts(ctx),
            MemberRights(requester, _may_create(ctx)),
        )
    except KafkaError as error:
        return heartbeat_error(error.code, error.message)
    return response


def _topics(request: Request) -> list[str]:
    """All topics that the topology of the request names."""
    if request.topology is None:
        return []
    return list(
        dict.fromkeys(
            name
            for each in request.topology.subtopologies
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )


def _may_create(ctx: RequestContext) -> Callable[[str], bool] | None:
    """The rights of the client on internal topics that are missing."""
    if ctx.broker.authorization is None:
        return None

    def may_create(topic: str) -> bool:
        return ctx.allows_cluster(Operation.CREATE, in_list=True) or ctx.allows(
            Operation.CREATE, ResourceType.TOPIC, topic
        )

    return may_create
