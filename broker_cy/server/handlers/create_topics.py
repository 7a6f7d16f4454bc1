"""CreateTopics (19), versions 2-7.

All topics of a request are one atomic change of the metadata log; the answer goes out when it is on disk.
`timeout_ms` is not needed for that. With `validate_only` nothing is written. The settings of the new topic are
answered from version 5 on.
"""

from __future__ import annotations

from typing import cast

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.core.errors import KafkaError
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.CREATE_TOPICS, versions=(2, 7), on=BOTH)
async def create_topics(ctx: RequestContext, request: messages.CreateTopicsRequest) -> messages.CreateTopicsResponse:
    try:
        if (answer := await ctx.broker.controller.forward(ctx, request, messages.CreateTopicsResponse)) is not None:
            return cast(messages.CreateTopicsResponse, answer)
        with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, [topic.name for topic in request.topics]):
            return await ctx.broker.controller.submit(CreateTopics(request, with_configs=ctx.version >= 5))
    except KafkaError as error:
        failed = [
            messages.CreateTopicsResponse.CreatableTopicResult(
                name=topic.name, error_code=int(error.code), error_message=error.message
            )
            for topic in request.topics
        ]
        return messages.CreateTopicsResponse(topics=failed)
