"""The common steps of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe. As in Kafka, the groups that
the client may not describe come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from broker_cy.broker.context import RequestContext
from broker_cy.coordinator.modern.description import Description
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire.codec import EncodedElements

# Members that are described and encoded in one turn of the loop, in about 1 ms.
MEMBERS_PER_TURN: Final = 200

# Describes the group of an id, as the written records of its coordinator have it.
Describe = Callable[[RequestContext, GroupRuntime, str], Description[Any]]


async def described_groups(
    ctx: RequestContext, request: Any, response: type[Any], describe: Describe, *, is_served: bool, hidden: str
) -> list[Any]:
    """The groups of an answer. `response` is its class, and `hidden` the message for a group with a topic that the
    client may not describe.
    """
    if not is_served:
        return [_error(response, group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids]
    refused, described = [], []
    for group_id in request.group_ids:
        if not ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refused.append(_error(response, group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        group = await _described(ctx, response, group_id, describe, hidden)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ctx.operations(ResourceType.GROUP, group_id)
        described.append(group)
    return [*refused, *described]


def _error(response: type[Any], group_id: str, code: ErrorCode, message: str | None = None) -> Any:
    return response.DescribedGroup(group_id=group_id, error_code=code, error_message=message or None)


async def _described(ctx: RequestContext, response: type[Any], group_id: str, describe: Describe, hidden: str) -> Any:
    if not group_id:
        return _error(response, group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        runtime = ctx.broker.groups.runtime_for(group_id)
    except KafkaError as error:
        return _error(response, group_id, error.code, error.message)
    found = describe(ctx, runtime, group_id)
    names = set(found.topics)
    encoded = EncodedElements(response.Member, ctx.version)
    while part := list(islice(found.members, MEMBERS_PER_TURN)):
        if encoded.count:
            await asyncio.sleep(0)
        for member in part:
            names.update(found.topics_of(member))
        encoded.add(part)
    # One topic that the client may not see hides the group.
    if len(ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return _error(response, group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, hidden)
    found.group.members = encoded
    return found.group
