"""Bindings and filters, with Kafka's rules."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import (
    Binding,
    Filter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_new,
    host_text,
)
from broker_cy.wire import messages

GOOD = Binding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": ResourceType(99)}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": Operation(-3)}, "Invalid operation UNKNOWN"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "Could not parse principal from `alice` (no colon is present separating the "),
    ],
)
def test_an_invalid_acl_is_refused(fields: dict[str, Any], message: str) -> None:
    """If this fails, an ACL is kept that can never apply, and its creator believes that it does."""
    check_new(GOOD)
    with pytest.raises(KafkaError) as failed:
        check_new(GOOD._replace(**fields))
    assert failed.value.code is ErrorCode.INVALID_REQUEST
    assert failed.value.message.startswith(message)


def record(name: str = "abc", pattern: PatternType = PatternType.LITERAL, **fields: Any) -> Any:
    given = {"resource_type": ResourceType.TOPIC, "principal": "User:a", "host": "*", "operation": 3, **fields}
    return messages.AccessControlEntryRecord(
        resource_name=name, pattern_type=pattern, permission_type=Permission.ALLOW, **given
    )


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        (Filter(), record(), True),
        (Filter(resource_type=ResourceType.GROUP), record(), False),
        (Filter(name="abc"), record(), True),
        (Filter(name="abc"), record("ab", PatternType.PREFIXED), False),
        (Filter(name="abc", pattern_type=PatternType.MATCH), record("ab", PatternType.PREFIXED), True),
        (Filter(name="abc", pattern_type=PatternType.MATCH), record("ab"), False),
        (Filter(name="abc", pattern_type=PatternType.MATCH), record("*"), True),
        (Filter(name="abc", pattern_type=PatternType.MATCH), record("*", PatternType.PREFIXED), False),
        (Filter(pattern_type=PatternType.MATCH), record("ab", PatternType.PREFIXED), True),
        (Filter(pattern_type=PatternType.PREFIXED), record(), False),
        (Filter(name="*", pattern_type=PatternType.LITERAL), record("*"), True),
        (Filter(principal="User:a", host="*", operation=Operation.READ), record(), True),
        (Filter(principal="User:b"), record(), False),
        (Filter(host="1.1.1.1"), record(), False),
        (Filter(operation=Operation.ALL), record(), False),
        (Filter(permission=Permission.DENY), record(), False),
    ],
)
def test_a_filter_selects_as_kafkas(wanted: Filter, found: Any, expected: bool) -> None:
    """If this fails, kafka-acls.sh --remove removes other ACLs than with Kafka."""
    wanted.check()
    assert wanted.matches(found) is expected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Filter(resource_type=ResourceType(50)), "Unknown patternFilter."),
        (Filter(pattern_type=PatternType(50)), "Unknown patternFilter."),
        (Filter(operation=Operation(50)), "Unknown entryFilter."),
        (Filter(permission=Permission(50)), "Unknown entryFilter."),
    ],
)
def test_an_unknown_filter_selects_nothing(wanted: Filter, message: str) -> None:
    """If this fails, a newer client that asks for less removes everything."""
    with pytest.raises(KafkaError, match=message):
        wanted.check()


@pytest.mark.parametrize(
    ("here", "java"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a:0", "2001:db8:0:0:0:0:a:0"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("node-1", "node-1"),
        ("a:b", "a:b"),
    ],
)
def test_hosts_have_javas_form(here: str, java: str) -> None:
    """If this fails, ACLs that Kafka's users wrote for an IPv6 host do not apply."""
    assert host_text(here) == java
