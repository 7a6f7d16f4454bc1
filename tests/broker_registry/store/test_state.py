"""The replay of `_schemas`, also of records that contradict each other."""

from __future__ import annotations

from broker_registry.schema_types.base import Reference
from broker_registry.store import values
from broker_registry.store.keys import Key, KeyType, schema_key
from broker_registry.store.state import ContextId, Place, State
from broker_registry.store.values import Config, Mode, SchemaContent, SchemaValue


def put(
    state: State, subject: str, version: int, schema_id: int, text: str, *references: Reference, deleted: bool = False
) -> SchemaValue:
    value = SchemaValue(subject, version, schema_id, SchemaContent("AVRO", text, references), deleted)
    state.apply(value.key.encode(), value.encode(), 1)
    return value


def config(state: State, subject: str | None, level: str, *, normalize: bool | None = None) -> None:
    key = Key(KeyType.CONFIG, subject)
    state.apply(key.encode(), values.encode_config(subject, Config(compatibility_level=level, normalize=normalize)))


def numbers(state: State, subject: str) -> list[int]:
    return [value.version for value in state.versions(subject) if not value.is_deleted]


def test_versions_are_found_by_id_hash_and_number() -> None:
    """If this fails, consumers cannot find the schema of a record."""
    state = State()
    first = put(state, "a", 1, 10, '"int"')
    put(state, "a", 2, 11, '"long"')
    put(state, "b", 1, 10, '"int"')
    assert numbers(state, "a") == [1, 2]
    assert state.holders(".", 10) == {"a": 1, "b": 1}
    found = state.by_id(10, "b")
    assert found is not None
    assert (found.subject, found.content) == ("b", first.content)
    assert state.id_of(".", first.content.md5()) == 10
    assert state.by_id(12, None) is None
    assert (state.max_id("."), state.max_id(".x")) == (11, 0)


def test_an_id_keeps_its_meaning() -> None:
    """If this fails, a faulty writer makes consumers decode records with a wrong schema."""
    state = State()
    put(state, "a", 1, 1, '"int"')
    put(state, "b", 1, 1, '"string"')
    assert state.versions("b") == []
    assert state.problems_total == 1
    assert "has the id 1 of another schema, a version 1" in state.problems[0]
    put(state, ":.x:b", 1, 1, '"string"')
    assert numbers(state, ":.x:b") == [1]


def test_deletions_are_soft_then_final() -> None:
    """If this fails, a deleted subject returns after a restart, or its ids are given to others."""
    state = State()
    for version in (1, 2, 3):
        put(state, "a", version, version, f'"t{version}"')
    state.apply(Key(KeyType.DELETE_SUBJECT, "a").encode(), values.encode_subject_deletion("a", 2))
    assert numbers(state, "a") == [3]
    assert [value.is_deleted for value in state.versions("a")] == [True, True, False]
    assert state.by_id(1, None) is not None
    state.apply(schema_key("a", 1).encode(), None)
    assert [value.version for value in state.versions("a")] == [2, 3]
    assert state.by_id(1, None) is None
    assert state.id_of(".", SchemaContent("AVRO", '"t1"').md5()) is None
    assert state.max_id(".") == 3
    state.apply(Key(KeyType.CLEAR_SUBJECT).encode(), values.encode_subject_clearing(None))
    assert [value.version for value in state.versions("a")] == [3]


def test_referrers_go_with_their_last_version() -> None:
    """If this fails, a schema that others need is deleted, or one that none needs cannot be."""
    state = State()
    put(state, "base", 1, 1, '"int"')
    put(state, "a", 1, 2, '"x"', Reference("base", "base", 1))
    put(state, "b", 1, 2, '"x"', Reference("base", "base", 1))
    place = Place("base", 1)
    assert state.referrers(place, with_deleted=False) == [ContextId(".", 2)]
    put(state, "a", 1, 2, '"x"', Reference("base", "base", 1), deleted=True)
    assert state.referring_subjects(place, with_deleted=False) == {"b"}
    state.apply(schema_key("b", 1).encode(), None)
    assert state.referrers(place, with_deleted=False) == []
    assert state.referrers(place, with_deleted=True) == [ContextId(".", 2)]
    state.apply(schema_key("a", 1).encode(), None)
    assert state.referrers(place, with_deleted=True) == []


