"""CreateTopics (19), versions 2-7.

All topics of a request are one atomic change of the metadata log; the answer goes out when it is on disk.
`timeout_ms` is not needed for that. With `validate_only` nothing is written. The settings of the new topic are
answered from version 5 on.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker_cy.broker.broker import Broker
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.coordinator.streams.internal_topics import Requester
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.metadata.topic_names import CLUSTER_METADATA
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# From here on, topics beyond the client's quota of changes are refused (KIP-599); older clients create them, and wait.
STRICT_VERSION = 6
# The version, the newest one, of requests that the broker makes in the name of a client.
CREATION_VERSION = 7


def _failed(
    _: RequestContext, request: messages.CreateTopicsRequest, error: KafkaError
) -> messages.CreateTopicsResponse:
    failed = [
        messages.CreateTopicsResponse.CreatableTopicResult(
            name=topic.name, error_code=int(error.code), error_message=error.message
        )
        for topic in request.topics
    ]
    return messages.CreateTopicsResponse(topics=failed)


@handler(ApiKey.CREATE_TOPICS)
@at_controller(messages.CreateTopicsResponse, _failed)
async def create_topics(ctx: RequestContext, request: messages.CreateTopicsRequest) -> messages.CreateTopicsResponse:
    refused = _take_refused(ctx, request)
    changes = ctx.changes(strict=ctx.version >= STRICT_VERSION)
    with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, [topic.name for topic in request.topics]):
        response: messages.CreateTopicsResponse = await ctx.broker.controller.submit(
            CreateTopics(request, with_configs=ctx.version >= 5, charge=None if changes is None else changes.charge)
        )
    if changes is not None:
        response.throttle_time_ms = changes.wait_ms()
    _hide_settings(ctx, response)
    response.topics += refused
    return response


async def create_topics_for(
    broker: Broker, requester: Requester, request: messages.CreateTopicsRequest
) -> messages.CreateTopicsResponse:
    """Create topics in the name of a client that has not sent this request."""
    context = RequestContext(
        broker,
        ApiKey.CREATE_TOPICS,
        CREATION_VERSION,
        requester.client_id,
        requester.host,
        requester.listener,
        principal=requester.principal,
        by_token=requester.by_token,
    )
    response: messages.CreateTopicsResponse = await create_topics(context, request)
    return response


def _take_refused(ctx: RequestContext, request: messages.CreateTopicsRequest) -> list[Any]:
    """Remove the topics from the request that the client may not create, and return their results. Names that occur
    twice stay: they are invalid.
    """
    if ctx.broker.authorization is None or ctx.allows_cluster(Operation.CREATE, in_list=True):
        return []
    counts = Counter(topic.name for topic in request.topics)
    once = [name for name, count in counts.items() if count == 1 and name != CLUSTER_METADATA]
    denied = set(once) - ctx.allowed(Operation.CREATE, ResourceType.TOPIC, once)
    request.topics = [topic for topic in request.topics if topic.name not in denied]
    return [
        messages.CreateTopicsResponse.CreatableTopicResult(
            name=name, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), error_message="Authorization failed."
        )
        for name in once
        if name in denied
    ]


def _hide_settings(ctx: RequestContext, response: messages.CreateTopicsResponse) -> None:
    """Hide the settings of created topics from clients that may not describe them."""
    if ctx.broker.authorization is None:
        return
    for topic in response.topics:
        if topic.error_code == ErrorCode.NONE and not ctx.allows(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, in_list=True
        ):
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
            topic.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
