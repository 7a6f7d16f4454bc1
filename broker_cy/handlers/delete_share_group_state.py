"""DeleteShareGroupState, version 0: the state of share partitions, which the group no longer reads.

For group coordinators. As in Kafka, the request is served whatever the level of share.version is.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.handlers.shared.share_state import answered, parts_of
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.DeleteShareGroupStateRequest
Response = messages.DeleteShareGroupStateResponse


@handler(ApiKey.DELETE_SHARE_GROUP_STATE)
async def delete_share_group_state(ctx: RequestContext, request: Request) -> Response:
    async def ask(key: SharePartitionKey, _: Request.PartitionData) -> Response.PartitionResult:
        return _result(key.partition, await ctx.broker.share_state.delete(key))

    found = await answered(ctx, request.group_id, parts_of(request.topics), ask, _result)
    return Response(
        results=[Response.DeleteStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
    )


def _result(index: int, outcome: Outcome) -> Response.PartitionResult:
    return Response.PartitionResult(partition=index, error_code=outcome.code, error_message=outcome.message)
