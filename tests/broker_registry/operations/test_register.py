"""Registration and lookup: ids, versions, equal schemas, modes, metadata, references, transactions of several plans."""

from __future__ import annotations

import pytest

from broker_registry.errors import Code, RegistryError
from broker_registry.operations.delete import delete_subject, delete_version
from broker_registry.operations.plan import Claims, Ids
from broker_registry.operations.register import RegisterSettings, check_compatibility, look_up, register
from broker_registry.operations.settings import delete_mode, set_mode, update_config
from broker_registry.operations.wanted import Wanted
from broker_registry.rules import Metadata, RuleSet
from broker_registry.schema_types.base import Reference
from broker_registry.store.keys import NUMBER_MAX
from broker_registry.store.state import Defaults, State
from broker_registry.store.values import Mode, SchemaContent, SchemaValue
from tests.broker_registry.operations.support import add, drive, plan_of, record_of, run, wanted


def refused(code: Code, state: State, request: Wanted) -> str:
    with pytest.raises(RegistryError) as caught:
        add(state, request)
    assert caught.value.code == code
    return caught.value.message


def test_one_schema_has_one_id_in_its_context() -> None:
    """If this fails, producers of two topics write two ids for one schema, or one id means two schemas."""
    state = State()
    first = add(state, wanted("a", record_of("x:int")))
    assert (first.value.id, first.value.version, first.is_new) == (1, 1, True)
    again = add(state, wanted("a", ' {"fields": [{"type": "int", "name": "x"}], "name": "R", "type": "record"} '))
    assert (again.value.id, again.value.version, again.is_new) == (1, 1, False)
    other = add(state, wanted("b", record_of("x:int")))
    assert (other.value.id, other.value.version, other.is_new) == (1, 1, True)
    second = add(state, wanted("a", record_of("x:int", "y:int=0")))
    assert (second.value.id, second.value.version) == (2, 2)
    elsewhere = add(state, wanted(":.x:a", record_of("x:int", "y:int=0")))
    assert (elsewhere.value.id, elsewhere.value.version) == (1, 1)
    assert state.contexts == [".x"]


def test_an_incompatible_schema_is_refused_with_its_reasons() -> None:
    """If this fails, consumers get records that they cannot read."""
    state = State()
    add(state, wanted("a", record_of("x:int")))
    message = refused(Code.INCOMPATIBLE_SCHEMA, state, wanted("a", record_of("x:int", "y:int")))
    assert message.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "a", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'y' at path '/fields/1' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'y'}, {oldSchemaVersion: 1}, "
    )
    assert message.endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")
    assert add(state, wanted("a", record_of("x:int", "y:int")), is_forced=True).value.version == 2


@pytest.mark.parametrize(
    ("level", "added", "removed"),
    [
        ("NONE", True, True),
        ("BACKWARD", False, True),
        ("FORWARD", True, False),
        ("FULL", False, False),
        ("FULL_TRANSITIVE", False, False),
    ],
)
def test_levels_allow_their_changes(level: str, added: bool, removed: bool) -> None:
    """If this fails, a level refuses what it promises, or allows what breaks readers."""
    state = State(Defaults(level=level))
    add(state, wanted("a", record_of("x:int", "z:int")))
    versions = state.versions("a")
    for text, is_allowed in ((record_of("x:int", "z:int", "y:int"), added), (record_of("x:int"), removed)):
        found = drive(check_compatibility(state, wanted("a", text), versions, normalizes=False))
        assert (not found) == is_allowed, found


def test_transitive_levels_look_at_all_versions() -> None:
    """If this fails, records of the first version become unreadable two versions later."""
    state = State()
    for text in (record_of("x:int"), record_of("x:int", "y:int=0")):
        add(state, wanted("a", text))
    third = wanted("a", record_of("x:int", "y:int"))
    assert drive(check_compatibility(state, third, state.versions("a"), normalizes=False)) == []
    run(state, lambda state, ids: update_config(state, "a", {"compatibility_level": "BACKWARD_TRANSITIVE"}))
    assert "oldSchemaVersion: 1" in refused(Code.INCOMPATIBLE_SCHEMA, state, third)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "Empty schema"),
        ("  ", "Empty schema"),
        ("{", "Invalid schema of type AVRO, details: the schema is no JSON"),
        ('"nope"', "Undefined schema: nope"),
        ('{"type":"record","name":"R"}', "Record has no fields"),
    ],
)
def test_an_invalid_schema_is_named(text: str, part: str) -> None:
    """If this fails, a broken schema is stored, or its author does not learn what is wrong."""
    assert part in refused(Code.INVALID_SCHEMA, State(), wanted("a", text))


