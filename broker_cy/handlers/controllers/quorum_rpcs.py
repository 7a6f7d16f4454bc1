"""The requests between the nodes of the metadata quorum, on the listeners of controllers: Fetch (1), versions 12-18,
of the metadata log; Vote (52), versions 0-2; BeginQuorumEpoch (53) and EndQuorumEpoch (54), versions 0-1; FetchSnapshot
(59), versions 0-1; UpdateRaftVoter (82), version 0.

All go the same way: `quorum.wire` checks them, and the state machine of the quorum answers. A Fetch with nothing new
is answered later. Fetch before version 12 has no epoch of the last entry, without which the quorum cannot answer.
"""

from __future__ import annotations

from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quorum import wire
from broker_cy.security.acls import Operation
from broker_cy.wire import frame, messages
from broker_cy.wire.frame import ApiKey

_ON = (ListenerKind.CONTROLLER,)
_REQUIRES = "CLUSTER_ACTION on the cluster"
# Before this version, a Fetch has errors of partitions only.
_FETCH_ERROR_SINCE = 13


@handler(
    ApiKey.FETCH,
    versions=wire.VERSIONS[ApiKey.FETCH],
    on=_ON,
    requires=_REQUIRES,
    omissions="Only the metadata log is served.",
)
@handler(ApiKey.VOTE, versions=wire.VERSIONS[ApiKey.VOTE], on=_ON, requires=_REQUIRES)
@handler(ApiKey.BEGIN_QUORUM_EPOCH, versions=wire.VERSIONS[ApiKey.BEGIN_QUORUM_EPOCH], on=_ON, requires=_REQUIRES)
@handler(ApiKey.END_QUORUM_EPOCH, versions=wire.VERSIONS[ApiKey.END_QUORUM_EPOCH], on=_ON, requires=_REQUIRES)
@handler(ApiKey.FETCH_SNAPSHOT, versions=wire.VERSIONS[ApiKey.FETCH_SNAPSHOT], on=_ON, requires=_REQUIRES)
@handler(ApiKey.UPDATE_RAFT_VOTER, versions=wire.VERSIONS[ApiKey.UPDATE_RAFT_VOTER], on=_ON, requires=_REQUIRES)
async def quorum_rpc(ctx: RequestContext, request: Any) -> Any:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
    except KafkaError as error:
        return _refused(ctx, request, error.code)
    return await ctx.broker.controller.answer(request, ctx.version, ctx.listener)


def _refused(ctx: RequestContext, request: Any, code: ErrorCode) -> Any:
    response: Any = frame.response_class(ctx.api_key)()
    response.error_code = int(code)
    if ctx.api_key == ApiKey.FETCH:
        response.session_id = request.session_id
        if ctx.version < _FETCH_ERROR_SINCE:
            partition = messages.FetchResponse.PartitionData
            response.responses = [
                messages.FetchResponse.FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[
                        partition(partition_index=each.partition, error_code=int(code), high_watermark=-1, records=b"")
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
    return response
