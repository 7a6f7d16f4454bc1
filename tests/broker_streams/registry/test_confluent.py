"""The registry of this project with our serdes, and with Confluent's client in Python, in both directions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.wire.records import Record
from broker_streams import STRING, AvroSerde, JsonSchemaSerde, ProtobufSerde, StreamsBuilder
from broker_streams.kernel.settings import TaskSettings
from broker_streams.registry.ahead import Ahead
from broker_streams.registry.opening import open_registry
from broker_streams.registry.remote import RemoteRegistry
from broker_streams.serdes import SerdeError, SerdeUnavailable
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess, running_registry

AVRO = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "customer", "type": "string"}, {"name": "price", "type": "double"},
  {"name": "note", "type": ["null", "string"], "default": null}]}"""
JSON = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
  "properties": {"customer": {"type": "string"}, "price": {"type": "number"}}}"""
VALUE = {"customer": "änn", "price": 1.5}
WITH_NOTE = {**VALUE, "note": None}
# Runs Confluent's client: `write` prints the bytes that it writes, `read` the value that it reads from them, in
# `topic`. Messages are google.protobuf.Timestamp and its neighbours: their classes come with the library.
CLIENT = """
import json, sys
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import api_pb2

for line in sys.stdin:
    given = json.loads(line)
    client = SchemaRegistryClient({"url": given["url"]})
    kind, schema = given["kind"], given.get("schema")
    context = SerializationContext(given["topic"], MessageField.VALUE)
    if "data" in given:
        data = bytes.fromhex(given["data"])
        if kind == "AVRO":
            found = AvroDeserializer(client)(data, context)
        elif kind == "JSON":
            found = JSONDeserializer(schema, schema_registry_client=client)(data, context)
        else:
            message = ProtobufDeserializer(api_pb2.Mixin, {"use.deprecated.format": False})(data, context)
            found = {"name": message.name, "root": message.root}
        print(json.dumps(found), flush=True)
        continue
    value = given["value"]
    if kind == "AVRO":
        found = AvroSerializer(client, schema)(value, context)
    elif kind == "JSON":
        found = JSONSerializer(schema, client)(value, context)
    else:
        found = ProtobufSerializer(api_pb2.Mixin, client, {"use.deprecated.format": False})(
            api_pb2.Mixin(**value), context
        )
    print(json.dumps(found.hex()), flush=True)
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("streams-registry-broker"), QUICK)
    try:
        directory = tmp_path_factory.mktemp("streams-registry")
        options = ["--topic", f"_schemas-{uuid.uuid4().hex[:8]}"]
        with running_registry(broker.start().bootstrap, directory, options) as found:
            yield found
    finally:
        broker.close()


def opened(url: str, **settings: Any) -> RemoteRegistry:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    found = open_registry({"schema.registry.url": url, **given})
    assert isinstance(found, RemoteRegistry)
    return found


def test_schemas_are_asked_for_once(registry: RegistryProcess) -> None:
    """If this fails, each record waits for the registry, or values do not come back."""
    remote = opened(registry.url, json_fail_invalid_schema="true")
    for serde, value in (
        (AvroSerde(AVRO), WITH_NOTE),
        (JsonSchemaSerde(JSON), VALUE),
        (ProtobufSerde('syntax = "proto3"; message Order { string customer = 1; double price = 2; }'), VALUE),
    ):
        topic = f"orders-{uuid.uuid4().hex[:8]}"
        data = serde.with_registry(remote, is_key=False).serialize(topic, value)
        assert data is not None
        name = int.from_bytes(data[1:5], "big")
        again = opened(registry.url, http_read_timeout_ms=uuid.uuid4().int % 1_000_000 + 60_000)
        assert not again.knows(name)
        assert type(serde)().with_registry(again, is_key=False).deserialize(topic, data) == value
        assert again.knows(name)
    missing = opened(registry.url)
    with pytest.raises(SerdeError, match=r"orders: the registry refuses it: .*404"):
        AvroSerde().with_registry(missing, is_key=False).deserialize("orders", b"\0\0\0\xff\0x")
    assert missing.knows(0xFF00)
    strict = AvroSerde(AVRO).with_registry(opened(registry.url, auto_register_schemas=False), is_key=False)
    with pytest.raises(SerdeError, match=r"\(subject t-value\): .*auto.register.schemas is false"):
        strict.serialize("t", VALUE)


