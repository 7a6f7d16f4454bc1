"""Brokers that check the schemas of records against the registry's topic: `confluent.value.schema.validation`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from broker_cy.wire.schema_header import KEY_HEADER, VALUE_HEADER, id_header
from tests.broker_registry.operations.support import record_of
from tests.support.broker import BrokerProcess
from tests.support.cluster import cluster
from tests.support.registry import RegistryProcess, running_registry
from tests.support.wait import until

CALL_S = 60.0
VALIDATION = "confluent.value.schema.validation"
STRATEGY = "confluent.value.subject.name.strategy"
PREFIX = "io.confluent.kafka.serializers.subject."
UNKNOWN = 2**31 - 1


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """An instance on the topic that brokers follow."""
    with running_registry(broker.bootstrap, tmp_path_factory.mktemp("registry")) as found:
        yield found


def new_topic(bootstrap: str, settings: dict[str, str], partitions: int = 1) -> str:
    name = f"checked-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(CALL_S)
    return name


def alter(bootstrap: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(CALL_S)


def send(
    bootstrap: str,
    topic: str,
    value: bytes | None,
    partition: int = 0,
    *,
    key: bytes | None = None,
    headers: dict[str, str | bytes | None] | None = None,
) -> KafkaError | None:
    """Produce one record; returns why it was not stored."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 5_000, "linger.ms": 0})
    noted = errors.append
    producer.produce(
        topic, value, key, partition=partition, headers=headers or {}, on_delivery=lambda error, _: noted(error)
    )
    assert producer.flush(CALL_S) == 0
    return errors[0]


def code_of(error: KafkaError | None) -> int:
    return 0 if error is None else error.code()


def register(registry: RegistryProcess, subject: str, name: str, doc: str = "") -> int:
    text = record_of("x:int", name=name).replace('"fields"', f'"doc":"{doc}","fields"')
    reply = registry.register(subject, text)
    assert reply.status == 200, reply
    found: int = reply.body["id"]
    return found


def test_records_need_a_schema_of_their_subject(broker: BrokerProcess, registry: RegistryProcess) -> None:
    """If this fails, a topic that asks for it stores records that no consumer can read, or refuses those with a schema
    that was registered a moment before.
    """
    topic = new_topic(broker.bootstrap, {VALIDATION: "true"})
    for number in range(20):
        schema = register(registry, f"{topic}-value", "R", f"edition {number}")
        assert send(broker.bootstrap, topic, id_header(schema) + b"payload") is None
    other = register(registry, f"{topic}-other", "Other")
    for value in (id_header(other), id_header(UNKNOWN), b"plain"):
        assert code_of(send(broker.bootstrap, topic, value)) == KafkaError.INVALID_RECORD
    assert send(broker.bootstrap, topic, None, key=b"k") is None
    registry.call("DELETE", f"/subjects/{topic}-value")
    until(
        lambda: code_of(send(broker.bootstrap, topic, id_header(schema))) == KafkaError.INVALID_RECORD,
        "records with a deleted schema to be refused",
    )


def test_guids_in_headers_are_schemas_too(broker: BrokerProcess, registry: RegistryProcess) -> None:
    """If this fails, records of Confluent's newer serializers are refused."""
    topic = new_topic(broker.bootstrap, {VALIDATION: "true", "confluent.key.schema.validation": "true"})
    reply = registry.register(f"{topic}-value", record_of("x:int", name="Headed"))
    key = register(registry, f"{topic}-key", "Key")
    guid = uuid.UUID(reply.body["guid"]).bytes
    headers: dict[str, str | bytes | None] = {VALUE_HEADER: b"\1" + guid, KEY_HEADER: id_header(key)}
    assert send(broker.bootstrap, topic, b"payload", key=b"k", headers=headers) is None
    del headers[KEY_HEADER]
    assert code_of(send(broker.bootstrap, topic, b"payload", key=b"k", headers=headers)) == KafkaError.INVALID_RECORD


def test_settings_take_effect_at_once(broker: BrokerProcess, registry: RegistryProcess) -> None:
    """If this fails, an operator who changes the strategy or switches the check off has to restart the broker."""
    topic = new_topic(broker.bootstrap, {VALIDATION: "true"})
    schema = register(registry, "Named", "Named")
    value = id_header(schema)
    assert code_of(send(broker.bootstrap, topic, value)) == KafkaError.INVALID_RECORD
    alter(broker.bootstrap, topic, STRATEGY, f"{PREFIX}RecordNameStrategy")
    until(lambda: send(broker.bootstrap, topic, value) is None, "the record's name to be its subject")
    alter(broker.bootstrap, topic, VALIDATION, "false")
    until(lambda: send(broker.bootstrap, topic, b"plain") is None, "the check to be off")


def test_the_topic_of_the_registry_is_not_checked(broker: BrokerProcess, registry: RegistryProcess) -> None:
    """If this fails, a slip of an operator stops the registry, and with it all producers of checked topics."""
    alter(broker.bootstrap, "_schemas", VALIDATION, "true")
    register(registry, "still-open", "StillOpen")
    alter(broker.bootstrap, "_schemas", VALIDATION, "false")


@pytest.mark.full
def test_brokers_follow_a_topic_that_others_lead(tmp_path: Path) -> None:
    """If this fails, records are checked only by the broker that leads the registry's topic, or it stops the others."""
    with cluster(tmp_path / "nodes") as nodes:
        bootstrap = ",".join(f"{node.host}:{node.port}" for node in nodes)
        settings = tmp_path / "schema-registry.properties"
        settings.write_text("kafkastore.topic.replication.factor=1\n")
        with running_registry(bootstrap, tmp_path / "registry", [str(settings)]) as registry:
            topic = new_topic(bootstrap, {VALIDATION: "true"}, partitions=3)
            schema = register(registry, f"{topic}-value", "R")
            for partition in range(3):
                assert send(bootstrap, topic, id_header(schema), partition) is None
                assert code_of(send(bootstrap, topic, id_header(UNKNOWN), partition)) == KafkaError.INVALID_RECORD
        metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=CALL_S).topics
        leader = metadata["_schemas"].partitions[0].leader
        led = next(index for index, part in metadata[topic].partitions.items() if part.leader != leader)
        nodes[leader - 1].kill()
        others = ",".join(f"{node.host}:{node.port}" for node in nodes if node is not nodes[leader - 1])
        assert send(others, topic, id_header(schema), led) is None
        # It is sent again until the producer gives up, because the topic may have a leader by then.
        assert code_of(send(others, topic, id_header(UNKNOWN), led)) == KafkaError._MSG_TIMED_OUT
