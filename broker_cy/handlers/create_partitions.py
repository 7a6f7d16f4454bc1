"""CreatePartitions (37), versions 0-3.

All topics of a request are one atomic change of the metadata log; with `validate_only` nothing is written.
`timeout_ms` is not needed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.topic_ops import CreatePartitions
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# From here on, topics beyond the client's quota of changes are refused (KIP-599); older clients change them, and wait.
STRICT_VERSION = 3


def _failed(
    _: RequestContext, request: messages.CreatePartitionsRequest, error: KafkaError
) -> messages.CreatePartitionsResponse:
    results = [
        messages.CreatePartitionsResponse.CreatePartitionsTopicResult(
            name=topic.name, error_code=int(error.code), error_message=error.message
        )
        for topic in request.topics
    ]
    return messages.CreatePartitionsResponse(results=results)


@handler(ApiKey.CREATE_PARTITIONS)
@at_controller(messages.CreatePartitionsResponse, _failed)
async def create_partitions(
    ctx: RequestContext, request: messages.CreatePartitionsRequest
) -> messages.CreatePartitionsResponse:
    refused = _take_refused(ctx, request)
    with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, [topic.name for topic in request.topics]):
        changes = ctx.changes(strict=ctx.version >= STRICT_VERSION)
        results = await ctx.broker.controller.submit(
            CreatePartitions(request.topics, request.validate_only, None if changes is None else changes.charge)
        )
    wait_ms = 0 if changes is None else changes.wait_ms()
    return messages.CreatePartitionsResponse(throttle_time_ms=wait_ms, results=results + refused)


def _take_refused(ctx: RequestContext, request: messages.CreatePartitionsRequest) -> list[Any]:
    """Remove the topics from the request that the client may not alter, and return their results. Names that occur
    twice stay: they are invalid.
    """
    if ctx.broker.authorization is None:
        return []
    counts = Counter(topic.name for topic in request.topics)
    once = [name for name, count in counts.items() if count == 1]
    denied = set(once) - ctx.allowed(Operation.ALTER, ResourceType.TOPIC, once)
    request.topics = [topic for topic in request.topics if topic.name not in denied]
    return [
        messages.CreatePartitionsResponse.CreatePartitionsTopicResult(
            name=name, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), error_message=None
        )
        for name in once
        if name in denied
    ]