def test_an_event_loop_may_ask_and_a_host_asks_ahead(registry: RegistryProcess) -> None:
    """If this fails, records of a running host wait for the registry."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    remote = opened(registry.url, http_read_timeout_ms=30_001)
    builder = StreamsBuilder()
    builder.stream(topic, key=STRING, value=AvroSerde()).to(f"{topic}-out", key=STRING, value=AvroSerde(AVRO))
    writer = AvroSerde(AVRO).with_registry(opened(registry.url, http_read_timeout_ms=30_002), is_key=False)

    async def run() -> None:
        data = writer.serialize(topic, VALUE)
        ahead = Ahead(builder.build().plan, TaskSettings("app", registry=remote))
        await ahead.prepare()
        assert f"{topic}-out-value" in registry.get("/subjects")
        assert data is not None
        unknown = b"\0\0\0\xfe\xff"
        await ahead.load(topic, [Record(0, 0, b"k", each, ()) for each in (data, unknown, b"no", None)])
        assert remote.knows(int.from_bytes(data[1:5], "big"))
        assert remote.knows(0xFEFF)

    asyncio.run(run())


def test_a_registry_that_is_away_is_no_fault_of_a_record() -> None:
    """If this fails, a handler of errors skips records while the registry is away."""
    away = opened("http://127.0.0.1:1")
    with pytest.raises(SerdeUnavailable, match=r"orders: schema 1 is not known yet: .*127.0.0.1:1 does not answer"):
        AvroSerde().with_registry(away, is_key=False).deserialize("orders", b"\0\0\0\0\1x")
    with pytest.raises(SerdeUnavailable, match=r"orders \(subject \?\): .* does not answer"):
        AvroSerde(AVRO, references=["a=b:1"]).with_registry(away, is_key=False).serialize("orders", VALUE)


@pytest.mark.full
def test_confluents_client_and_ours_read_each_other(registry: RegistryProcess) -> None:
    """If this fails, applications of other languages cannot read results, or ours cannot read theirs."""
    import json

    mixin = 'syntax = "proto3"; package google.protobuf; message Mixin { string name = 1; string root = 2; }'
    remote = opened(registry.url)
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None

        def ask(**given: Any) -> Any:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(json.dumps({"url": registry.url, **given}) + "\n")
            client.stdin.flush()
            return json.loads(client.stdout.readline())

        cases: list[tuple[str, Any, str, Any]] = [
            ("AVRO", AvroSerde, AVRO, WITH_NOTE),
            ("AVRO", AvroSerde, '"string"', "änn"),
            ("AVRO", AvroSerde, '"long"', -5),
            ("JSON", JsonSchemaSerde, JSON, VALUE),
            ("PROTOBUF", ProtobufSerde, mixin, {"name": "n", "root": "r"}),
        ]
        for kind, serde, schema, value in cases:
            topic = f"{kind}-{uuid.uuid4().hex[:8]}"
            theirs = bytes.fromhex(ask(kind=kind, schema=schema, topic=topic, value=value))
            assert serde().with_registry(remote, is_key=False).deserialize(topic, theirs) == value, kind
            ours_topic = f"ours-{topic}"
            if kind == "PROTOBUF":
                # The file has several messages before this one: the schema that their client registered has it.
                generic = serde().with_registry(remote, is_key=False)
                ours = generic.serialize(ours_topic, generic.deserialize(topic, theirs))
            else:
                ours = serde(schema).with_registry(remote, is_key=False).serialize(ours_topic, value)
            if kind != "JSON":
                assert ours[5:] == theirs[5:], kind
            assert ask(kind=kind, schema=schema, topic=ours_topic, data=ours.hex()) == value
        client.stdin.close()
