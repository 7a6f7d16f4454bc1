"""Deletions and settings: soft before permanent, references, read-only scopes, invalid values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_registry.errors import Code, RegistryError
from broker_registry.operations.delete import delete_context, delete_subject, delete_version
from broker_registry.operations.plan import Operation, Plan
from broker_registry.operations.register import RegisterSettings, register
from broker_registry.operations.settings import (
    checked_changes,
    delete_config,
    delete_mode,
    parse_mode,
    set_mode,
    update_config,
)
from broker_registry.rules import RuleSet
from broker_registry.store.state import Defaults, State
from broker_registry.store.values import Config, Mode
from tests.broker_registry.operations.support import add, plan_of, record_of, run, wanted


@pytest.fixture
def state() -> State:
    """The subject `a` with the versions 1 and 2."""
    found = State()
    add(found, wanted("a", record_of("x:int")))
    add(found, wanted("a", record_of("x:int", "y:int=0")))
    return found


def code_of(state: State, operation: Callable[[State], Plan[Any]]) -> Code:
    with pytest.raises(RegistryError) as caught:
        run(state, lambda state, ids: operation(state))
    return Code(caught.value.code)


def test_a_version_is_deleted_softly_first(state: State) -> None:
    """If this fails, one wrong command loses a schema for good."""
    assert code_of(state, lambda state: delete_version(state, "a", 1, is_permanent=True)) is (
        Code.VERSION_NOT_SOFT_DELETED
    )
    assert run(state, lambda state, ids: delete_version(state, "a", 1, is_permanent=False)) == 1
    assert code_of(state, lambda state: delete_version(state, "a", 1, is_permanent=False)) is Code.VERSION_SOFT_DELETED
    assert state.by_id(1, None) is not None
    assert run(state, lambda state, ids: delete_version(state, "a", 1, is_permanent=True)) == 1
    assert state.by_id(1, None) is None
    assert code_of(state, lambda state: delete_version(state, "a", 9, is_permanent=False)) is Code.VERSION_NOT_FOUND
    assert code_of(state, lambda state: delete_version(state, "z", 1, is_permanent=False)) is Code.SUBJECT_NOT_FOUND
    assert run(state, lambda state, ids: delete_version(state, "a", -1, is_permanent=False)) == 2


def test_a_subject_is_deleted_softly_first(state: State) -> None:
    """If this fails, all versions of a subject are lost at once, or its settings outlive it."""
    run(state, lambda state, ids: update_config(state, "a", {"compatibility_level": "NONE"}))
    assert code_of(state, lambda state: delete_subject(state, "a", is_permanent=True)) is Code.SUBJECT_NOT_SOFT_DELETED
    assert run(state, lambda state, ids: delete_subject(state, "a", is_permanent=False)) == [1, 2]
    assert code_of(state, lambda state: delete_subject(state, "a", is_permanent=False)) is Code.SUBJECT_SOFT_DELETED
    assert code_of(state, lambda state: delete_subject(state, "z", is_permanent=False)) is Code.SUBJECT_NOT_FOUND
    assert run(state, lambda state, ids: delete_subject(state, "a", is_permanent=True)) == [1, 2]
    assert state.versions("a") == []
    assert state.config("a") is None


def test_nothing_is_deleted_in_a_read_only_scope(state: State) -> None:
    """If this fails, a registry that was frozen for a migration changes."""
    run(state, lambda state, ids: set_mode(state, None, Mode.READONLY, is_forced=False))
    for operation in (
        lambda state: delete_version(state, "a", 1, is_permanent=False),
        lambda state: delete_subject(state, "a", is_permanent=False),
        lambda state: update_config(state, "a", {"normalize": True}),
    ):
        assert code_of(state, operation) is Code.OPERATION_NOT_PERMITTED


def test_a_context_is_deleted_when_it_is_empty(state: State) -> None:
    """If this fails, a context with schemas disappears from the list."""
    add(state, wanted(":.x:a", record_of("x:int")))
    assert code_of(state, lambda state: delete_context(state, ":.x:")) is Code.CONTEXT_NOT_EMPTY
    run(state, lambda state, ids: delete_subject(state, ":.x:a", is_permanent=False))
    run(state, lambda state, ids: delete_subject(state, ":.x:a", is_permanent=True))
    run(state, lambda state, ids: delete_context(state, ":.x:"))
    assert state.contexts == []


def test_settings_keep_what_a_request_does_not_name(state: State) -> None:
    """If this fails, setting a level forgets the rules of a subject."""
    run(state, lambda state, ids: update_config(state, "a", {"compatibility_level": "FULL", "normalize": True}))
    found = run(state, lambda state, ids: update_config(state, "a", {"compatibility_level": "NONE"}))
    assert found == Config(compatibility_level="NONE", normalize=True)
    found = run(state, lambda state, ids: update_config(state, "a", {"normalize": None}))
    assert found == Config(compatibility_level="NONE")
    assert run(state, lambda state, ids: delete_config(state, "a")) == Config(compatibility_level="NONE")
    assert code_of(state, lambda state: delete_config(state, "a")) is Code.SUBJECT_NOT_FOUND


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"compatibility_level": "SIDEWAYS"}, Code.INVALID_COMPATIBILITY_LEVEL),
        ({"compatibility_policy": "LOGICAL"}, Code.INVALID_COMPATIBILITY_LEVEL),
        (
            {"default_rule_set": RuleSet.parse({"domainRules": [{"name": "1", "type": "CEL"}]})},
            Code.INVALID_RULE_SET,
        ),
        (
            {"override_rule_set": RuleSet.parse({"domainRules": [{"name": "a", "type": "CEL", "mode": "UPGRADE"}]})},
            Code.INVALID_RULE_SET,
        ),
    ],
)
def test_invalid_settings_have_confluents_codes(changes: dict[str, Any], code: Code) -> None:
    """If this fails, a typing error becomes a setting."""
    with pytest.raises(RegistryError) as caught:
        checked_changes(changes)
    assert caught.value.code == code


def test_modes_are_removed_with_those_below(state: State) -> None:
    """If this fails, a subject stays read-only after its context was opened again."""
    run(state, lambda state, ids: set_mode(state, None, Mode.READONLY, is_forced=False))
    run(state, lambda state, ids: set_mode(state, "a", Mode.READONLY, is_forced=False))
    run(state, lambda state, ids: set_mode(state, ":.x:a", Mode.READONLY, is_forced=False))
    assert run(state, lambda state, ids: delete_mode(state, None, is_recursive=True)) is Mode.READONLY
    assert state.modes == {":.x:a": Mode.READONLY}
    assert code_of(state, lambda state: delete_mode(state, "a", is_recursive=False)) is Code.SUBJECT_NOT_FOUND


@pytest.mark.parametrize(("text", "subject"), [("OPEN", None), ("FORWARD", "a"), ("FORWARD", None)])
def test_invalid_modes_are_refused(text: str, subject: str | None) -> None:
    """If this fails, a mode is stored that no registry knows."""
    with pytest.raises(RegistryError) as caught:
        parse_mode(text, subject)
    assert caught.value.code == Code.INVALID_MODE


def test_modes_cannot_be_changed_where_the_operator_forbids_it() -> None:
    """If this fails, `mode.mutability=false` has no effect."""
    state = State(Defaults(allows_mode_changes=False))
    assert code_of(state, lambda state: set_mode(state, None, Mode.IMPORT, is_forced=True)) is (
        Code.OPERATION_NOT_PERMITTED
    )


def test_an_import_removes_deleted_versions(state: State) -> None:
    """If this fails, an imported schema meets the id of a deleted one, and the import stops halfway."""
    run(state, lambda state, ids: delete_subject(state, "a", is_permanent=False))
    run(state, lambda state, ids: set_mode(state, None, Mode.IMPORT, is_forced=False))
    assert state.versions("a") == []
    assert add(state, wanted("b", '"long"', version=4, schema_id=1)).value.id == 1


def changing(change: Callable[..., Plan[Any]], *values: Any, **named: Any) -> Operation[Any]:
    return lambda state, ids: change(state, *values, **named)


class Topic:
    """The records of operations, and the state that they make."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes | None] = {}
        self.state = State()

    def run(self, operation: Operation[Any]) -> Any:
        plan = plan_of(self.state, operation)
        self.records.update(plan.records)
        return run(self.state, lambda state, ids: plan)

    def register(self, subject: str) -> int:
        request = wanted(subject, record_of("x:int", name=f"R{len(self.records)}"))
        reply = self.run(lambda state, ids: register(state, ids, request, RegisterSettings()))
        return int(reply.value.id)

    def compact(self) -> None:
        """Replay the newest value of each key; the cleaner has removed the deletions too."""
        self.records = {key: value for key, value in self.records.items() if value is not None}
        self.state = State()
        for key, value in self.records.items():
            self.state.apply(key, value, 1)


@pytest.mark.parametrize("context", ["", ":.test:"])
def test_ids_of_schemas_that_are_gone_are_not_given_again(context: str) -> None:
    """If this fails, records of a deleted schema are decoded by the next schema that is registered."""
    topic = Topic()
    assert [topic.register(context + name) for name in "abc"] == [1, 2, 3]
    for is_permanent in (False, True):
        topic.run(changing(delete_version, f"{context}c", 1, is_permanent=is_permanent))
    topic.compact()
    assert topic.register(f"{context}d") == 4
    for is_permanent in (False, True):
        topic.run(changing(delete_subject, f"{context}d", is_permanent=is_permanent))
    topic.compact()
    assert topic.register(f"{context}e") == 5
    for name in "abe":
        topic.run(changing(delete_subject, context + name, is_permanent=False))
    # The place of an import keeps no deleted versions.
    for mode in (Mode.IMPORT, Mode.READWRITE):
        topic.run(changing(set_mode, context or None, mode, is_forced=False))
    topic.compact()
    assert not topic.state.subjects_inside(None)
    assert topic.register(f"{context}f") == 6
    # Ids of other contexts are not touched.
    assert topic.register(":.other:a") == 1
