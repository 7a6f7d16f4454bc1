"""ACLs: list, create and delete them (APIs 29 to 31)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from broker_cy.admin.caller import Caller, Controller, Outcome
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.security.acls import Binding, Filter, Operation, PatternType, Permission, ResourceType
from broker_cy.wire import messages

# The limits of one request: a change of ACLs is atomic, and brokers accept at most 10,000 in one.
ACLS_A_REQUEST: Final = 1_000
FILTERS_A_REQUEST: Final = 100
EVERY: Final = Filter()


class AclCalls:
    """`client.acls`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(self, selecting: Filter = EVERY) -> list[Binding]:
        """The ACLs that are selected, sorted. Raises ClientError, with SECURITY_DISABLED if no broker asks for any."""
        answer = await self._caller.ask(
            messages.DescribeAclsRequest(**_fields(selecting)),
            messages.DescribeAclsResponse,
            lambda found: problem_of(found.error_code, found.error_message),
            what="the ACLs",
        )
        found = [_binding(resource, acl) for resource in answer.resources for acl in resource.acls]
        return sorted(found, key=_order)

    async def create(self, bindings: Iterable[Binding]) -> Outcome[Binding, bool]:
        """Create ACLs; those that exist already stay."""

        async def send(peer: Peer, keys: list[Binding], deadline: Deadline) -> dict[Binding, bool | Problem]:
            creation = messages.CreateAclsRequest.AclCreation
            request = messages.CreateAclsRequest(
                creations=[
                    creation(
                        resource_type=int(each.resource_type),
                        resource_name=each.name,
                        resource_pattern_type=int(each.pattern_type),
                        principal=each.principal,
                        host=each.host,
                        operation=int(each.operation),
                        permission_type=int(each.permission),
                    )
                    for each in keys
                ]
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.CreateAclsResponse, deadline, at_least=1)
            return {
                key: problem_of(each.error_code, each.error_message) or True
                for key, each in zip(keys, answer.results, strict=False)
            }

        return await self._caller.spread(
            bindings, Controller(self._caller), send, api="CreateAcls", name=str, chunk=ACLS_A_REQUEST
        )

    async def delete(self, filters: Iterable[Filter]) -> Outcome[Filter, tuple[Binding, ...]]:
        """Delete and return the ACLs that each filter selects. A request that may have been carried out is not
        repeated.
        """

        async def send(
            peer: Peer, keys: list[Filter], deadline: Deadline
        ) -> dict[Filter, tuple[Binding, ...] | Problem]:
            one = messages.DeleteAclsRequest.DeleteAclsFilter
            request = messages.DeleteAclsRequest(filters=[one(**_fields(each)) for each in keys])
            answer, _ = await self._caller.pool.ask(peer, request, messages.DeleteAclsResponse, deadline, at_least=1)
            return {
                key: problem_of(each.error_code, each.error_message) or _deleted(each)
                for key, each in zip(keys, answer.filter_results, strict=False)
            }

        return await self._caller.spread(
            filters,
            Controller(self._caller),
            send,
            api="DeleteAcls",
            name=filter_text,
            chunk=FILTERS_A_REQUEST,
            repeatable=False,
        )


def exactly(binding: Binding) -> Filter:
    """The filter that selects one ACL."""
    return Filter(
        binding.resource_type,
        binding.name,
        binding.pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission,
    )


def filter_text(selecting: Filter) -> str:
    """Describe the ACLs that a filter selects, for errors."""
    parts = [f"{name} {value}" for name, value in selecting._asdict().items() if value is not None and value != 1]
    return f"ACLs with {', '.join(parts)}" if parts else "all ACLs"


def _fields(selecting: Filter) -> dict[str, Any]:
    return {
        "resource_type_filter": int(selecting.resource_type),
        "resource_name_filter": selecting.name,
        "pattern_type_filter": int(selecting.pattern_type),
        "principal_filter": selecting.principal,
        "host_filter": selecting.host,
        "operation": int(selecting.operation),
        "permission_type": int(selecting.permission),
    }


def _binding(resource: Any, acl: Any) -> Binding:
    return Binding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        acl.principal,
        acl.host,
        Operation(acl.operation),
        Permission(acl.permission_type),
    )


def _deleted(result: Any) -> tuple[Binding, ...]:
    return tuple(_binding(each, each) for each in result.matching_acls if not each.error_code)


def _order(binding: Binding) -> tuple[Any, ...]:
    return (
        binding.resource_type,
        binding.name,
        binding.pattern_type,
        binding.principal,
        binding.permission,
        binding.operation,
        binding.host,
    )
