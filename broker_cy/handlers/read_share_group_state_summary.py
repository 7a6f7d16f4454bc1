"""ReadShareGroupStateSummary, versions 0 and 1 (number of finished records, KIP-1226): the state of share partitions
without its batches.

For group coordinators, which compute the lag of share groups. As in Kafka, the request is served whatever the level of
share.version is.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.handlers.shared.share_state import answered, parts_of
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.ReadShareGroupStateSummaryRequest
Response = messages.ReadShareGroupStateSummaryResponse


@handler(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
async def read_share_group_state_summary(ctx: RequestContext, request: Request) -> Response:
    async def ask(key: SharePartitionKey, _: Request.PartitionData) -> Response.PartitionResult:
        found = await ctx.broker.share_state.read_summary(key)
        return Response.PartitionResult(
            partition=key.partition,
            error_code=found.code,
            error_message=found.message,
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start_offset=found.start_offset,
            delivery_complete_count=found.delivery_complete_count,
        )

    found = await answered(ctx, request.group_id, parts_of(request.topics), ask, _refused)
    return Response(
        results=[Response.ReadStateSummaryResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
    )


def _refused(index: int, outcome: Outcome) -> Response.PartitionResult:
    return Response.PartitionResult(partition=index, error_code=outcome.code, error_message=outcome.message)
