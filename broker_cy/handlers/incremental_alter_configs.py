"""IncrementalAlterConfigs (44), versions 0-1: sets, removes, and edits lists (KIP-339).

Topics, this broker (or "" for all), levels of loggers (KIP-412), groups and client metrics subscriptions. An operation
by an unknown number is INVALID_REQUEST for every resource, where Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR for some.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.handlers.shared.config_changes import alter
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(
    ctx: RequestContext, request: messages.IncrementalAlterConfigsRequest
) -> messages.IncrementalAlterConfigsResponse:
    resources = [
        (
            resource.resource_type,
            resource.resource_name,
            [(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    outcomes = await alter(ctx, resources, replace=False, validate_only=request.validate_only)
    responses = [
        messages.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            error_code=int(outcome.code),
            error_message=outcome.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, outcome in zip(request.resources, outcomes, strict=True)
    ]
    return messages.IncrementalAlterConfigsResponse(responses=responses)
