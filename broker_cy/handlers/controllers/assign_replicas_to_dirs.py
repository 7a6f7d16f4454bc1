"""AssignReplicasToDirs (73), version 0: a broker reports the log directories of its replicas (KIP-858)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.controller.directories import AssignReplicasToDirectories
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    versions=(0, 0),
    on=(ListenerKind.CONTROLLER,),
    requires="CLUSTER_ACTION on the cluster",
)
async def assign_replicas_to_dirs(
    ctx: RequestContext, request: messages.AssignReplicasToDirsRequest
) -> messages.AssignReplicasToDirsResponse:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
        return await ctx.broker.controller.submit(AssignReplicasToDirectories(request))
    except KafkaError as error:
        return messages.AssignReplicasToDirsResponse(error_code=int(error.code))
