"""Explanations of decisions, and the words in which people write ACLs."""

from __future__ import annotations

from random import Random

import pytest

from broker_cy.security import acl_words
from broker_cy.security.acl_words import parse_operation, parse_principal, parse_resource, shown, word_of
from broker_cy.security.acls import OPERATIONS, Binding, Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import Reason
from broker_cy.security.explain import NEAREST_MAX, Asked, authorizer_of, differences, explain, nearest

TOPIC = ResourceType.TOPIC
NAMES = ("*", "o", "or", "orders", "orders-1", "x")
WHO = ("User:*", "User:a", "User:b")
HOSTS = ("*", "10.0.0.1", "0:0:0:0:0:0:0:1")


def drawn(random: Random) -> Binding:
    kind = random.choice([TOPIC, ResourceType.GROUP])
    prefixed = random.random() < 0.4
    return Binding(
        kind,
        random.choice(NAMES[1:] if prefixed else NAMES),
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        random.choice(WHO),
        random.choice(HOSTS),
        random.choice([Operation.ALL, *OPERATIONS[kind]]),
        random.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )


def test_an_explanation_is_what_brokers_decide() -> None:
    """If this fails, the command names an ACL that does not decide, or says "allowed" about an operation that brokers
    deny.
    """
    random = Random("explain")
    outcomes = set()
    for _ in range(400):
        bindings = [drawn(random) for _ in range(random.randint(0, 8))]
        authorizer = authorizer_of(bindings)
        for _ in range(10):
            kind = random.choice([TOPIC, ResourceType.GROUP])
            asked = Asked(
                random.choice(WHO[1:]),
                random.choice(["10.0.0.1", "::1", "10.9.9.9"]),
                random.choice(OPERATIONS[kind]),
                kind,
                random.choice(NAMES[1:]),
            )
            verdict = explain(authorizer, bindings, asked)
            found = verdict.explanation
            host = "0:0:0:0:0:0:0:1" if asked.host == "::1" else asked.host
            assert found.allowed is authorizer.allows(asked.principal, host, asked.operation, kind, asked.name)
            fitting = [each for each in bindings if not differences(each, asked)]
            denying = [each for each in fitting if each.permission is Permission.DENY]
            assert found.allowed is (bool(fitting) and not denying)
            if found.binding is not None:
                assert found.binding in (denying or fitting)
            for near in verdict.nearest:
                assert near.binding in bindings
                assert near.differs
            outcomes.add(found.reason)
    assert outcomes == {Reason.ALLOWED, Reason.DENIED, Reason.NO_MATCH, Reason.NO_ACL_DENIED}


def test_the_nearest_acls_come_first() -> None:
    """If this fails, the one ACL with a mistake in it is lost among a thousand others."""

    def allow(principal: str, operation: Operation, name: str, kind: PatternType = PatternType.LITERAL) -> Binding:
        return Binding(TOPIC, name, kind, principal, "*", operation, Permission.ALLOW)

    typo = allow("User:a", Operation.READ, "order")
    others = [allow(f"User:{number}", Operation.WRITE, "zzz") for number in range(1_000)]
    same_topic = allow("User:b", Operation.READ, "orders")
    denial = Binding(TOPIC, "orders", PatternType.LITERAL, "User:a", "10.0.0.9", Operation.READ, Permission.DENY)
    asked = Asked("User:a", "10.0.0.1", Operation.READ, TOPIC, "orders")
    found = nearest([*others, same_topic, typo, denial], asked)
    assert [each.binding for each in found] == [typo, same_topic]
    assert found[0].differs == ("it is for the name order",)
    assert found[1].differs == ("it is for User:b",)
    many = [allow(f"User:{number}", Operation.READ, "orders") for number in range(1_000)]
    assert len(nearest(many, asked)) == NEAREST_MAX


def test_words_are_read_as_they_are_written() -> None:
    """If this fails, an ACL that a command shows cannot be given to another one."""
    for kind, operations in OPERATIONS.items():
        name = "kafka-cluster" if kind is ResourceType.CLUSTER else "a:b"
        assert parse_resource(f"{word_of(kind)}:{name}") == (kind, name)
        for operation in operations:
            assert parse_operation(word_of(operation)) is parse_operation(operation.name) is operation
            acl_words.check_operation(operation, kind)
        acl_words.check_operation(Operation.ALL, kind)
    assert parse_resource("CLUSTER") == (ResourceType.CLUSTER, "kafka-cluster")
    assert parse_resource("Transactional_Id:x")[0] is ResourceType.TRANSACTIONAL_ID
    assert parse_principal("alice") == parse_principal("User:alice") == "User:alice"
    assert parse_principal("User:CN=a:b") == "User:CN=a:b"
    binding = Binding(
        TOPIC, "ord", PatternType.PREFIXED, "User:a", "10.0.0.1", Operation.ALTER_CONFIGS, Permission.DENY
    )
    assert shown(binding) == "deny User:a from 10.0.0.1 alter-configs topic:ord*"
    for parse, text in (
        (parse_resource, ""),
        (parse_resource, "topic:"),
        (parse_operation, "any"),
        (parse_principal, ""),
    ):
        with pytest.raises(ValueError, match="is no"):
            parse(text)
