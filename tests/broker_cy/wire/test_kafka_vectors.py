"""If these fail, we do not write or read some message or record as Kafka 4.3.1 itself does.

kafka_vectors.tsv.gz has a message of every kind in every version: its name, version, the bytes that Kafka's own class
wrote, and the JSON that its own converter made (tools/kafka_vectors). This covers what client libraries do not have:
the records of the metadata log, of groups, transactions and share groups.
"""

import gzip
import json
from pathlib import Path

import pytest

from broker_cy.wire import codec, messages
from tests.broker_cy.wire.kafka_json import as_json
from tests.broker_cy.wire.random_messages import ALL

VECTORS: dict[str, dict[int, tuple[bytes, str]]] = {}
for line in gzip.decompress(Path(__file__).with_name("kafka_vectors.tsv.gz").read_bytes()).decode().splitlines():
    name, version, data, text = line.split("\t")
    VECTORS.setdefault(name, {})[int(version)] = (bytes.fromhex(data), text)


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_bytes_and_values_are_those_of_kafka(name: str) -> None:
    for version, (data, text) in VECTORS[name].items():
        message = codec.decode(getattr(messages, name), version, data)
        assert as_json(message, version) == json.loads(text), f"version {version}"
        assert codec.encode(message, version) == data, f"version {version}"


def test_there_is_a_vector_of_every_message_and_version() -> None:
    assert {(name, version) for name, vectors in VECTORS.items() for version in vectors} == set(ALL)
