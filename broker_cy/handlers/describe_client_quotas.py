"""DescribeClientQuotas (48), versions 0-1: the quotas that a filter selects, from the committed metadata of this node
(KIP-546).
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(
    ctx: RequestContext, request: messages.DescribeClientQuotasRequest
) -> messages.DescribeClientQuotasResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.quota_ops import describe

    response = messages.DescribeClientQuotasResponse
    if not ctx.allows_cluster(Operation.DESCRIBE_CONFIGS):
        # As in Kafka, without a message.
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return response(error_code=int(code), error_message=None, entries=None)
    try:
        return cast(messages.DescribeClientQuotasResponse, describe(ctx.broker.image.quotas(), request))
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message, entries=None)
