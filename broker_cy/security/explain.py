"""Decisions on ACLs outside a broker: from the list that DescribeAcls returns, with the code that brokers use.

Pure, for commands and consoles. A broker's decision also depends on super.users and allow.everyone.if.no.acl.found,
which no cluster shows: the caller has to know them.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.security.acls import (
    ANY_PRINCIPAL,
    WILDCARD,
    Binding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    host_text,
)
from broker_cy.security.authorizer import Authorizer, Entry, Explanation

# ACLs that are listed as nearly matching.
NEAREST_MAX: Final = 5


class Asked(NamedTuple):
    """Something that a client does with a resource."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.principal} from {self.host}: {self.operation.name} on {self.resource_type.name} {self.name}"


class Near(NamedTuple):
    """An ACL that would decide, if it were not for `differs`."""

    binding: Binding
    differs: tuple[str, ...]


class Verdict(NamedTuple):
    """A decision with its reason, and for a refusal the ACLs that nearly allow it, the nearest first."""

    explanation: Explanation
    nearest: tuple[Near, ...]


@dataclass(slots=True)
class _Record:
    """A binding with the names of AccessControlEntryRecord."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def authorizer_of(
    bindings: Iterable[Binding], super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False
) -> Authorizer:
    """The authorizer of a broker with these ACLs and settings."""
    authorizer = Authorizer(super_users, allow_if_no_acl=allow_if_no_acl)
    authorizer.replace(
        _Record(
            each.resource_type,
            each.name,
            each.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission,
        )
        for each in bindings
    )
    return authorizer


def explain(authorizer: Authorizer, bindings: Iterable[Binding], asked: Asked) -> Verdict:
    """The verdict on `asked`, and its reason; `authorizer` has the `bindings`."""
    found = authorizer.explain(asked.principal, host_text(asked.host), asked.operation, asked.resource_type, asked.name)
    if found.allowed or found.binding is not None:
        return Verdict(found, ())
    return Verdict(found, nearest(bindings, asked))


def nearest(bindings: Iterable[Binding], asked: Asked) -> tuple[Near, ...]:
    """The allowing ACLs of this type of resource with the fewest differences, at most NEAREST_MAX. An ACL is not near
    if more than two of its principal, host, operation and name differ.
    """
    found = []
    for binding in bindings:
        if binding.permission is not Permission.ALLOW or binding.resource_type is not asked.resource_type:
            continue
        differs = differences(binding, asked)
        if len(differs) <= 2:
            found.append(Near(binding, differs))
    return tuple(nlargest(NEAREST_MAX, found, key=lambda each: _nearness(each, asked)))


def differences(binding: Binding, asked: Asked) -> tuple[str, ...]:
    """Why an ACL does not decide on `asked`, in words; empty if it does."""
    found = []
    if binding.principal not in (asked.principal, ANY_PRINCIPAL):
        found.append(f"it is for {binding.principal}")
    if binding.host not in (WILDCARD, host_text(asked.host)):
        found.append(f"it is for host {binding.host}")
    entry = Entry.of(binding.host, binding.operation, binding.permission)
    if not (entry.allows | entry.denies) >> asked.operation & 1:
        found.append(f"it is for {binding.operation.name}")
    if not concerns(binding, asked):
        what = "prefix" if binding.pattern_type is PatternType.PREFIXED else "name"
        found.append(f"it is for the {what} {binding.name}")
    return tuple(found)


def concerns(binding: Binding, asked: Asked) -> bool:
    """Whether the pattern of an ACL covers the resource."""
    if binding.resource_type is not asked.resource_type:
        return False
    if binding.pattern_type is PatternType.PREFIXED:
        return asked.name.startswith(binding.name)
    return binding.name in (asked.name, WILDCARD)


def _nearness(near: Near, asked: Asked) -> tuple[int, bool, int]:
    """With equally many differences, an ACL of the same principal is nearer, then one with a similar name."""
    common = 0
    for one, other in zip(near.binding.name, asked.name, strict=False):
        if one != other:
            break
        common += 1
    return -len(near.differs), near.binding.principal == asked.principal, common
