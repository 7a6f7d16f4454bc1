"""BrokerHeartbeat (63), versions 0-2: a broker is alive, and asks to be unfenced, fenced or to stop.

Version 1 adds log directories that are offline (KIP-858), version 2 those that take no new partitions (KIP-1066). A
heartbeat that changes nothing is answered without a record. See `controller.broker_states`. Brokers of this kind add
which others refuse their connections (`controller.refused_connections`).
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.controller import refused_connections
from broker_cy.controller.broker_states import Heartbeat, ReplaceLeaders, Withdrawal
from broker_cy.controller.refused_connections import NoteRefusedConnections
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.BROKER_HEARTBEAT, versions=(0, 2), on=(ListenerKind.CONTROLLER,), requires="CLUSTER_ACTION on the cluster"
)
async def broker_heartbeat(
    ctx: RequestContext, request: messages.BrokerHeartbeatRequest
) -> messages.BrokerHeartbeatResponse:
    controller = ctx.broker.controller
    told = refused_connections.read_tag(request._unknown_tags)
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
        if request.want_fence and request.want_shut_down:
            # Another node reports the end of a process (BrokerMembership.report_end). As in ControllerDuties, other
            # leaders come first.
            step: Withdrawal | None = ReplaceLeaders((request.broker_id,), {request.broker_id: request.broker_epoch})
            while step is not None:
                step = await controller.submit(step)
        beating = controller.submit(Heartbeat(request))
        if told:
            controller.ended_brokers.note_report(NoteRefusedConnections(request.broker_id, request.broker_epoch, told))
        reply = await beating
    except KafkaError as error:
        return messages.BrokerHeartbeatResponse(error_code=int(error.code))
    return messages.BrokerHeartbeatResponse(
        is_caught_up=reply.is_caught_up, is_fenced=reply.is_fenced, should_shut_down=reply.should_shut_down
    )
