"""`consume` with a schema registry."""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from bench.launch.nodes import free_ports
from broker_registry.serdes.framing import with_id
from tests.broker_cy.commands.conftest import Cli, NewTopic
from tests.support.broker import Target
from tests.support.registry import RegistryProcess, running_registry

AVRO = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string"}]}
PROTO = 'syntax = "proto3"; message A { int32 big_x = 1; }'
# x is 7, s is "hi".
ROW = b"\x0e\x04hi"


@pytest.fixture(scope="module")
def registry(broker: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    directory = tmp_path_factory.mktemp("registry")
    with running_registry(broker.bootstrap, directory, ["--topic", f"_schemas-{uuid.uuid4().hex[:8]}"]) as found:
        yield found


@pytest.fixture
def ids(registry: RegistryProcess) -> tuple[int, int]:
    """Return the ids of an Avro and of a Protobuf schema."""
    avro = registry.register("r-value", json.dumps(AVRO))
    proto = registry.register("a-value", PROTO, schemaType="PROTOBUF")
    return avro.body["id"], proto.body["id"]


def lines_of(*values: bytes | None) -> bytes:
    return b"\n".join(
        json.dumps({"value": None if value is None else {"base64": b64encode(value).decode()}}).encode()
        for value in values
    )


def test_values_are_printed_by_their_schemas(
    broker_cy: Cli, new_topic: NewTopic, registry: RegistryProcess, ids: tuple[int, int]
) -> None:
    """If this fails, `consume` shows the bytes of Avro and Protobuf records."""
    topic = new_topic()
    avro, proto = ids
    data = lines_of(with_id(avro, ROW), b"plain", None, with_id(proto, b"\0\x08\x05"))
    broker_cy("produce", topic, "--json-lines", stdin=data)
    given = ("consume", topic, "-e", "--registry", registry.url)
    assert broker_cy(*given).out.splitlines() == ['{"x": 7, "s": "hi"}', "plain", "", '{"bigX": 5}']
    said = broker_cy(*given, "--json", "--filter", "json:$.x = 7")
    (line,) = map(json.loads, said.out.splitlines())
    assert line["value"] == {"x": 7, "s": "hi"}
    assert line["value_schema"] == {"id": avro, "type": "AVRO", "subject": "r-value", "version": 1}
    assert "value_problem" not in line
    assert broker_cy(*given, "--filter", "value:bigX").out == '{"bigX": 5}\n'
    assert broker_cy(*given, "-f", "%s,", "-c", "1").out == '{"x": 7, "s": "hi"},'


def test_the_environment_names_the_registry(
    broker_cy: Cli,
    new_topic: NewTopic,
    registry: RegistryProcess,
    ids: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, users type the registry with each command, or cannot look at bytes any more."""
    topic = new_topic()
    broker_cy("produce", topic, "--json-lines", stdin=lines_of(with_id(ids[0], ROW)))
    monkeypatch.setenv("BROKER_CY_REGISTRY", registry.url)
    assert broker_cy("consume", topic, "-e").out == '{"x": 7, "s": "hi"}\n'
    assert broker_cy("consume", topic, "-e", "--value-format", "hex").out == f"{with_id(ids[0], ROW).hex()}\n"
    plain = broker_cy("consume", topic, "-e", "--value-format", "string").out.encode("utf-8", "surrogateescape")
    assert plain == with_id(ids[0], ROW) + b"\n"


def _said(said: Any) -> list[str]:
    return [line.removeprefix("broker-cy: ") for line in said.err.splitlines()]


def test_records_that_cannot_be_decoded_are_printed(
    broker_cy: Cli, new_topic: NewTopic, registry: RegistryProcess, ids: tuple[int, int]
) -> None:
    """If this fails, one bad record ends `consume`, or a script does not notice that records were not decoded."""
    topic = new_topic()
    bad, unknown = with_id(ids[0], b"\x0e"), with_id(99, b"!")
    broker_cy("produce", topic, "--json-lines", stdin=lines_of(bad, unknown, unknown, with_id(ids[0], ROW)))
    said = broker_cy("consume", topic, "-e", "--json", "--registry", registry.url, code=1)
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2, 3]
    assert lines[0]["value"] == bad.decode()
    assert lines[0]["value_problem"].startswith(f"no record of AVRO schema {ids[0]}, r-value version 1: ")
    assert lines[1]["value_problem"] == "Schema 99 not found (error code 40403)"
    assert lines[3]["value"] == {"x": 7, "s": "hi"}
    first, second, last = _said(said)
    assert first.startswith(f"{topic}-0 offset 0: value not decoded: no record of AVRO schema")
    assert second == f"{topic}-0 offset 1: value not decoded: Schema 99 not found (error code 40403)"
    assert last == "3 keys and values were not decoded"


def test_consume_goes_on_without_the_registry(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, a topic cannot be read while the registry is down."""
    topic = new_topic()
    broker_cy("produce", topic, "--json-lines", stdin=lines_of(*(with_id(1, b"abc") for _ in range(5))))
    (port,) = free_ports(1)
    said = broker_cy("consume", topic, "-e", "--registry", f"http://127.0.0.1:{port}", code=1)
    assert said.out == "\0\0\0\0\1abc\n" * 5
    assert _said(said) == [
        f"the registry does not answer: http://127.0.0.1:{port}: connection refused: no process listens there",
        "5 keys and values were not decoded",
    ]
    said = broker_cy("consume", topic, "-e", "--registry", "nowhere", code=2)
    assert "is no URL of a registry" in said.err
