"""AlterClientQuotas (49), versions 0-1: set and remove quotas of users, client ids and addresses (KIP-546, KIP-612).

One result for each entity. The request has no error of its own, so that an error of all is that of each entity. With
`validate_only` nothing is written.
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


def _failed(
    _: RequestContext, request: messages.AlterClientQuotasRequest, error: KafkaError
) -> messages.AlterClientQuotasResponse:
    response = messages.AlterClientQuotasResponse
    return response(
        entries=[
            response.EntryData(
                error_code=int(error.code),
                error_message=error.message,
                entity=[
                    response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


@handler(ApiKey.ALTER_CLIENT_QUOTAS)
@at_controller(messages.AlterClientQuotasResponse, _failed, needs=Operation.ALTER_CONFIGS, is_brief=True)
async def alter_client_quotas(
    ctx: RequestContext, request: messages.AlterClientQuotasRequest
) -> messages.AlterClientQuotasResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.quota_ops import AlterClientQuotas

    response = await ctx.broker.controller.submit(AlterClientQuotas(request, ctx.author))
    return cast(messages.AlterClientQuotasResponse, response)