def test_unknown_types_are_invalid() -> None:
    """If this fails, a schema that no client can use is stored."""
    message = refused(Code.INVALID_SCHEMA, State(), wanted("a", "x", schema_type="XML"))
    assert message == "Invalid schema type XML"


def test_a_reference_brings_its_types() -> None:
    """If this fails, schemas that share types cannot be registered, or lose what they refer to."""
    state = State()
    add(state, wanted("base", record_of("x:int", name="Base")))
    text = '{"type":"record","name":"Outer","fields":[{"name":"b","type":"Base"}]}'
    assert "Undefined schema: Base" in refused(Code.INVALID_SCHEMA, state, wanted("a", text))
    missing = refused(Code.INVALID_SCHEMA, state, wanted("a", text, Reference("Base", "base", 2)))
    assert 'No schema reference found for subject "base" and version 2' in missing
    found = add(state, wanted("a", text, Reference("Base", "base", -1)))
    assert found.value.content.references == (Reference("Base", "base", 1),)
    assert found.value.content.text == text
    whole = text.replace('"type":"Base"', f'"type":{record_of("x:int", name="Base")}')
    same = drive(look_up(state, wanted("a", whole), normalizes=False, with_deleted=False))
    assert same is not None
    assert same.id == found.value.id
    with pytest.raises(RegistryError) as caught:
        run(state, lambda state, ids: delete_version(state, "base", 1, is_permanent=False))
    assert caught.value.code == Code.REFERENCE_EXISTS


def test_circles_of_references_end() -> None:
    """If this fails, two schemas in the topic that refer to each other end the registry."""
    state = State()
    for number, (subject, other) in enumerate((("a", "b"), ("b", "a")), 1):
        content = SchemaContent("AVRO", record_of("x:int", name=subject), (Reference(other, other, 1),))
        value = SchemaValue(subject, 1, number, content)
        state.apply(value.key.encode(), value.encode())
    message = refused(Code.INVALID_SCHEMA, state, wanted("c", '"long"', Reference("a", "a", 1)))
    assert "the references are a circle: a" in message


def test_schemas_with_one_hash_are_one() -> None:
    """If this fails, empty metadata and an empty rule set, whose hash is the same, lock a schema out."""
    state = State()
    first = add(state, wanted("a", record_of("x:int"), metadata=Metadata()))
    second = add(state, wanted("b", record_of("x:int"), rule_set=RuleSet()))
    assert (second.value.id, second.is_new) == (first.value.id, True)


def test_modes_say_what_may_be_registered() -> None:
    """If this fails, a registry that is being migrated gives ids of its own, or one for reading only is written."""
    state = State()
    add(state, wanted("a", record_of("x:int")))
    run(state, lambda state, ids: set_mode(state, "a", Mode.READONLY, is_forced=False))
    assert not add(state, wanted("a", record_of("x:int"))).is_new
    assert refused(Code.OPERATION_NOT_PERMITTED, state, wanted("a", record_of("y:int"))).endswith("in read-only mode")
    with pytest.raises(RegistryError, match="Cannot import since found existing subjects"):
        run(state, lambda state, ids: set_mode(state, None, Mode.IMPORT, is_forced=False))
    run(state, lambda state, ids: set_mode(state, "b", Mode.IMPORT, is_forced=False))
    message = refused(Code.OPERATION_NOT_PERMITTED, state, wanted("b", record_of("x:int")))
    assert message == "Subject b in context  is not in read-write mode"
    found = add(state, wanted("b", record_of("q:int"), version=7, schema_id=40))
    assert (found.value.id, found.value.version) == (40, 7)
    message = refused(Code.OPERATION_NOT_PERMITTED, state, wanted("b", record_of("w:int"), version=8, schema_id=40))
    assert message == "Overwrite new schema with id 40 in context  is not permitted."
    assert refused(Code.OPERATION_NOT_PERMITTED, state, wanted("c", record_of("x:int"), schema_id=9)).endswith(
        "is not in import mode"
    )
    assert add(state, wanted("c", record_of("v:int"))).value.id == 41


def test_a_deleted_schema_gets_its_id_again_and_a_new_version() -> None:
    """If this fails, records with the old id cannot be read after a subject was deleted and registered again."""
    state = State()
    add(state, wanted("a", record_of("x:int")))
    run(state, lambda state, ids: delete_subject(state, "a", is_permanent=False))
    found = add(state, wanted("a", record_of("x:int")))
    assert (found.value.id, found.value.version) == (1, 2)
    assert [value.version for value in state.versions("a")] == [2]


