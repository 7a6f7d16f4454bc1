"""The bytes of the records of `_schemas`, as Confluent's registry writes them."""

from __future__ import annotations

import pytest

from broker_registry.rules import Metadata, RuleSet
from broker_registry.schema_types.base import Reference
from broker_registry.store import values
from broker_registry.store.keys import Key, KeyType, UnknownKey, schema_key
from broker_registry.store.values import Config, Mode, SchemaContent, SchemaValue, UnknownValue

KEYS = {
    b'{"keytype":"SCHEMA","subject":"a-value","version":3,"magic":1}': schema_key("a-value", 3),
    b'{"keytype":"CONFIG","magic":0}': Key(KeyType.CONFIG),
    b'{"keytype":"CONFIG","subject":"a","magic":0}': Key(KeyType.CONFIG, "a"),
    b'{"keytype":"MODE","subject":":.test:","magic":0}': Key(KeyType.MODE, ":.test:"),
    b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}': Key(KeyType.DELETE_SUBJECT, "a"),
    b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}': Key(KeyType.CLEAR_SUBJECT, "a"),
    b'{"keytype":"CONTEXT","tenant":"default","context":".test","magic":0}': Key(KeyType.CONTEXT, context=".test"),
    b'{"keytype":"NOOP","magic":0}': Key(KeyType.NOOP),
}
RULES = {
    "domainRules": [
        {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "tags": ["B", "A"], "expr": "x", "doc": ""}
    ]
}


@pytest.mark.parametrize("data", KEYS, ids=lambda data: data.decode())
def test_keys_have_the_bytes_of_confluents_registry(data: bytes) -> None:
    """If this fails, the log cleaner keeps two records of one key, and Confluent's registry reads another state."""
    assert KEYS[data].encode() == data
    assert Key.decode(data) == KEYS[data]


def test_settings_of_older_registries_name_no_subject_as_null() -> None:
    """If this fails, the compatibility level of a topic of an older registry is lost."""
    assert Key.decode(b'{"keytype":"CONFIG","subject":null,"magic":0}') == Key(KeyType.CONFIG)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"keytype":"ASSOC"}',
        b'{"keytype":7}',
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":9}',
        b'{"keytype":"SCHEMA","subject":"a","version":"1","magic":1}',
        b'{"keytype":"SCHEMA","version":1,"magic":1}',
        b'{"keytype":"CONTEXT","magic":0}',
    ],
)
def test_other_keys_are_unknown(data: bytes) -> None:
    """If this fails, one record that this version does not know ends the registry."""
    with pytest.raises(UnknownKey):
        Key.decode(data)


def test_a_schema_has_its_members_in_confluents_order_without_empty_ones() -> None:
    """If this fails, topics differ from those that Confluent's registry writes."""
    plain = SchemaValue("a", 1, 7, SchemaContent("AVRO", '"int"'))
    assert plain.encode() == (
        b'{"subject":"a","version":1,"id":7,"schemaType":"AVRO","schema":"\\"int\\"","deleted":false}'
    )
    metadata = Metadata.parse({"properties": {"b": "2", "a": "1"}, "tags": {"$.x": ["T", "S"]}, "sensitive": ["a"]})
    content = SchemaContent("JSON", "{}", (Reference("r", "s", 2),), metadata, RuleSet.parse(RULES))
    whole = SchemaValue("a", 2, 8, content, is_deleted=True)
    assert whole.encode() == (
        b'{"subject":"a","version":2,"id":8,"schemaType":"JSON","references":[{"name":"r","subject":"s","version":2}],'
        b'"metadata":{"tags":{"$.x":["S","T"]},"properties":{"a":"1","b":"2"},"sensitive":["a"]},'
        b'"ruleSet":{"domainRules":[{"name":"r","kind":"CONDITION","mode":"WRITE","type":"CEL","tags":["A","B"],'
        b'"expr":"x","disabled":false}]},"schema":"{}","deleted":true}'
    )
    read = SchemaValue.decode(whole.key, whole.encode(), 5)
    assert (read.content, read.is_deleted, read.id, read.timestamp_ms) == (content, True, 8, 5)


def test_control_characters_are_escaped_as_jackson_does() -> None:
    """If this fails, a schema with such a character has other bytes than at Confluent's registry."""
    value = SchemaValue("a", 1, 1, SchemaContent("PROTOBUF", "\x1f\x0b \\u001f é"))
    assert b'"schema":"\\u001F\\u000B \\\\u001f \xc3\xa9"' in value.encode()


def test_the_hash_is_that_of_text_references_metadata_and_rules() -> None:
    """If this fails, a schema gets a second id, or another one's. MD5 over the parts as Confluent's registry adds them,
    with a byte before metadata and rules.
    """
    content = SchemaContent("AVRO", '"int"')
    assert content.md5().hex() == "ef524ea1b91e73173d938ade36c1db32"
    others = [
        content._replace(references=(Reference("n", "s", 1),)),
        content._replace(metadata=Metadata()),
        content._replace(rule_set=RuleSet()),
        content._replace(text='"long"'),
    ]
    # Empty metadata and an empty rule set add the same byte.
    assert len({each.md5() for each in others}) == 3
    assert content._replace(schema_type="JSON").md5() == content.md5()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"id":"x","schema":"s"}', b'{"id":1,"schema":3}', b"\xff"])
def test_a_value_that_cannot_be_read_says_so(data: bytes) -> None:
    """If this fails, a damaged value ends the registry with an exception without a name."""
    with pytest.raises(UnknownValue, match="a version 1"):
        SchemaValue.decode(schema_key("a", 1), data)


def test_settings_and_modes_return_as_they_were_written() -> None:
    """If this fails, settings change with a restart."""
    config = Config(
        normalize=True, compatibility_level="FULL", default_metadata=Metadata.parse({"properties": {"a": "b"}})
    )
    data = values.encode_config("a", config)
    assert data == (
        b'{"subject":"a","normalize":true,"compatibilityLevel":"FULL","defaultMetadata":{"properties":{"a":"b"}}}'
    )
    assert values.decode_config(Key(KeyType.CONFIG, "a"), data) == config
    assert values.encode_config(None, Config(compatibility_level="NONE")) == b'{"compatibilityLevel":"NONE"}'
    assert values.encode_mode("a", Mode.IMPORT) == b'{"subject":"a","mode":"IMPORT"}'
    assert values.decode_mode(Key(KeyType.MODE), b'{"mode":"READONLY"}') is Mode.READONLY
    assert values.encode_subject_deletion("a", 2) == b'{"subject":"a","version":2}'
