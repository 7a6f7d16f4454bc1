"""WriteShareGroupState, versions 0 and 1 (number of finished records, KIP-1226): the state of share partitions changes.

For the leaders of share partitions. As in Kafka, the request is served whatever the level of share.version is. Unlike
Kafka, an empty state batch gets INVALID_REQUEST: Kafka stores it, and may not finish the next merge.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey, ShareState, StateBatch
from broker_cy.handlers.shared.share_state import answered, parts_of
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.WriteShareGroupStateRequest
Response = messages.WriteShareGroupStateResponse


@handler(ApiKey.WRITE_SHARE_GROUP_STATE)
async def write_share_group_state(ctx: RequestContext, request: Request) -> Response:
    async def ask(key: SharePartitionKey, wanted: Request.PartitionData) -> Response.PartitionResult:
        return _result(key.partition, await ctx.broker.share_state.write(key, _change(wanted)))

    found = await answered(ctx, request.group_id, parts_of(request.topics), ask, _result)
    return Response(
        results=[Response.WriteStateResult(topic_id=topic_id, partitions=results) for topic_id, results in found]
    )


def _change(wanted: Request.PartitionData) -> ShareState:
    return ShareState(
        snapshot_epoch=0,
        state_epoch=wanted.state_epoch,
        leader_epoch=wanted.leader_epoch,
        start_offset=wanted.start_offset,
        delivery_complete_count=wanted.delivery_complete_count,
        batches=tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
            for each in wanted.state_batches
        ),
    )


def _result(index: int, outcome: Outcome) -> Response.PartitionResult:
    return Response.PartitionResult(partition=index, error_code=outcome.code, error_message=outcome.message)