def test_references_are_in_the_context_of_their_schema() -> None:
    """If this fails, schemas of one context use types of another."""
    state = State()
    put(state, ":.x:base", 1, 1, '"int"')
    put(state, ":.x:a", 1, 2, '"y"', Reference("base", "base", 1))
    assert state.referrers(Place(":.x:base", 1), with_deleted=True) == [ContextId(".x", 2)]
    assert state.referrers(Place("base", 1), with_deleted=True) == []


def test_settings_come_from_the_nearest_scope() -> None:
    """If this fails, a subject is checked by a level that was not set for it."""
    state = State()
    assert state.config_in_scope("a").compatibility_level == "BACKWARD"
    config(state, ":.__GLOBAL:", "NONE")
    assert state.config_in_scope("a").compatibility_level == "NONE"
    config(state, None, "FULL", normalize=True)
    config(state, ":.x:", "FORWARD")
    assert state.config_in_scope("a").compatibility_level == "FULL"
    assert state.config_in_scope(":.x:a").compatibility_level == "FORWARD"
    assert state.config_in_scope(":.y:a").compatibility_level == "NONE"
    config(state, "a", "BACKWARD")
    found = state.config_in_scope("a")
    assert (found.compatibility_level, found.normalize) == ("BACKWARD", True)
    state.apply(Key(KeyType.CONFIG, "a").encode(), None)
    assert state.config("a") is None
    state.apply(Key(KeyType.MODE, ":.x:").encode(), values.encode_mode(":.x:", Mode.IMPORT))
    assert (state.mode_in_scope(":.x:a"), state.mode_in_scope("a")) == (Mode.IMPORT, Mode.READWRITE)


def test_lists_by_prefix_and_context() -> None:
    """If this fails, tools list subjects of other contexts, or miss some."""
    state = State()
    for subject in ("b", "ab", ":.x:ab", ":.x:c"):
        put(state, subject, 1, 1, '"int"')
    assert state.subjects_with_prefix(":*:") == [":.x:ab", ":.x:c", "ab", "b"]
    assert state.subjects_with_prefix("") == ["ab", "b"]
    assert state.subjects_with_prefix(":*:a") == [":.x:ab", "ab"]
    assert state.subjects_with_prefix(":.x:") == [":.x:ab", ":.x:c"]
    assert state.has_subjects(":.x:", with_deleted=False)
    assert not state.has_subjects(":.y:", with_deleted=True)
    assert state.has_subjects(None, with_deleted=False)


def test_records_of_newer_versions_are_skipped() -> None:
    """If this fails, one unknown record keeps the registry from starting."""
    state = State()
    state.apply(b'{"keytype":"ASSOC","subject":"a"}', b"{}")
    state.apply(None, b"{}")
    state.apply(schema_key("a", 1).encode(), b"{")
    put(state, "b", 1, 1, '"int"')
    assert state.problems_total == 3
    assert numbers(state, "b") == [1]


def test_last_ids_of_other_writers_change_nothing() -> None:
    """If this fails, the record that Confluent's registry appends at its start gives ids of deleted schemas again."""
    state = State()
    key = Key(KeyType.NOOP).encode()
    put(state, "a", 1, 9, '"int"')
    state.apply(key, values.encode_max_ids({".": 7, ".x": 3}), 1)
    assert (state.max_id("."), state.max_id(".x")) == (9, 3)
    for other in (None, b"", b"[]", b'{"maxIds":7}', b'{"maxIds":{".":"x"}}', b"{}"):
        state.apply(key, other, 1)
    assert (state.max_id("."), state.max_id(".x")) == (9, 3)
