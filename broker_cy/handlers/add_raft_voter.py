"""AddRaftVoter (80), versions 0-1: a controller becomes a voter of the metadata quorum (KIP-853).

The answer follows when the change is committed, in version 1 also earlier if the request asks for that.
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.ADD_RAFT_VOTER)
@at_controller(messages.AddRaftVoterResponse, needs=Operation.ALTER, is_brief=True, stays_at_controllers=True)
async def add_raft_voter(ctx: RequestContext, request: messages.AddRaftVoterRequest) -> messages.AddRaftVoterResponse:
    return cast(messages.AddRaftVoterResponse, await ctx.broker.controller.add_voter(request))
