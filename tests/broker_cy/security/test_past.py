"""ACLs and the accesses of the past: unused ones, and a change that is tried."""

from __future__ import annotations

import pytest

from broker_cy.security.acl_words import parse_acl, parse_operation, parse_resource, shown
from broker_cy.security.explain import Asked, authorizer_of
from broker_cy.security.past import preview, unused


def asked(principal: str, operation: str, resource: str, host: str = "10.0.0.1") -> Asked:
    return Asked(principal, host, parse_operation(operation), *parse_resource(resource))


PAST = {
    asked("User:a", "read", "topic:orders"): 3_000,
    asked("User:a", "write", "topic:orders"): 2_000,
    asked("User:b", "read", "topic:bills"): 1_000,
    asked("User:b", "read", "topic:bills", "10.0.0.9"): 4_000,
    asked("User:c", "read", "group:g"): 5_000,
}


def test_rules_that_nobody_needed() -> None:
    """If this fails, an operator deletes an ACL that a client needs."""
    used = [parse_acl(text) for text in ("allow User:a read topic:orders", "deny User:b from 10.0.0.9 all topic:*")]
    spare = parse_acl("allow User:* read topic:ord*")
    never = parse_acl("allow User:a alter topic:orders")
    other_host = parse_acl("allow User:a from 10.0.0.2 write topic:orders")
    found = unused([*used, spare, never, other_host], PAST)
    assert [(each.binding, each.instead) for each in found] == [(spare, used[0]), (never, None), (other_host, None)]
    # Without the one that decided, the spare one does.
    assert [each.binding for each in unused([used[1], spare], PAST)] == []
    assert unused([], PAST) == []


def test_who_would_be_refused_or_allowed() -> None:
    """If this fails, a previewed change locks a client out, or grants access, without a warning."""
    now = [parse_acl(text) for text in ("allow User:a all topic:orders", "allow User:b read topic:bills")]
    denial = parse_acl("deny User:* from 10.0.0.9 read topic:b*")
    grant = parse_acl("allow User:c read group:*")
    found = preview(authorizer_of(now), authorizer_of([now[1], denial, grant]), PAST)
    assert [(each.asked.principal, each.asked.operation.name, each.last_ms) for each in found.refused] == [
        ("User:b", "READ", 4_000),
        ("User:a", "READ", 3_000),
        ("User:a", "WRITE", 2_000),
    ]
    assert found.refused[0].by.binding == denial
    assert [(each.asked.principal, each.by.binding) for each in found.allowed] == [("User:c", grant)]
    nothing = preview(authorizer_of(now), authorizer_of(now), PAST)
    assert nothing == ([], [])


def test_an_acl_in_words() -> None:
    """If this fails, the change that is tried is another one than the one that is meant."""
    for text in (
        "allow User:a read topic:orders",
        "deny User:* from 10.0.0.7 all topic:billing-*",
        "allow User:a describe topic:*",
        "allow User:a idempotent-write cluster",
    ):
        assert shown(parse_acl(text)) == text
    for text in ("", "allow User:a read", "allow User:a at 10.0.0.1 read topic:x", "allow User:a read topic:x now"):
        with pytest.raises(ValueError, match="PERMISSION PRINCIPAL"):
            parse_acl(text)
    with pytest.raises(ValueError, match="allowed are"):
        parse_acl("allow User:a write group:g")
