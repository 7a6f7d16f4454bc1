"""Records of `_schemas` that no registry would write: the state goes on, and still answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from broker_registry.store import values
from broker_registry.store.keys import Key, KeyType, schema_key
from broker_registry.store.state import State
from broker_registry.store.values import Config, Mode, SchemaContent, SchemaValue
from tests.support.tiers import by_tier

ROUNDS = by_tier(1_000, 20_000)
GOOD = SchemaValue("good", 1, 1, SchemaContent("AVRO", '"int"'))
WHOLE: dict[str, Any] = {
    "subject": "a",
    "version": 1,
    "id": 7,
    "md5": "AAAAAAAAAAAAAAAAAAAAAA==",
    "schemaType": "JSON",
    "references": [{"name": "n", "subject": "good", "version": 1}],
    "metadata": {"tags": {"$.a": ["T"]}, "properties": {"a": "b"}, "sensitive": ["a"]},
    "ruleSet": {
        "domainRules": [
            {"name": "r", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL", "tags": ["T"], "params": {"a": "b"}}
        ]
    },
    "schema": "{}",
    "deleted": False,
}
SETTINGS: dict[str, Any] = {
    "subject": "a",
    "alias": "b",
    "normalize": True,
    "compatibilityLevel": "FULL",
    "defaultMetadata": {"properties": {"a": "b"}},
    "overrideRuleSet": {"domainRules": []},
}
RECORDS = {
    schema_key("a", 1).encode(): json.dumps(WHOLE).encode(),
    Key(KeyType.CONFIG, "a").encode(): json.dumps(SETTINGS).encode(),
    Key(KeyType.MODE, "a").encode(): values.encode_mode("a", Mode.READONLY),
    Key(KeyType.DELETE_SUBJECT, "a").encode(): values.encode_subject_deletion("a", 1),
    Key(KeyType.CLEAR_SUBJECT, "a").encode(): values.encode_subject_clearing("a"),
    Key(KeyType.CONTEXT, context=".c").encode(): b'{"tenant":"default","context":".c"}',
    Key(KeyType.NOOP).encode(): b"{}",
}
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**31, 2**63, 2**64, 1.5, 1e308, "", "x", "\0", [], {}, [1], {"a": 1}, [None], {"a": None}),
    *(":.c:x", ":*:x", ":.:", [[1]], "A" * 3_000),
)
GARBAGE = (b"1e999", b"-", b"9" * 30, b"[" * 2_000, b"\\ud800", b'"', b"\xff", b"\0")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return each container with a key of it."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, each in pairs:
        yield value, key
        yield from _places(each)


def damaged(source: random.Random, data: bytes) -> bytes:
    """Return JSON with other values in some places, or with bytes that make it none."""
    if source.random() < 0.7:
        value = json.loads(data)
        places = list(_places(value))
        for _ in range(source.choice((1, 1, 2))):
            if places:
                container, key = source.choice(places)
                container[key] = source.choice(ODD)
        return json.dumps(value if source.random() < 0.95 else source.choice(ODD)).encode()
    at = source.randrange(len(data) + 1)
    return source.choice((data[:at], data[:at] + source.choice(GARBAGE) + data[at:], data[:at] + data[at + 1 :]))


def read_all(state: State) -> None:
    """Ask what the API asks."""
    for value in state.all_values():
        # An empty name of a rule is as good as none.
        assert SchemaValue.decode(value.key, value.encode()).encode() == value.encode()
        assert len(value.guid) == 36
        assert state.by_id(value.id, value.subject) is not None
        state.config_in_scope(value.subject).to_json()
        state.mode_in_scope(value.subject)
    for subject, config in state.configs.items():
        values.encode_config(subject, config)
        state.config_in_scope(subject).to_json()
    assert state.contexts == sorted(state.contexts)


def test_damaged_records_end_nothing() -> None:
    """If this fails, one damaged record ends all instances, and each new one at its start."""
    source = random.Random(35)
    problems = 0
    for _ in range(ROUNDS):
        state = State()
        state.apply(GOOD.key.encode(), GOOD.encode())
        for key, value in source.choices(list(RECORDS.items()), k=3):
            with_key, with_value = source.choice(((True, False), (False, True), (False, True), (True, True)))
            state.apply(damaged(source, key) if with_key else key, damaged(source, value) if with_value else value)
            read_all(state)
        problems += state.problems_total
        state.apply(GOOD.key.encode(), GOOD.encode())
        found = state.version("good", 1)
        # Another record may have had its id before; then it is one more problem.
        assert (found is not None and found.content == GOOD.content) or state.by_id(1, None) is not None
    assert problems > ROUNDS // 2


@pytest.mark.parametrize(
    "changes",
    [
        {"md5": "AAAA"},
        {"md5": 1},
        {"schemaType": 1},
        {"schema": None},
        {"references": [{"name": "n", "subject": "s", "version": 2**31}]},
        {"references": [{"name": "n", "subject": 1.5, "version": 1}]},
        {"references": 1},
        {"metadata": 1},
        {"ruleSet": {"domainRules": [{"name": "r", "kind": "OTHER"}]}},
    ],
    ids=str,
)
def test_the_id_of_a_schema_that_cannot_be_read_is_not_given_again(changes: dict[str, Any]) -> None:
    """If this fails, consumers of another release decode records of that id with a schema of this one."""
    state = State()
    state.apply(schema_key("a", 1).encode(), json.dumps({**WHOLE, "id": 40, **changes}).encode())
    assert state.versions("a") == []
    assert state.problems_total == 1
    assert state.max_id(".") == 40


@pytest.mark.parametrize("schema_id", [-1, 2**31, True, "7", None, 1.0])
def test_an_id_that_no_record_can_name_is_no_id(schema_id: Any) -> None:
    """If this fails, one record uses up all ids."""
    state = State()
    state.apply(schema_key("a", 1).encode(), json.dumps({**WHOLE, "id": schema_id}).encode())
    assert (state.versions("a"), state.problems_total, state.max_id(".")) == ([], 1, 0)


def test_settings_of_the_wrong_type_are_not_taken() -> None:
    """If this fails, each request for the subject ends in an internal error."""
    state = State()
    key = Key(KeyType.CONFIG, "a").encode()
    state.apply(key, values.encode_config("a", Config(compatibility_level="FULL")))
    for name, value in (("alias", [5]), ("compatibilityLevel", []), ("normalize", "x"), ("defaultMetadata", 1)):
        state.apply(key, json.dumps({**SETTINGS, name: value}).encode())
    assert state.problems_total == 4
    assert state.configs["a"] == Config(compatibility_level="FULL")
