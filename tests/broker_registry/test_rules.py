"""Rules of requests: their defaults, and the forms of their members that are accepted."""

from __future__ import annotations

from typing import Any

import pytest

from broker_registry.json_types import InvalidObject
from broker_registry.rules import RuleSet
from broker_registry.store.values import SchemaContent

RULE = {"name": "r", "type": "CEL", "expr": "x"}


def parsed(**more: Any) -> RuleSet:
    found = RuleSet.parse({"domainRules": [{**RULE, **more}]})
    assert found is not None
    return found


def test_a_rule_without_kind_and_mode_has_those_of_confluents_registry() -> None:
    """If this fails, such a rule is refused, or its schema has another GUID than in Confluent's registry."""
    short, whole = parsed(), parsed(kind="TRANSFORM", mode="WRITEREAD")
    assert short.problem() == ""
    assert short.to_json()["domainRules"] == [
        {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "CEL", "expr": "x", "disabled": False}
    ]
    assert SchemaContent("AVRO", '"int"', rule_set=short).md5() == SchemaContent("AVRO", '"int"', rule_set=whole).md5()


def test_scalars_are_taken_for_texts_and_flags() -> None:
    """If this fails, a request that Confluent's registry accepts is refused."""
    found = parsed(name="r", disabled="true", params={"a": 1, "b": True, "c": None}).to_json()["domainRules"][0]
    assert (found["disabled"], found["params"]) == (True, {"a": "1", "b": "true", "c": ""})


@pytest.mark.parametrize(
    "member",
    [{"kind": "X"}, {"mode": ["READ"]}, {"disabled": "x"}, {"disabled": []}, {"tags": "T"}, {"name": {}}],
    ids=str,
)
def test_members_of_another_form_are_refused(member: dict[str, Any]) -> None:
    """If this fails, a rule means something else than its author wrote."""
    with pytest.raises(InvalidObject):
        parsed(**member)
