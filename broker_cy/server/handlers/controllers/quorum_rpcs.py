"""The requests between the nodes of the metadata quorum, on the listeners of controllers: Fetch (1), versions 12-18,
of the metadata log; Vote (52), versions 0-2; BeginQuorumEpoch (53) and EndQuorumEpoch (54), versions 0-1; FetchSnapshot
(59), versions 0-1; UpdateRaftVoter (82), version 0.

All go the same way: `quorum.wire` converts them, and the state machine of the quorum answers. A Fetch with nothing
new is answered later. Fetch before version 12 has no epoch of the last entry, without which the quorum cannot answer.
"""

from __future__ import annotations

from typing import Any

from broker_cy.quorum import wire
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import ListenerKind, handler
from broker_cy.wire.frame import ApiKey

_ON = (ListenerKind.CONTROLLER,)


@handler(ApiKey.FETCH, versions=wire.VERSIONS[ApiKey.FETCH], on=_ON, omissions="Only the metadata log is served.")
@handler(ApiKey.VOTE, versions=wire.VERSIONS[ApiKey.VOTE], on=_ON)
@handler(ApiKey.BEGIN_QUORUM_EPOCH, versions=wire.VERSIONS[ApiKey.BEGIN_QUORUM_EPOCH], on=_ON)
@handler(ApiKey.END_QUORUM_EPOCH, versions=wire.VERSIONS[ApiKey.END_QUORUM_EPOCH], on=_ON)
@handler(ApiKey.FETCH_SNAPSHOT, versions=wire.VERSIONS[ApiKey.FETCH_SNAPSHOT], on=_ON)
@handler(ApiKey.UPDATE_RAFT_VOTER, versions=wire.VERSIONS[ApiKey.UPDATE_RAFT_VOTER], on=_ON)
async def quorum_rpc(ctx: RequestContext, request: Any) -> Any:
    return await ctx.broker.controller.answer(request, ctx.version, ctx.listener)
