"""DeleteGroups, versions 0 to 2: groups without members, with their offsets; of share groups, the state of their share
partitions first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import admin
from broker_cy.coordinator.share import deletion
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DELETE_GROUPS)
async def delete_groups(ctx: RequestContext, request: messages.DeleteGroupsRequest) -> messages.DeleteGroupsResponse:
    results: list[messages.DeleteGroupsResponse.DeletableGroupResult] = []
    by_runtime: dict[GroupRuntime, list[str]] = {}
    refused: list[str] = []
    for group_id in dict.fromkeys(request.groups_names):
        if not ctx.allows(Operation.DELETE, ResourceType.GROUP, group_id):
            refused.append(group_id)
            continue
        try:
            by_runtime.setdefault(ctx.broker.groups.runtime_for(group_id), []).append(group_id)
        except KafkaError as error:
            results.append(messages.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error.code))
    answers = [
        _delete(runtime, group_ids)
        if deletion.has_share_groups(runtime.machine, group_ids)
        else runtime.run(admin.delete_groups, group_ids)
        for runtime, group_ids in by_runtime.items()
    ]
    for answer in await asyncio.gather(*answers):
        results += answer.results
    results += [
        messages.DeleteGroupsResponse.DeletableGroupResult(
            group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        for group_id in refused
    ]
    return messages.DeleteGroupsResponse(results=results)


async def _delete(runtime: GroupRuntime, group_ids: list[str]) -> messages.DeleteGroupsResponse:
    codes: Mapping[str, ErrorCode] = await runtime.run(deletion.delete_groups, group_ids)
    others = [group_id for group_id in group_ids if group_id not in codes]
    response: messages.DeleteGroupsResponse
    if others:
        # It may have ceased to be the coordinator meanwhile.
        code = runtime.check()
        response = await runtime.run(admin.delete_groups, others) if code is ErrorCode.NONE else _refused(others, code)
    else:
        response = messages.DeleteGroupsResponse()
    response.results = [*_results(codes), *response.results]
    return response


def _refused(group_ids: list[str], code: ErrorCode) -> messages.DeleteGroupsResponse:
    return messages.DeleteGroupsResponse(results=_results(dict.fromkeys(group_ids, code)))


def _results(codes: Mapping[str, ErrorCode]) -> list[messages.DeleteGroupsResponse.DeletableGroupResult]:
    return [
        messages.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id, code in codes.items()
    ]
