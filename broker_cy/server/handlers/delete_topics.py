"""DeleteTopics (20), versions 1-6.

By name, and from version 6 on by id. The deletion is one atomic change of the metadata log; the files go after it. With
`delete.topic.enable=false` every topic is answered with TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3).
"""

from __future__ import annotations

from typing import cast

from broker_cy.controller.topic_ops import DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DELETE_TOPICS, versions=(1, 6), on=BOTH)
async def delete_topics(ctx: RequestContext, request: messages.DeleteTopicsRequest) -> messages.DeleteTopicsResponse:
    if ctx.version >= 6:
        choices = [TopicChoice(topic.name, topic.topic_id) for topic in request.topics]
    else:
        choices = [TopicChoice(name, uuids.ZERO) for name in request.topic_names]
    if not ctx.broker.config["delete.topic.enable"]:
        code = ErrorCode.INVALID_REQUEST if ctx.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return _failed(choices, KafkaError(code, "Topic deletion is disabled."))
    try:
        if (answer := await ctx.broker.controller.forward(ctx, request, messages.DeleteTopicsResponse)) is not None:
            return cast(messages.DeleteTopicsResponse, answer)
        with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, _names(ctx, choices)):
            return messages.DeleteTopicsResponse(responses=await ctx.broker.controller.submit(DeleteTopics(choices)))
    except KafkaError as error:
        return _failed(choices, error)


def _names(ctx: RequestContext, choices: list[TopicChoice]) -> list[str]:
    """Of the existing topics."""
    topics = ctx.broker.image.topics
    found = [topics.by_name(choice.name) if choice.name else topics.by_id(choice.topic_id) for choice in choices]
    return [topic.name for topic in found if topic is not None]


def _failed(choices: list[TopicChoice], error: KafkaError) -> messages.DeleteTopicsResponse:
    responses = [
        messages.DeleteTopicsResponse.DeletableTopicResult(
            name=choice.name, topic_id=choice.topic_id, error_code=int(error.code), error_message=error.message
        )
        for choice in choices
    ]
    return messages.DeleteTopicsResponse(responses=responses)
