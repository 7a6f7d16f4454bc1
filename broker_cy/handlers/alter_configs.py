"""AlterConfigs (33), versions 0-2: replaces all settings of each resource; settings that are not named are removed.

Topics, this broker (or "" for all), groups and client metrics subscriptions; not loggers (use IncrementalAlterConfigs).
If a resource is named twice, Kafka 4.3.1 fails to answer; here both entries get INVALID_REQUEST.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.config_ops import OpType
from broker_cy.handlers.shared.config_changes import alter
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.ALTER_CONFIGS)
async def alter_configs(ctx: RequestContext, request: messages.AlterConfigsRequest) -> messages.AlterConfigsResponse:
    resources = [
        (
            resource.resource_type,
            resource.resource_name,
            [(config.name, int(OpType.SET), config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    outcomes = await alter(ctx, resources, replace=True, validate_only=request.validate_only)
    responses = [
        messages.AlterConfigsResponse.AlterConfigsResourceResponse(
            error_code=int(outcome.code),
            error_message=outcome.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, outcome in zip(request.resources, outcomes, strict=True)
    ]
    return messages.AlterConfigsResponse(responses=responses)
