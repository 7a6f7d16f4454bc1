"""CreatePartitions (37), versions 0-3.

All topics of a request are one atomic change of the metadata log; with `validate_only` nothing is written.
`timeout_ms` is not needed.
"""

from __future__ import annotations

from typing import cast

from broker_cy.controller.topic_ops import CreatePartitions
from broker_cy.core.errors import KafkaError
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.CREATE_PARTITIONS, versions=(0, 3), on=BOTH)
async def create_partitions(
    ctx: RequestContext, request: messages.CreatePartitionsRequest
) -> messages.CreatePartitionsResponse:
    try:
        if (answer := await ctx.broker.controller.forward(ctx, request, messages.CreatePartitionsResponse)) is not None:
            return cast(messages.CreatePartitionsResponse, answer)
        with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, [topic.name for topic in request.topics]):
            results = await ctx.broker.controller.submit(CreatePartitions(request.topics, request.validate_only))
    except KafkaError as error:
        results = [
            messages.CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=topic.name, error_code=int(error.code), error_message=error.message
            )
            for topic in request.topics
        ]
    return messages.CreatePartitionsResponse(results=results)
