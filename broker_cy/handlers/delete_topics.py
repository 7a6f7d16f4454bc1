"""DeleteTopics (20), versions 1-6.

By name, and from version 6 on by id. The deletion is one atomic change of the metadata log; the files go after it. With
`delete.topic.enable=false` every topic is answered with TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker_cy.access.authorization import MESSAGES
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.topic_ops import DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# From here on, topics beyond the client's quota of changes are refused (KIP-599); older clients delete them, and wait.
STRICT_VERSION = 5


def _failed(
    ctx: RequestContext, request: messages.DeleteTopicsRequest, error: KafkaError
) -> messages.DeleteTopicsResponse:
    responses = [
        messages.DeleteTopicsResponse.DeletableTopicResult(
            name=choice.name, topic_id=choice.topic_id, error_code=int(error.code), error_message=error.message
        )
        for choice in _choices(ctx, request)
    ]
    return messages.DeleteTopicsResponse(responses=responses)


def _check_enabled(ctx: RequestContext, _: messages.DeleteTopicsRequest) -> None:
    if not ctx.broker.config["delete.topic.enable"]:
        code = ErrorCode.INVALID_REQUEST if ctx.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        raise KafkaError(code, "Topic deletion is disabled.")


@handler(ApiKey.DELETE_TOPICS)
@at_controller(messages.DeleteTopicsResponse, _failed, before=_check_enabled)
async def delete_topics(ctx: RequestContext, request: messages.DeleteTopicsRequest) -> messages.DeleteTopicsResponse:
    choices, refused = _judge(ctx, _choices(ctx, request))
    with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, _names(ctx, choices)):
        changes = ctx.changes(strict=ctx.version >= STRICT_VERSION)
        responses = await ctx.broker.controller.submit(
            DeleteTopics(choices, None if changes is None else changes.charge)
        )
    response = messages.DeleteTopicsResponse(responses=responses + refused)
    if changes is not None:
        response.throttle_time_ms = changes.wait_ms()
    return response


def _choices(ctx: RequestContext, request: messages.DeleteTopicsRequest) -> list[TopicChoice]:
    if ctx.version >= 6:
        return [TopicChoice(topic.name, topic.topic_id) for topic in request.topics]
    return [TopicChoice(name, uuids.ZERO) for name in request.topic_names]


def _judge(ctx: RequestContext, choices: list[TopicChoice]) -> tuple[list[TopicChoice], list[Any]]:
    """Split the topics into those that are to be deleted, and the results of those that the client may not delete. A
    client that may not describe a topic does not learn whether it exists, nor the name to an id. Topics that are
    chosen twice stay: they are invalid.
    """
    if ctx.broker.authorization is None or ctx.allows_cluster(Operation.DELETE, in_list=True):
        return choices, []
    counts = Counter(choices)
    kept, refused = [], []
    for choice in choices:
        topics = ctx.broker.image.topics
        topic = topics.by_id(choice.topic_id) if choice.name is None else topics.by_name(choice.name)
        is_named = choice.name is not None
        name = choice.name if is_named else (topic.name if topic is not None else None)
        is_invalid = counts[choice] > 1 or (is_named and choice.topic_id != uuids.ZERO)
        if is_invalid or name is None:
            kept.append(choice)
            continue
        may_describe = ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
        is_hidden = is_named and not may_describe
        is_absent = topic is None and may_describe
        if is_absent or (not is_hidden and ctx.allows(Operation.DELETE, ResourceType.TOPIC, name)):
            kept.append(choice)
            continue
        refused.append(
            messages.DeleteTopicsResponse.DeletableTopicResult(
                name=name if is_named or may_describe else None,
                topic_id=choice.topic_id,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=MESSAGES[ErrorCode.TOPIC_AUTHORIZATION_FAILED],
            )
        )
    return kept, refused


def _names(ctx: RequestContext, choices: list[TopicChoice]) -> list[str]:
    """The names of the existing topics among `choices`."""
    topics = ctx.broker.image.topics
    found = [topics.by_name(choice.name) if choice.name else topics.by_id(choice.topic_id) for choice in choices]
    return [topic.name for topic in found if topic is not None]
