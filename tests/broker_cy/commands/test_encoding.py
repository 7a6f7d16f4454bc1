"""`produce` with a schema registry, and copies of encoded records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker_registry.serdes.framing import with_id
from tests.broker_cy.commands.conftest import Cli, NewTopic
from tests.broker_cy.commands.test_decoding import registry
from tests.support.registry import RegistryProcess

__all__ = ["registry"]

AVRO = json.dumps(
    {
        "type": "record",
        "name": "com.example.Order",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
ORDER = '{"id": 7, "day": "2026-01-31", "total": "12.50", "note": "hi"}'
JSON = json.dumps({"type": "object", "properties": {"x": {"type": "integer"}}})
PROTO = 'syntax = "proto3"; message A { int32 x = 1; } message B { string s = 1; }'


def test_each_way_to_name_a_schema(
    broker_cy: Cli, new_topic: NewTopic, registry: RegistryProcess, tmp_path: Path
) -> None:
    """If this fails, records cannot be written by a schema of Avro, JSON Schema or Protobuf."""
    topic = new_topic()
    registered = ("--registry", registry.url)
    for name, text in (("a.avsc", AVRO), ("b.json", JSON), ("c.proto", PROTO)):
        (tmp_path / name).write_text(text)
    # Registered under the subject of the topic, and of the record.
    broker_cy("produce", topic, *registered, "--value-schema", tmp_path / "a.avsc", stdin=f"{ORDER}\n".encode())
    strategy = ("--subject-strategy", "RecordName")
    broker_cy("produce", topic, *registered, "--value-schema", tmp_path / "a.avsc", *strategy, stdin=ORDER.encode())
    first = registry.get(f"/subjects/{topic}-value/versions/latest")
    assert registry.get("/subjects/com.example.Order/versions/latest")["id"] == first["id"]
    # By the subject, and by the id.
    broker_cy("produce", topic, *registered, "--value-subject", f"{topic}-value", stdin=ORDER.encode())
    broker_cy("produce", topic, *registered, "--value-schema-id", str(first["id"]), stdin=ORDER.encode())
    valid = ("--value-schema", tmp_path / "b.json", "--value-subject", f"{topic}-json")
    broker_cy("produce", topic, *registered, *valid, stdin=b'{"x":  1}')
    proto = ("--value-schema", tmp_path / "c.proto", "--value-subject", f"{topic}-proto", "--value-message", "B")
    keys = ("-K", "|", "--key-schema-id", str(first["id"]))
    broker_cy("produce", topic, *registered, *proto, *keys, stdin=f'{ORDER}|{{"s": "hi"}}'.encode())
    said = broker_cy("consume", topic, "-e", "--json", *registered).out
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["value"] for line in lines] == [json.loads(ORDER)] * 4 + [{"x": 1}, {"s": "hi"}]
    assert lines[5]["key"] == json.loads(ORDER)
    assert lines[5]["value_schema"]["message"] == "B"
    raw = broker_cy("consume", topic, "-e", "--value-format", "hex").out.splitlines()
    # JSON stays as it was written.
    json_id = registry.get(f"/subjects/{topic}-json/versions/latest")["id"]
    assert bytes.fromhex(raw[4]) == with_id(json_id, b'{"x":  1}')


def test_a_copy_of_encoded_records_is_equal(
    broker_cy: Cli, new_topic: NewTopic, registry: RegistryProcess, tmp_path: Path
) -> None:
    """If this fails, a copy by JSON changes records with schemas: their values, branches, messages or tombstones."""
    topic, copy = new_topic(), new_topic()
    (tmp_path / "a.avsc").write_text(AVRO)
    (tmp_path / "c.proto").write_text(PROTO)
    registered = ("--registry", registry.url)
    avro = ("--value-schema", tmp_path / "a.avsc")
    broker_cy("produce", topic, *registered, *avro, "-Z", "-", "-k", "1", stdin=f"{ORDER}\n-\n".encode())
    proto = ("--value-schema", tmp_path / "c.proto", "--value-subject", f"{topic}-proto", "--value-message", "B")
    broker_cy("produce", topic, *registered, *proto, stdin=b'{"s": "hi"}')
    broker_cy("produce", topic, stdin=b"plain\n")
    lines = broker_cy("consume", topic, "-e", "--json", *registered).out.encode()
    broker_cy("produce", copy, "--json-lines", *registered, stdin=lines)
    plain = [
        [json.loads(line)[name] for name in ("key", "value", "timestamp")]
        for name_of_topic in (topic, copy)
        for line in broker_cy("consume", name_of_topic, "-e", "--json", "--value-format", "string").out.splitlines()
    ]
    assert len(plain) == 8
    assert plain[:4] == plain[4:]
    said = broker_cy("produce", copy, "--json-lines", stdin=lines, code=2)
    assert "line 1: value: the line names schema" in said.err
    assert "name the registry: --registry" in said.err


@pytest.mark.parametrize(
    ("options", "stdin", "reason"),
    [
        ((), '{"id": "x", "day": 1, "total": 1}', 'line 1: value: /id: "x" is no int'),
        ((), f'{ORDER}\n{{"id": 1}}', "line 2: value: /day: the field is missing, and has no default"),
        ((), "x", "line 1: value: no JSON: "),
        (("--json-lines",), '{"value": {"id": 1}}', "line 1: value: /day: the field is missing"),
        (("--value-message", "B"), ORDER, "line 1: value: AVRO schemas have no messages: B names one"),
    ],
)
def test_values_that_do_not_fit_name_the_line_and_the_field(
    broker_cy: Cli,
    new_topic: NewTopic,
    registry: RegistryProcess,
    options: tuple[str, ...],
    stdin: str,
    reason: str,
) -> None:
    """If this fails, a wrong record is written, or its author searches for the line."""
    topic = new_topic()
    registry.register(f"{topic}-value", AVRO)
    given = ("produce", topic, "--registry", registry.url, "--value-subject", f"{topic}-value", *options)
    assert reason in broker_cy(*given, stdin=stdin.encode(), code=2).err


def test_options_that_contradict_each_other_are_refused(
    broker_cy: Cli, new_topic: NewTopic, registry: RegistryProcess, tmp_path: Path
) -> None:
    """If this fails, values are written by another schema than an option names."""
    topic = new_topic()
    (tmp_path / "a.avsc").write_text(AVRO)
    registered = ("--registry", registry.url)

    def refused(*options: str | Path) -> str:
        return broker_cy("produce", topic, *options, stdin=b"", code=2).err

    assert "need a registry" in refused("--value-schema-id", "1")
    both = ("--value-schema-id", "1", "--value-subject", "s")
    assert "cannot be combined with --value-subject" in refused(*registered, *both)
    assert "--key-message needs the schema" in refused(*registered, "--key-message", "B")
    assert "names no schema type" in refused(*registered, "--value-schema", tmp_path / "a.txt")
    said = broker_cy("produce", topic, *registered, "--value-schema-id", "99", stdin=b"", code=1).err
    assert "Schema 99 not found" in said
    unknown = ("--value-schema", tmp_path / "a.avsc", "--no-register", "--value-subject", f"{topic}-other")
    said = broker_cy("produce", topic, *registered, *unknown, stdin=b"", code=1).err
    assert f"Subject '{topic}-other' not found" in said
