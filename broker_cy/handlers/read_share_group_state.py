"""ReadShareGroupState, version 0: the state of share partitions, for their new leaders.

A higher leader epoch is written before the answer, and fences the previous leader. As in Kafka, the request is served
whatever the level of share.version is.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.handlers.shared.share_state import answered, parts_of
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.ReadShareGroupStateRequest
Response = messages.ReadShareGroupStateResponse


@handler(ApiKey.READ_SHARE_GROUP_STATE)
async def read_share_group_state(ctx: RequestContext, request: Request) -> Response:
    async def ask(key: SharePartitionKey, wanted: Request.PartitionData) -> Response.PartitionResult:
        found = await ctx.broker.share_state.read(key, wanted.leader_epoch)
        return Response.PartitionResult(
            partition=key.partition,
            error_code=found.code,
            error_message=found.message,
            state_epoch=found.state_epoch,
            start_offset=found.start_offset,
            state_batches=[
                Response.StateBatch(first_offset=first, last_offset=last, delivery_count=count, delivery_state=state)
                for first, last, count, state in found.batches
            ],
        )

    found = await answered(ctx, request.group_id, parts_of(request.topics), ask, _refused)
    return Response(
        results=[Response.ReadStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
    )


def _refused(index: int, outcome: Outcome) -> Response.PartitionResult:
    return Response.PartitionResult(partition=index, error_code=outcome.code, error_message=outcome.message)
