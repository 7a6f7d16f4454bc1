"""ListPartitionReassignments (46), version 0: the current reassignments (KIP-455), as the active controller has them.

As in Kafka, a broker forwards the request: its own image may lack a reassignment that was just requested, which would
then seem complete.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


def _failed(
    _: RequestContext, request: messages.ListPartitionReassignmentsRequest, error: KafkaError
) -> messages.ListPartitionReassignmentsResponse:
    """As in Kafka, an answer with an error names the requested partitions."""
    response = messages.ListPartitionReassignmentsResponse
    topics = [
        response.OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                response.OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return response(error_code=int(error.code), error_message=error.message, topics=topics)


@handler(ApiKey.LIST_PARTITION_REASSIGNMENTS)
@at_controller(messages.ListPartitionReassignmentsResponse, _failed, needs=Operation.DESCRIBE)
async def list_partition_reassignments(
    ctx: RequestContext, request: messages.ListPartitionReassignmentsRequest
) -> messages.ListPartitionReassignmentsResponse:
    # Imported here, because most nodes hardly ever need it, and start sooner without it.
    from broker_cy.controller.reassignment import list_reassignments

    if not ctx.broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
    return list_reassignments(ctx.broker.image, request.topics)
