"""DescribeUserScramCredentials (50), version 0: the mechanisms and iterations of users, from the committed metadata
(KIP-554).
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(
    ctx: RequestContext, request: messages.DescribeUserScramCredentialsRequest
) -> messages.DescribeUserScramCredentialsResponse:
    if not ctx.allows_cluster(Operation.DESCRIBE):
        code, response = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, messages.DescribeUserScramCredentialsResponse
        # As in Kafka, the results do not name the users.
        results = [
            response.DescribeUserScramCredentialsResult(error_code=int(code), error_message=None)
            for _ in request.users or ()
        ]
        return response(error_code=int(code), error_message=None, results=results)
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.scram_ops import describe

    return cast(messages.DescribeUserScramCredentialsResponse, describe(ctx.broker.image, request.users))
