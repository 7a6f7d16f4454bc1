"""DescribeCluster (60), versions 0-2.

Brokers with their address on the listener of the request, and fenced ones if version 2 asks for them. On a listener of
controllers: the registered controllers, and the active one of them (KIP-919).
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image import metadata_view
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security import authorized_operations
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

ENDPOINT_BROKER = 1
ENDPOINT_CONTROLLER = 2
_TYPES = {ENDPOINT_BROKER: "BROKER", ENDPOINT_CONTROLLER: "CONTROLLER"}


@handler(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(ctx: RequestContext, request: messages.DescribeClusterRequest) -> messages.DescribeClusterResponse:
    if ctx.is_for_controller:
        try:
            ctx.require_cluster(Operation.ALTER)
        except KafkaError as error:
            return _failed(error.code, error.message)
    served = ENDPOINT_CONTROLLER if ctx.is_for_controller else ENDPOINT_BROKER
    if request.endpoint_type not in _TYPES:
        return _failed(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    if request.endpoint_type != served:
        message = (
            f"The request was sent to an endpoint of type {_TYPES[served]}, but we wanted an endpoint of type "
            f"{_TYPES[request.endpoint_type]}"
        )
        return _failed(ErrorCode.MISMATCHED_ENDPOINT_TYPE, message)
    return _controllers(ctx, request) if ctx.is_for_controller else _brokers(ctx, request)


def _controllers(ctx: RequestContext, request: messages.DescribeClusterRequest) -> messages.DescribeClusterResponse:
    controllers = ctx.broker.image.controllers
    asked = request.include_cluster_authorized_operations
    return messages.DescribeClusterResponse(
        endpoint_type=ENDPOINT_CONTROLLER,
        cluster_id=ctx.broker.cluster_id,
        controller_id=ctx.broker.controller.leader_id,
        brokers=[
            messages.DescribeClusterResponse.DescribeClusterBroker(broker_id=number, host=each.host, port=each.port)
            for number in sorted(controllers)
            for each in controllers[number].end_points
            if each.name == ctx.listener
        ],
        cluster_authorized_operations=(ctx.cluster_operations() if asked else authorized_operations.NOT_ASKED),
    )


def _brokers(ctx: RequestContext, request: messages.DescribeClusterRequest) -> messages.DescribeClusterResponse:
    asked = request.include_cluster_authorized_operations
    brokers = [
        messages.DescribeClusterResponse.DescribeClusterBroker(
            broker_id=broker.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced and ctx.version >= 2,
        )
        for broker, endpoint in metadata_view.visible_brokers(
            ctx.broker.image, ctx.listener, fenced=request.include_fenced_brokers
        )
    ]
    running = [broker.broker_id for broker, _ in metadata_view.visible_brokers(ctx.broker.image, ctx.listener)]
    return messages.DescribeClusterResponse(
        cluster_id=ctx.broker.cluster_id,
        controller_id=metadata_view.a_controller(running, ctx.broker.randomness),
        brokers=brokers,
        cluster_authorized_operations=(ctx.cluster_operations() if asked else authorized_operations.NOT_ASKED),
    )


def _failed(code: ErrorCode, message: str) -> messages.DescribeClusterResponse:
    return messages.DescribeClusterResponse(error_code=int(code), error_message=message)
