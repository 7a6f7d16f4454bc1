"""RemoveRaftVoter (81), version 0: a voter of the metadata quorum becomes an observer (KIP-853)."""

from __future__ import annotations

from typing import cast

from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), on=BOTH, requires="ALTER on the cluster")
async def remove_raft_voter(
    ctx: RequestContext, request: messages.RemoveRaftVoterRequest
) -> messages.RemoveRaftVoterResponse:
    controller = ctx.broker.controller
    try:
        if not ctx.is_for_controller:
            answer = await controller.forward(ctx, request, messages.RemoveRaftVoterResponse)
            if answer is not None:
                return cast(messages.RemoveRaftVoterResponse, answer)
        ctx.require_cluster(Operation.ALTER, is_brief=True)
        return cast(messages.RemoveRaftVoterResponse, await controller.remove_voter(request))
    except KafkaError as error:
        return messages.RemoveRaftVoterResponse(error_code=int(error.code), error_message=error.message)
