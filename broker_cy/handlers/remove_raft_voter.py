"""RemoveRaftVoter (81), version 0: a voter of the metadata quorum becomes an observer (KIP-853)."""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.REMOVE_RAFT_VOTER)
@at_controller(messages.RemoveRaftVoterResponse, needs=Operation.ALTER, is_brief=True, stays_at_controllers=True)
async def remove_raft_voter(
    ctx: RequestContext, request: messages.RemoveRaftVoterRequest
) -> messages.RemoveRaftVoterResponse:
    return cast(messages.RemoveRaftVoterResponse, await ctx.broker.controller.remove_voter(request))
