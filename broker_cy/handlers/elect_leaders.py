"""ElectLeaders (43), versions 0-2: elect the preferred leader, or, from version 1 on, one that may lack records
(KIP-460).

Version 0 knows only preferred leaders, and has no error for the whole request. `timeout_ms` is not needed.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.elections import ElectLeaders
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

REQUEST_ERROR_SINCE = 1


def _failed(
    ctx: RequestContext, request: messages.ElectLeadersRequest, error: KafkaError
) -> messages.ElectLeadersResponse:
    results = [
        messages.ElectLeadersResponse.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                messages.ElectLeadersResponse.PartitionResult(
                    partition_id=index, error_code=int(error.code), error_message=error.message
                )
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or []
    ]
    response = messages.ElectLeadersResponse(replica_election_results=results)
    if ctx.version >= REQUEST_ERROR_SINCE:
        response.error_code = int(error.code)
    return response


@handler(ApiKey.ELECT_LEADERS)
@at_controller(messages.ElectLeadersResponse, _failed, needs=Operation.ALTER)
async def elect_leaders(ctx: RequestContext, request: messages.ElectLeadersRequest) -> messages.ElectLeadersResponse:
    asked = request.topic_partitions or []
    with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, [topic.topic for topic in asked]):
        return await ctx.broker.controller.submit(ElectLeaders(request))
