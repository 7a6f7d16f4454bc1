"""AlterPartition (56), versions 2-3: a leader proposes the in-sync set of its partitions.

Version 3 has the broker epoch of each member (KIP-903). See `controller.alter_partition`.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.ALTER_PARTITION, versions=(2, 3), on=(ListenerKind.CONTROLLER,), requires="CLUSTER_ACTION on the cluster"
)
async def alter_partition(
    ctx: RequestContext, request: messages.AlterPartitionRequest
) -> messages.AlterPartitionResponse:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
        return await ctx.broker.controller.submit(AlterPartition(request, ctx.version))
    except KafkaError as error:
        return messages.AlterPartitionResponse(error_code=int(error.code))
