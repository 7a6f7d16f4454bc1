"""ListConfigResources (74), versions 0-1 (KIP-1142).

Version 0 lists client metrics subscriptions. From version 1 on: all topics, brokers and their loggers, and the groups
and client metrics subscriptions that have settings; an empty list of types stands for all of them.
"""

from __future__ import annotations

from broker_cy.broker.broker import Broker
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import image
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

ALL_TYPES = (
    image.RESOURCE_TOPIC,
    image.RESOURCE_BROKER,
    image.RESOURCE_BROKER_LOGGER,
    image.RESOURCE_CLIENT_METRICS,
    image.RESOURCE_GROUP,
)


@handler(ApiKey.LIST_CONFIG_RESOURCES)
def list_config_resources(
    ctx: RequestContext, request: messages.ListConfigResourcesRequest
) -> messages.ListConfigResourcesResponse:
    if not ctx.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return messages.ListConfigResourcesResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    types = dict.fromkeys(request.resource_types or ALL_TYPES)
    if ctx.version == 0:
        types = dict.fromkeys((image.RESOURCE_CLIENT_METRICS,))
    if not types.keys() <= set(ALL_TYPES):
        return messages.ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    resources = [
        messages.ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=resource_type)
        for resource_type in types
        for name in _names(ctx.broker, resource_type)
    ]
    return messages.ListConfigResourcesResponse(config_resources=resources)


def _names(broker: Broker, resource_type: int) -> list[str]:
    metadata = broker.image
    if resource_type == image.RESOURCE_TOPIC:
        return metadata.topics.names()
    if resource_type in (image.RESOURCE_BROKER, image.RESOURCE_BROKER_LOGGER):
        return [str(broker_id) for broker_id in metadata.brokers]
    return [name for found, name in metadata.configs.resources() if found == resource_type]
