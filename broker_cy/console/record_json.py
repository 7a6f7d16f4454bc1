"""Records as JSON lines: the form that `broker-cy consume --json` prints and `broker-cy produce --json-lines` reads."""

from __future__ import annotations

import base64
import json

from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire.records import Record


def plain_bytes(data: bytes) -> str | dict[str, str]:
    """Return UTF-8 as text, and anything else as `{"base64": ...}`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def json_line(key: TopicPartition, record: Record) -> bytes:
    """Return a record as one JSON object and a newline; bytes that are not UTF-8 are `{"base64": ...}`."""
    fields = {
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
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
