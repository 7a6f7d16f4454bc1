"""Decisions of the authorizer against a model that reads Kafka's documentation literally, for any ACLs and changes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.replay import replay
from broker_cy.security import authorizer as module
from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import ALL_OPERATIONS, Authorizer, Reason
from broker_cy.wire import messages

Record = messages.AccessControlEntryRecord
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
NAMES = ("a", "ab", "abc", "b", "*", "!a", "hardcode")
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a")
HOSTS = ("*", "1.1.1.1", "2.2.2.2")
CLIENTS = ("User:a", "User:b", "User:c", "Group:a", "User:root")
OPERATIONS = tuple(each for each in Operation if each > Operation.ALL)
# 77 is the operation of a Kafka version that does not exist yet.
acls = st.builds(
    Record,
    resource_type=st.sampled_from((*TYPES, 77)),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED, 77)),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from((*Operation, 77)),
    permission_type=st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.DENY, 77)),
)
IMPLIES = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def concerns(acl: Any, kind: int, name: str) -> bool:
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == 3:
        return acl.resource_name in (name, "*")
    return acl.pattern_type == 4 and name.startswith(acl.resource_name)


def is_about(acl: Any, who: str, host: str) -> bool:
    return acl.principal in (who, "User:*") and acl.host in ("*", host)


def model(found: list[Any], who: str, host: str, operation: Operation, kind: int, name: str, otherwise: bool) -> bool:
    """Kafka's rules, from its documentation: nothing here is shared with the authorizer."""
    if who == "User:root":
        return True
    concerned = [acl for acl in found if concerns(acl, kind, name)]
    if not concerned:
        return otherwise
    mine = [acl for acl in concerned if is_about(acl, who, host)]
    if any(acl.permission_type == 2 and acl.operation in (2, operation) for acl in mine):
        return False
    enough = (2, operation, *IMPLIES.get(operation, ()))
    return any(acl.permission_type == 3 and acl.operation in enough for acl in mine)


def some_model(found: list[Any], who: str, host: str, operation: Operation, kind: int, otherwise: bool) -> bool:
    """Whether there may be a resource of the type: the rules of KIP-679."""
    if model(found, who, host, operation, kind, "hardcode", otherwise):
        return True
    mine = [
        (acl.pattern_type, acl.resource_name, acl.permission_type)
        for acl in found
        if acl.resource_type == kind and is_about(acl, who, host) and acl.operation in (2, operation)
    ]
    if (3, "*", 2) in mine:
        return False
    for pattern, name, permission in mine:
        if permission != 3 or pattern not in (3, 4):
            continue
        if (pattern, name) == (3, "*"):
            return True
        denied = any(p == 4 and d == 2 and n and name.startswith(n) for p, n, d in mine)
        if not denied and not (pattern == 3 and (3, name, 2) in mine):
            return True
    return False


def numbered(found: list[Any]) -> list[Any]:
    for place, acl in enumerate(found):
        acl.id = UUID(int=place + 1)
    return found


@settings(max_examples=400, deadline=None)
@given(st.lists(acls, max_size=8), st.booleans())
def test_decides_as_the_documentation_says(found: list[Any], otherwise: bool) -> None:
    """If this fails, an operation is allowed that no ACL allows, or one is denied that an ACL allows."""
    authorizer = Authorizer(["User:root"], allow_if_no_acl=otherwise)
    authorizer.replace(numbered(found))
    for who in CLIENTS:
        for host in HOSTS[1:]:
            for kind in TYPES:
                for name in NAMES:
                    expected = {o for o in OPERATIONS if model(found, who, host, o, kind, name, otherwise)}
                    mask = authorizer.mask(who, host, kind, name)
                    assert {o for o in OPERATIONS if mask >> o & 1} == expected, (who, host, kind, name)
                    for operation in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS):
                        explained = authorizer.explain(who, host, operation, kind, name)
                        assert explained.allowed == (operation in expected)
                        if explained.binding is not None:
                            assert is_the_rule(explained.binding, found, operation, explained.allowed)
                for operation in (Operation.WRITE, Operation.DESCRIBE):
                    assert authorizer.allows_some(who, host, operation, kind) == some_model(
                        found, who, host, operation, kind, otherwise
                    )


def is_the_rule(binding: Binding, found: list[Any], operation: Operation, allowed: bool) -> bool:
    """Whether the named rule exists, and has the effect that it is named for."""
    says = Permission.ALLOW if allowed else Permission.DENY
    fits = binding.operation in (Operation.ALL, operation) or (allowed and binding.operation in IMPLIES[operation])
    return binding in [Binding.of_record(acl) for acl in found] and binding.permission is says and fits


changes = st.lists(st.tuples(st.integers(1, 6), st.none() | acls), max_size=12)


