"""DescribeQuorum (55), versions 0-2: the leader of the metadata quorum, its voters and observers with their lag
(KIP-595, KIP-836). Version 2 adds directory ids and the listeners of the voters (KIP-853). Only the leader knows them:
another broker forwards the request, another controller answers NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import cast

from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), on=BOTH, requires="DESCRIBE on the cluster")
async def describe_quorum(
    ctx: RequestContext, request: messages.DescribeQuorumRequest
) -> messages.DescribeQuorumResponse:
    controller = ctx.broker.controller
    try:
        if not ctx.is_for_controller:
            answer = await controller.forward(ctx, request, messages.DescribeQuorumResponse)
            if answer is not None:
                return cast(messages.DescribeQuorumResponse, answer)
        ctx.require_cluster(Operation.DESCRIBE, is_brief=True)
        return cast(messages.DescribeQuorumResponse, controller.describe_quorum(request, ctx.version))
    except KafkaError as error:
        return messages.DescribeQuorumResponse(error_code=int(error.code), error_message=error.message)
