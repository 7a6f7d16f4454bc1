"""If these fail, we do not write or read some message or record as Kafka 4.3.1 itself does.

kafka_vectors.tsv.gz has a message of every kind in every version: its name, version, the bytes Kafka's own class wrote,
and the JSON its own converter made of it (tools/kafka_vectors). This covers what client libraries do not have: the
records of the metadata log, of groups, transactions and share groups.
"""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core import uuid
from broker_cy.schemas import tables
from broker_cy.wire import codec, messages
from tests.broker_cy.wire.random_messages import ALL

VECTORS = {
    (name, int(version)): (bytes.fromhex(data), text)
    for name, version, data, text in (
        line.split("\t")
        for line in gzip.decompress(Path(__file__).with_name("kafka_vectors.tsv.gz").read_bytes()).decode().splitlines()
    )
}


def as_json(spec: tables.MessageSpec, struct: tables.StructSpec, message: Any, version: int) -> dict[str, Any]:
    """What Kafka's JSON converter makes of a message."""
    default = type(message)()
    out = {}
    for field in struct.fields:
        value = getattr(message, field.attribute)
        at_default = value == getattr(default, field.attribute)
        if version not in field.versions or (version in field.tagged and at_default):
            continue
        name = field.name[0].lower() + field.name[1:]
        if value is None:
            out[name] = None
        elif field.is_array:
            out[name] = [scalar(spec, field, element, version) for element in value]
        else:
            out[name] = scalar(spec, field, value, version)
    return out


def scalar(spec: tables.MessageSpec, field: tables.FieldSpec, value: Any, version: int) -> Any:
    if field.type not in tables.SCALARS:
        return as_json(spec, spec.structs[field.type], value, version)
    if field.type == "uuid":
        return uuid.to_text(value)
    if field.type == "records":
        # The converter never shows them; the comparison of bytes covers them.
        return ""
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return value


@pytest.mark.parametrize(("name", "version"), sorted(VECTORS))
def test_bytes_and_values_are_those_of_kafka(name: str, version: int) -> None:
    data, text = VECTORS[name, version]
    spec = tables.load(name)
    message = codec.decode(getattr(messages, name), version, data)
    assert as_json(spec, spec.root, message, version) == json.loads(text)
    assert codec.encode(message, version) == data


def test_there_is_a_vector_of_every_message_and_version() -> None:
    assert set(VECTORS) == set(ALL)
