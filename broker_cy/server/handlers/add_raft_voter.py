"""AddRaftVoter (80), versions 0-1: a controller becomes a voter of the metadata quorum (KIP-853).

The answer follows when the change is committed, in version 1 also earlier if the request asks for that.
"""

from __future__ import annotations

from typing import cast

from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.ADD_RAFT_VOTER, versions=(0, 1), on=BOTH, requires="ALTER on the cluster")
async def add_raft_voter(ctx: RequestContext, request: messages.AddRaftVoterRequest) -> messages.AddRaftVoterResponse:
    controller = ctx.broker.controller
    try:
        if not ctx.is_for_controller:
            answer = await controller.forward(ctx, request, messages.AddRaftVoterResponse)
            if answer is not None:
                return cast(messages.AddRaftVoterResponse, answer)
        ctx.require_cluster(Operation.ALTER, is_brief=True)
        return cast(messages.AddRaftVoterResponse, await controller.add_voter(request))
    except KafkaError as error:
        return messages.AddRaftVoterResponse(error_code=int(error.code), error_message=error.message)
