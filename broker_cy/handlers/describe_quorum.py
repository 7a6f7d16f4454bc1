"""DescribeQuorum (55), versions 0-2: the leader of the metadata quorum, its voters and observers with their lag
(KIP-595, KIP-836). Version 2 adds directory ids and the listeners of the voters (KIP-853). Only the leader knows them:
another broker forwards the request, another controller answers NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DESCRIBE_QUORUM)
@at_controller(messages.DescribeQuorumResponse, needs=Operation.DESCRIBE, is_brief=True, stays_at_controllers=True)
async def describe_quorum(
    ctx: RequestContext, request: messages.DescribeQuorumRequest
) -> messages.DescribeQuorumResponse:
    return cast(messages.DescribeQuorumResponse, ctx.broker.controller.describe_quorum(request, ctx.version))
