"""ACLs and past accesses: the unneeded ACLs, and the accesses that other ACLs would deny or allow.

Pure, for commands and consoles. The current ACLs are tried on past accesses, regardless of the ACLs at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.core.classes import NamedTuple
from broker_cy.security.acls import Binding
from broker_cy.security.authorizer import Authorizer, Explanation
from broker_cy.security.explain import Asked, authorizer_of


class Unused(NamedTuple):
    """An ACL that decided no access. `instead` decided the accesses that fit it; None: no access fits it."""

    binding: Binding
    instead: Binding | None


class Turned(NamedTuple):
    """An access with another decision; `by` is the deciding ACL then."""

    asked: Asked
    last_ms: int
    by: Explanation


class Preview(NamedTuple):
    """The effect of a change of ACLs on past accesses, the last ones first."""

    refused: list[Turned]
    allowed: list[Turned]


def unused(bindings: Iterable[Binding], accesses: Iterable[Asked]) -> list[Unused]:
    """The ACLs that decide on none of the accesses, in their order."""
    wanted = list(bindings)
    authorizer = authorizer_of(wanted)
    deciding: set[Binding] = set()
    instead: dict[Binding, Binding] = {}
    for asked in accesses:
        found = authorizer.explain(asked.principal, asked.host, asked.operation, asked.resource_type, asked.name)
        if found.binding is None:
            continue
        deciding.add(found.binding)
        for each in authorizer.matching(asked.principal, asked.host, asked.operation, asked.resource_type, asked.name):
            instead.setdefault(each, found.binding)
    return [Unused(each, instead.get(each)) for each in wanted if each not in deciding]


def preview(before: Authorizer, after: Authorizer, accesses: Mapping[Asked, int]) -> Preview:
    """`accesses` with the last time of each."""
    refused: list[Turned] = []
    allowed: list[Turned] = []
    for asked, last_ms in accesses.items():
        what = (asked.principal, asked.host, asked.operation, asked.resource_type, asked.name)
        old, new = before.explain(*what), after.explain(*what)
        if old.allowed != new.allowed:
            (allowed if new.allowed else refused).append(Turned(asked, last_ms, new))
    for found in (refused, allowed):
        found.sort(key=lambda turned: (-turned.last_ms, turned.asked))
    return Preview(refused, allowed)
