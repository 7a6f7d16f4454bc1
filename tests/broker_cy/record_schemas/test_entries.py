"""The records of the registry's topic, as brokers read them to check other topics."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core.errors import WireError
from broker_cy.record_schemas.entries import entry_of, read_part, record_name
from broker_cy.record_schemas.known import AliasSet, KnownSchemas, SchemaVersion, VersionGone, VersionsGone
from broker_cy.wire.records import Record, encode_batch
from broker_registry.store.keys import Key, KeyType, schema_key
from broker_registry.store.values import SchemaContent, SchemaValue

ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[]}'


def key(kind: str, **members: Any) -> bytes:
    return json.dumps({"keytype": kind, **members}).encode()


def test_versions_of_our_registry_are_read() -> None:
    """If this fails, all records of checked topics are refused: brokers do not read what the registry wrote."""
    content = SchemaContent("AVRO", ORDER)
    value = SchemaValue("orders-value", 2, 7, content, md5=content.md5())
    found = entry_of(schema_key("orders-value", 2).encode(), value.encode())
    assert found == SchemaVersion("orders-value", 2, 7, UUID(value.guid).bytes, "shop.Order")
    assert entry_of(value.key.encode(), value.deleted().encode()) == VersionGone("orders-value", 2)
    assert entry_of(value.key.encode(), None) == VersionGone("orders-value", 2)


def test_other_records_are_read() -> None:
    """If this fails, records are accepted for subjects that were deleted, and refused for aliases."""
    deletion = key("DELETE_SUBJECT", subject="s", magic=0)
    assert entry_of(deletion, b'{"subject":"s","version":3}') == VersionsGone("s", 3)
    config = Key(KeyType.CONFIG, "s").encode()
    assert entry_of(config, b'{"subject":"s","alias":"t"}') == AliasSet("s", "t")
    assert entry_of(config, b'{"subject":"s","compatibilityLevel":"FULL"}') == AliasSet("s", None)
    assert entry_of(config, None) == AliasSet("s", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (None, None),
        (b"", b""),
        (b"not json", b"{}"),
        (b"[1]", b"{}"),
        (key("NOOP", magic=0), b""),
        (key("CONFIG", magic=0), b'{"compatibilityLevel":"FULL"}'),
        (key("MODE", subject="s", magic=0), b'{"mode":"READONLY"}'),
        (key("UNHEARD_OF", subject="s"), b"{}"),
        (key("SCHEMA", subject="s", version="1"), b'{"id":1,"schema":"{}"}'),
        (key("SCHEMA", subject="s", version=1), b'{"id":"1","schema":"{}"}'),
        (key("SCHEMA", subject="s", version=1), b'{"id":1}'),
        (key("SCHEMA", subject=":.test:s", version=1), b'{"id":1,"schema":"{}"}'),
        (key("SCHEMA", subject=7, version=1), b'{"id":1,"schema":"{}"}'),
        (key("DELETE_SUBJECT", subject="s"), b"{}"),
        (b"[" * 100_000, b"["),
    ],
)
def test_records_without_meaning_change_nothing(name: bytes | None, value: bytes | None) -> None:
    """If this fails, one odd record in the topic stops the checks of a cluster."""
    assert entry_of(name, value) is None


def test_the_default_context_may_be_named() -> None:
    """If this fails, a schema that was registered with the name of the default context is refused."""
    found = entry_of(key("SCHEMA", subject=":.:s", version=1), b'{"id":1,"schema":"\\"int\\""}')
    assert isinstance(found, SchemaVersion)
    assert found.subject == "s"


@pytest.mark.parametrize(
    ("md5", "expected"),
    [(base64.b64encode(bytes(16)).decode(), bytes(16)), ("?", None), (base64.b64encode(b"short").decode(), None)],
)
def test_guids_are_the_stored_hashes(md5: str, expected: bytes | None) -> None:
    """If this fails, records with a GUID in their header are refused."""
    value = json.dumps({"id": 1, "schema": ORDER, "md5": md5}).encode()
    found = entry_of(key("SCHEMA", subject="s", version=1), value)
    assert isinstance(found, SchemaVersion)
    assert found.guid == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (None, ORDER, "shop.Order"),
        ("AVRO", '{"type":"record","name":"a.B","namespace":"ignored","fields":[]}', "a.B"),
        ("AVRO", '{"type":"record","name":"B","fields":[]}', "B"),
        ("AVRO", '{"type":"enum","name":"E","symbols":[]}', None),
        ("AVRO", '"string"', None),
        ("AVRO", '["null","int"]', None),
        ("AVRO", "{", None),
        ("JSON", '{"title":"Order","type":"object"}', "Order"),
        ("JSON", '{"title":7}', None),
        ("JSON", "true", None),
        ("PROTOBUF", 'syntax = "proto3";\npackage a.b;\n\nmessage C {\n  message D {}\n}\nmessage E {}', "a.b.C"),
        (
            "PROTOBUF",
            '// message No {\n/* package no; */ option x = "message Neither {";\nenum F { A = 0; }\nmessage G{}',
            "G",
        ),
        ("PROTOBUF", "enum F { A = 0; }", None),
        ("PROTOBUF", "package late { message Inner {} } message H {} package p;", "H"),
    ],
)
def test_names_of_records_are_found(kind: str | None, text: str, expected: str | None) -> None:
    """If this fails, RecordNameStrategy looks in another subject than the producer registered in."""
    assert record_name(kind, text) == expected


def test_long_texts_are_not_searched() -> None:
    """If this fails, one schema of 10 MB holds the interpreter for a tenth of a second."""
    assert record_name("JSON", '{"title":"t","x":"' + "x" * 2_000_000 + '"}') is None


def test_corrupt_parts_are_reported() -> None:
    """If this fails, a damaged record of the topic gives schemas that were never registered."""
    record = Record(key=key("SCHEMA", subject="s", version=1), value=b'{"id":1,"schema":"x"}')
    batch = bytearray(encode_batch([record]))
    assert read_part(bytes(batch), (), 0, 1).next_offset == 1
    batch[-3] ^= 1
    with pytest.raises(WireError, match="corrupt"):
        read_part(bytes(batch), (), 0, 1)


def test_versions_with_one_schema_are_counted() -> None:
    """If this fails, a subject loses a schema with the first of several versions that have it."""
    known = KnownSchemas()
    for number in (1, 2):
        known.apply(SchemaVersion("s", number, 5, None, "R"))
    known.apply(VersionGone("s", 1))
    assert known.has("s", 5)
    known.apply(AliasSet("other", "s"))
    assert known.has("other", 5)
    known.apply(VersionsGone("s", 9))
    assert not known.has("s", 5)
    assert not known.has("other", 5)
    assert known.versions == 0


def test_versions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a registry with more schemas than brokers have memory ends them."""
    monkeypatch.setattr("broker_cy.record_schemas.known.VERSIONS_MAX", 2)
    known = KnownSchemas()
    for number in (1, 2, 3, 3):
        known.apply(SchemaVersion("s", number, number, None, None))
    assert (known.versions, known.dropped) == (2, 2)
    assert not known.has("s", 3)
    known.apply(VersionGone("s", 1))
    known.apply(SchemaVersion("s", 3, 3, None, None))
    assert known.has("s", 3)
