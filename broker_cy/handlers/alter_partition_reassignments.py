"""AlterPartitionReassignments (45), versions 0-1: move replicas of partitions to other brokers, or cancel that
(KIP-455).

With `allow_replication_factor_change` false (version 1), the number of replicas must stay. `timeout_ms` is not needed.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


def _failed(
    _: RequestContext, request: messages.AlterPartitionReassignmentsRequest, error: KafkaError
) -> messages.AlterPartitionReassignmentsResponse:
    """The error of the request, which is also that of each partition, as in Kafka."""
    response = messages.AlterPartitionReassignmentsResponse
    return response(
        error_code=int(error.code),
        error_message=error.message,
        responses=[
            response.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    response.ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=int(error.code),
                        error_message=error.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


@handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
@at_controller(messages.AlterPartitionReassignmentsResponse, _failed, needs=Operation.ALTER)
async def alter_partition_reassignments(
    ctx: RequestContext, request: messages.AlterPartitionReassignmentsRequest
) -> messages.AlterPartitionReassignmentsResponse:
    # Imported here, because most nodes hardly ever need it, and start sooner without it.
    from broker_cy.controller.reassignment import AlterReassignments

    with ctx.broker.events.acting(ctx.client, RESOURCE_TOPIC, [topic.name for topic in request.topics]):
        return await ctx.broker.controller.submit(AlterReassignments(request))
