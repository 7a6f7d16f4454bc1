"""Envelope (58), version 0: a broker forwards the request of a client to the active controller (KIP-590).

The requests that Kafka's brokers forward are served. The controller sees the client's principal, address and client id.
Errors: NOT_CONTROLLER if this node is not the active controller, UNSUPPORTED_VERSION and INVALID_REQUEST for a request
that cannot be read or is not forwarded, PRINCIPAL_DESERIALIZATION_FAILURE.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from broker_cy.broker.context import ForwardedContext, RequestContext
from broker_cy.broker.registry import ListenerKind, handler, registrations
from broker_cy.control.link import envelope as content
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.security.acls import Operation
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.frame import ApiKey

# The APIs served here that Kafka's ApiKeys mark as forwardable.
FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


@handler(ApiKey.ENVELOPE, versions=(0, 0), on=(ListenerKind.CONTROLLER,), requires="CLUSTER_ACTION on the cluster")
async def envelope(ctx: RequestContext, request: messages.EnvelopeRequest) -> messages.EnvelopeResponse:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
    except KafkaError as error:
        return _failed(error.code)
    try:
        key, version, correlation_id, client_id, body_at = frame.parse_request_header(request.request_data)
    except WireError:
        return _failed(ErrorCode.INVALID_REQUEST)
    entry = registrations(ListenerKind.CONTROLLER).get(key)
    if entry is None or entry.requires is None or key not in FORWARDABLE:
        return _failed(ErrorCode.INVALID_REQUEST)
    if not entry.min_version <= version <= entry.max_version:
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    try:
        principal, by_token = content.read_principal(request.request_principal)
    except WireError:
        return _failed(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        host = content.unpacked_address(request.client_host_address)
        body = codec.decode(frame.request_class(key), version, memoryview(request.request_data)[body_at:])
    except (WireError, ValueError):
        return _failed(ErrorCode.INVALID_REQUEST)
    controller = ctx.broker.controller
    if not controller.is_active:
        return _failed(ErrorCode.NOT_CONTROLLER)
    inner = ForwardedContext(
        ctx.broker, key, version, client_id, host, ctx.listener, ctx.connection_id, principal, by_token
    )
    response: Any = entry.function(inner, body)
    if inspect.isawaitable(response):
        response = await response
    if _says_not_controller(response):
        # It lost its leadership meanwhile: the broker asks the next active controller.
        return _failed(ErrorCode.NOT_CONTROLLER)
    return messages.EnvelopeResponse(response_data=content.response_data(key, version, correlation_id, response))


def _says_not_controller(message: Any) -> bool:
    """Whether the response, or a part of it, has this error."""
    if getattr(message, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    parts = (getattr(message, name) for name in getattr(type(message), "__slots__", ()) if name != "_unknown_tags")
    return any(_says_not_controller(each) for part in parts if isinstance(part, list) for each in part)


def _failed(code: ErrorCode) -> messages.EnvelopeResponse:
    return messages.EnvelopeResponse(error_code=int(code))
