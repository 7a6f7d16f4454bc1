"""DescribeAcls (29), versions 1-3: the ACLs that a filter selects, from the committed metadata of this node.

Without an authorizer SECURITY_DISABLED, as in Kafka. A filter with a number that is not known selects nothing; Kafka
closes the connection for the number 0.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Filter, Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

NO_AUTHORIZER = "No Authorizer is configured on the broker"


@handler(ApiKey.DESCRIBE_ACLS)
def describe_acls(ctx: RequestContext, request: messages.DescribeAclsRequest) -> messages.DescribeAclsResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.acl_ops import describe

    try:
        ctx.require_cluster(Operation.DESCRIBE)
        if ctx.broker.authorization is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        resources = describe(ctx.broker.image.acls(), Filter.of_request(request))
    except KafkaError as error:
        return messages.DescribeAclsResponse(error_code=int(error.code), error_message=error.message)
    return messages.DescribeAclsResponse(error_message="", resources=resources)
