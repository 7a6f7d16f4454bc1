"""Records as JSON lines: the form that `broker-cy consume --json` prints and `broker-cy produce --json-lines` reads."""

from __future__ import annotations

import base64
import json
from typing import Any

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.decoded import Part, SchemaName, Seen
from broker_cy.wire.records import Record


def plain_bytes(data: bytes) -> str | dict[str, str]:
    """Return UTF-8 as text, and anything else as `{"base64": ...}`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def json_line(key: TopicPartition, record: Record) -> bytes:
    """Return a record as one JSON object and a newline; bytes that are not UTF-8 are `{"base64": ...}`."""
    return json.dumps(_fields(key, record), ensure_ascii=False).encode() + b"\n"


def seen_line(key: TopicPartition, seen: Seen) -> bytes:
    """The same for a record that was decoded: the key and the value are JSON, and `key_schema` and `value_schema` name
    their schemas. `key_problem` and `value_problem` say why one is still in bytes.
    """
    fields = _fields(key, seen.record)
    more: dict[str, Any] = {}
    for name, part in (("key", seen.key), ("value", seen.value)):
        if part.schema is not None:
            fields[name] = _Text(_json_text(part))
            more[f"{name}_schema"] = _schema(part.schema)
        if part.problem:
            more[f"{name}_problem"] = part.problem
    members = [
        f"{json.dumps(name)}: {each if isinstance(each, _Text) else json.dumps(each, ensure_ascii=False)}"
        for name, each in {**fields, **more}.items()
    ]
    return ("{" + ", ".join(members) + "}\n").encode(errors="backslashreplace")


class _Text(str):
    """A text of JSON, as it is written: its numbers must not change."""


def _json_text(part: Part) -> str:
    """Return the JSON of a decoded part in one line."""
    data = part.data or b"null"
    if b"\n" not in data:
        try:
            return data.decode()
        except UnicodeDecodeError:
            # JSON may have other encodings.
            pass
    return json.dumps(json.loads(data), ensure_ascii=False)


def _schema(name: SchemaName) -> dict[str, Any]:
    found = {
        "id": name.id,
        "guid": None if name.guid is None else str(name.guid),
        "type": name.kind,
        "subject": name.subject,
        "version": name.version,
        "message": name.message,
    }
    return {member: each for member, each in found.items() if each is not None}


def _fields(key: TopicPartition, record: Record) -> dict[str, Any]:
    return {
        "topic": key.topic,
        "partition": key.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else plain_bytes(record.key),
        "value": None if record.value is None else plain_bytes(record.value),
        "headers": [
            {"name": name, "value": None if value is None else plain_bytes(value)} for name, value in record.headers
        ],
    }