@settings(max_examples=300, deadline=None)
@given(st.lists(changes, max_size=4), st.data())
def test_replay_with_removals(commits: list[list[tuple[int, Any]]], data: st.DataObject) -> None:
    """CVE-2024-27309. If this fails, a removed ACL takes others on its resource with it, or stays."""
    image, authorizer = MetadataImage(), Authorizer()
    authorizer.replace(image.acls())
    kept: dict[int, Any] = {}
    for commit in commits:
        above = image.branch()
        for number, acl in commit:
            if acl is not None:
                # The same entry may be there under several ids.
                copy = Record(**{name: getattr(acl, name) for name in Record.__slots__ if name != "_unknown_tags"})
                copy.id = UUID(int=number)
                replay(above, copy)
                kept[number] = copy
            else:
                replay(above, messages.RemoveAccessControlEntryRecord(id=UUID(int=number)))
                kept.pop(number, None)
        # Masks of before must not outlive the change.
        authorizer.mask("User:a", "1.1.1.1", ResourceType.TOPIC, "abc")
        authorizer.change(image.absorb(above).acls)
        fresh = Authorizer()
        fresh.change(ImageDelta.initial(image).acls)
        for who in CLIENTS[:4]:
            for name in NAMES:
                mask = authorizer.mask(who, "1.1.1.1", ResourceType.TOPIC, name)
                assert mask == fresh.mask(who, "1.1.1.1", ResourceType.TOPIC, name)
                left = list(kept.values())
                assert mask == sum(
                    1 << o for o in OPERATIONS if model(left, who, "1.1.1.1", o, ResourceType.TOPIC, name, False)
                )
    # Nothing is left behind, either.
    above = image.branch()
    for number in kept:
        replay(above, messages.RemoveAccessControlEntryRecord(id=UUID(int=number)))
    authorizer.change(image.absorb(above).acls)
    for patterns in (*authorizer._literal.values(), *authorizer._prefixed.values()):
        assert (patterns.by_principal, patterns.names, patterns.lengths) == ({}, {}, [])


def test_a_snapshot_replaces_the_acls() -> None:
    """If this fails, a node that received a snapshot still applies ACLs that were removed in the meantime."""
    before, after = MetadataImage(), MetadataImage()
    one, two = numbered([acl("User:a"), acl("User:b")])
    replay(before, one)
    replay(after, two)
    authorizer = Authorizer()
    authorizer.change(ImageDelta.initial(before).acls)
    authorizer.change(ImageDelta.between(before, after).acls)
    assert not authorizer.allows("User:a", "h", Operation.READ, ResourceType.TOPIC, "t")
    assert authorizer.allows("User:b", "h", Operation.READ, ResourceType.TOPIC, "t")


def acl(principal: str, operation: Operation = Operation.READ, name: str = "t", **fields: Any) -> Any:
    given_fields = {
        "resource_type": ResourceType.TOPIC,
        "pattern_type": PatternType.LITERAL,
        "host": "*",
        "permission_type": Permission.ALLOW,
        **fields,
    }
    return Record(principal=principal, operation=operation, resource_name=name, **given_fields)


def test_kept_masks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a client that asks for more and more names exhausts the memory of the broker."""
    monkeypatch.setattr(module, "MASKS_MAX", 100)
    authorizer = Authorizer()
    authorizer.replace([acl("User:a", name="*")])
    for number in range(1_000):
        who = f"User:{'ab'[number % 2]}"
        assert authorizer.allows(who, "h", Operation.READ, ResourceType.TOPIC, f"t{number}") == (who == "User:a")
        assert sum(map(len, authorizer._masks.values())) <= 100


def test_shared_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, ACLs of ever new hosts, created and removed, fill the memory of the broker."""
    monkeypatch.setattr(module, "SHARED_MAX", 10)
    authorizer = Authorizer()
    records = numbered([acl("User:a", host=f"10.0.0.{number}") for number in range(100)])
    authorizer.change((None, record) for record in records)
    assert len(authorizer._shared) <= 10
    authorizer.change((record, None) for record in records)
    assert not authorizer._literal[ResourceType.TOPIC].names


def test_super_users_are_exact() -> None:
    """If this fails, a user whose name resembles that of a super user may do everything."""
    authorizer = Authorizer(["User:root"])
    authorizer.replace([acl("User:*", permission_type=Permission.DENY, operation=Operation.ALL, name="*")])
    assert authorizer.mask("User:root", "h", ResourceType.TOPIC, "t") == ALL_OPERATIONS
    for who in ("User:root ", "user:root", "User:Root", "Group:root", "root", "User:*"):
        assert authorizer.mask(who, "h", ResourceType.TOPIC, "t") == 0


def test_an_explanation_names_the_rule_or_what_is_near() -> None:
    """If this fails, an operator cannot find out why an operation is denied."""
    authorizer = Authorizer(["User:root"])
    deny = acl("User:*", Operation.WRITE, "te", pattern_type=PatternType.PREFIXED, permission_type=Permission.DENY)
    allow = acl("User:a", Operation.ALL, "test")
    authorizer.replace(numbered([deny, allow, acl("User:b", Operation.WRITE, "other")]))

    def why(who: str, operation: Operation, name: str = "test") -> tuple[bool, Reason, Any, tuple[Any, ...]]:
        found = authorizer.explain(who, "h", operation, ResourceType.TOPIC, name)
        return found.allowed, found.reason, found.binding, found.near

    assert why("User:a", Operation.WRITE) == (False, Reason.DENIED, Binding.of_record(deny), ())
    assert why("User:a", Operation.DESCRIBE) == (True, Reason.ALLOWED, Binding.of_record(allow), ())
    assert why("User:root", Operation.WRITE) == (True, Reason.SUPER_USER, None, ())
    # Near: an ACL that allows READ to another principal, and one that denies WRITE to all principals.
    near = (Binding.of_record(allow), Binding.of_record(deny))
    assert why("User:c", Operation.READ) == (False, Reason.NO_MATCH, None, near)
    assert why("User:c", Operation.READ, "x") == (False, Reason.NO_ACL_DENIED, None, ())
    everybody = Authorizer(allow_if_no_acl=True)
    assert everybody.explain("User:c", "h", Operation.READ, ResourceType.TOPIC, "x")[:2] == (
        True,
        Reason.NO_ACL_ALLOWED,
    )