def test_metadata_are_those_of_the_settings_and_of_the_newest_version() -> None:
    """If this fails, rules that an operator set for a subject do not reach its clients."""
    state = State()
    own = Metadata.parse({"properties": {"owner": "me"}})
    first = add(state, wanted("a", record_of("x:int"), metadata=own))
    second = add(state, wanted("a", record_of("x:int", "y:int=0")))
    assert second.value.content.metadata == own
    assert first.value.id != second.value.id
    override = Metadata.parse({"properties": {"owner": "them", "level": "1"}})
    run(state, lambda state, ids: update_config(state, "a", {"override_metadata": override}))
    third = add(state, wanted("a", record_of("x:int", "z:int=0")))
    assert third.value.content.metadata == override
    numbered = add(state, wanted("a", record_of("x:int", "q:int=0"), version=-1))
    assert numbered.value.content.metadata is not None
    assert numbered.value.content.metadata.value_of("confluent:version") == "4"


def test_reserved_fields_stay_reserved() -> None:
    """If this fails, a field name gets a second meaning."""
    state = State(Defaults(validates_fields=True))
    reserved = Metadata.parse({"properties": {"confluent:reserved": "old, older"}})
    add(state, wanted("a", record_of("x:int"), metadata=reserved))
    message = refused(Code.INCOMPATIBLE_SCHEMA, state, wanted("a", record_of("x:int", "old:int=0")))
    assert "The new schema has field that conflicts with the reserved field old." in message
    fewer = Metadata.parse({"properties": {"confluent:reserved": "old"}})
    message = refused(Code.INCOMPATIBLE_SCHEMA, state, wanted("a", record_of("x:int", "y:int=0"), metadata=fewer))
    assert "reserved field older removed" in message


def test_versions_that_are_named_follow_each_other() -> None:
    """If this fails, two authors who both write version 2 do not notice each other."""
    state = State()
    add(state, wanted("a", record_of("x:int"), version=1))
    assert refused(Code.INVALID_SCHEMA, state, wanted("a", record_of("x:int", "y:int=0"), version=3)) == (
        "Version is not one more than previous version"
    )
    assert add(state, wanted("a", record_of("x:int", "y:int=0"), version=2)).value.version == 2


def test_a_version_that_no_record_can_name_is_refused() -> None:
    """If this fails, a schema is confirmed that no instance reads, and its id is given to another one."""
    state = State()
    run(state, lambda state, ids: set_mode(state, "a", Mode.IMPORT, is_forced=False))
    add(state, wanted("a", record_of("x:int"), version=NUMBER_MAX, schema_id=5))
    run(state, lambda state, ids: delete_mode(state, "a", is_recursive=False))
    message = refused(Code.STORE, state, wanted("a", record_of("x:int", "y:int=0")))
    assert message == "a has no more versions: the greatest is 2,147,483,647"
    assert add(state, wanted("b", record_of("x:int", "y:int=0"))).value.id == 6
    assert state.problems_total == 0


def test_normalized_schemas_are_one() -> None:
    """If this fails, `normalize=true` gives a second id to a schema whose properties have another order."""
    state = State()
    texts = ('{"type":"int","b":1,"a":2}', '{"type":"int","a":2,"b":1}')
    first, second = (add(state, wanted("a", text), normalizes=True) for text in texts)
    assert (first.value.id, second.is_new) == (second.value.id, False)
    assert first.value.content.text == '{"type":"int","a":2,"b":1}'


def test_plans_of_one_transaction_do_not_meet() -> None:
    """If this fails, two registrations at the same moment give one version or one id twice."""
    state = State()
    add(state, wanted("base", record_of("x:int", name="Base")))
    ids, claims = Ids(state), Claims()

    def takes(request: Wanted) -> bool:
        plan = plan_of(state, lambda state, ids: register(state, ids, request, RegisterSettings()), ids)
        return claims.take(plan)

    assert takes(wanted("a", record_of("x:int", name="A")))
    assert takes(wanted("b", record_of("x:int", name="B")))
    # Another version of the same subject, and the same new schema under another one.
    assert not takes(wanted("a", record_of("x:int", "y:int=0", name="A")))
    assert not takes(wanted("c", record_of("x:int", name="B")))
    text = '{"type":"record","name":"Outer","fields":[{"name":"b","type":"Base"}]}'
    assert takes(wanted("d", text, Reference("Base", "base", 1)))
    # A deletion of what another plan refers to, and a setting that others read.
    assert not claims.take(plan_of(state, lambda state, ids: delete_version(state, "base", 1, is_permanent=False)))
    assert not claims.take(plan_of(state, lambda state, ids: update_config(state, None, {"normalize": True})))
    exclusive = Claims()
    mode = plan_of(state, lambda state, ids: set_mode(state, "z", Mode.IMPORT, is_forced=False))
    assert exclusive.take(mode)
    assert not exclusive.take(
        plan_of(state, lambda state, ids: register(state, ids, wanted("e", '"int"'), RegisterSettings()))
    )
