"""Heartbeat, versions 0 to 4. 3 has static members. While the group is being loaded every heartbeat is accepted, as in
Kafka. The answer waits for earlier records of the coordinator's partition that are not written yet.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Coroutine
from functools import partial
from typing import Any

from broker_cy.broker.broker import Broker
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.classic import membership
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# The most frequent request beside Produce and Fetch: members of enumerations are slow to look up.
_READ, _GROUP, _NONE = Operation.READ, ResourceType.GROUP, ErrorCode.NONE


@handler(ApiKey.HEARTBEAT)
def heartbeat(
    ctx: RequestContext, request: messages.HeartbeatRequest
) -> messages.HeartbeatResponse | Coroutine[Any, Any, messages.HeartbeatResponse]:
    if ctx.broker.authorization is not None and not ctx.allows(_READ, _GROUP, request.group_id):
        return messages.HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return messages.HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        runtime = ctx.broker.groups.runtime_for(request.group_id)
    except KafkaError as error:
        code = ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
        return messages.HeartbeatResponse(error_code=code)
    if runtime.is_writing:
        return _answered(runtime.run(membership.heartbeat, request))
    # Almost all of them: without an operation, a future and a task.
    found = membership.heartbeat_code(runtime.machine, request, runtime.now())
    if found is _NONE:
        ctx.still_stands = partial(_is_fine_again, ctx.broker, request)
    return messages.HeartbeatResponse(error_code=found)


def _is_fine_again(broker: Broker, request: messages.HeartbeatRequest) -> bool:
    """Whether the same heartbeat has no error again; if so, the session of the member is prolonged. With an authorizer,
    the handler asks for the rights of the client.
    """
    if broker.authorization is not None:
        return False
    runtime = broker.groups.active_runtime(request.group_id)
    if runtime is None or runtime.is_writing:
        return False
    return membership.heartbeat_code(runtime.machine, request, runtime.now()) is _NONE


async def _answered(token: Future[messages.HeartbeatResponse]) -> messages.HeartbeatResponse:
    return await token
