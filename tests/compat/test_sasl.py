"""Third-party clients can log in with each mechanism, and cannot with a wrong password."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from bench.launch.nodes import broker_command
from tests.support import kafka_tools, needs
from tests.support.broker import target_is_kafka
from tests.support.confluent import close_consumer, new_consumer
from tests.support.sasl_broker import ALICE, MECHANISMS, PASSWORD, SaslBroker, client_jaas, write_properties
from tests.support.wait import until

TIMEOUT_S = 60.0
TOOL_TIMEOUT_S = 90.0
WRONG = [(ALICE, "wrong"), ("mallory", PASSWORD)]
pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own settings")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with_login = SaslBroker(tmp_path_factory.mktemp("sasl"))
    with_login.start()
    with_login.add_user(ALICE, PASSWORD)
    yield with_login
    with_login.close()


# --- librdkafka


def rdkafka(broker: SaslBroker, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(broker: SaslBroker, mechanism: str, topic: str, group: str) -> None:
    """If this fails, no client on librdkafka can log in."""
    settings = rdkafka(broker, mechanism, ALICE, PASSWORD)
    producer = Producer(settings)
    producer.produce(topic, b"x")
    assert producer.flush(TIMEOUT_S) == 0
    underscored = {name.replace(".", "_"): value for name, value in settings.items() if name != "bootstrap.servers"}
    consumer = new_consumer(broker.bootstrap, group, **underscored)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"x"
        consumer.commit(message=message, asynchronous=False)
    finally:
        close_consumer(consumer)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), WRONG)
def test_librdkafka_is_refused(broker: SaslBroker, mechanism: str, user: str, password: str) -> None:
    """If this fails, a wrong password is not reported as such, or gives access."""
    errors: list[KafkaError] = []
    producer = Producer({**rdkafka(broker, mechanism, user, password), "error_cb": errors.append})

    def refused() -> bool:
        producer.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in errors)

    until(refused, "an error of authentication", TIMEOUT_S)
    text = " ".join(str(error) for error in errors)
    expected = "Invalid username or password" if mechanism == "PLAIN" else "invalid credentials with SASL mechanism"
    assert expected in text


def test_a_user_that_changes_at_run_time(broker: SaslBroker, topic: str) -> None:
    """If this fails, a new password works only after a restart, or the old one still works."""
    mechanism = "SCRAM-SHA-512"
    for password in ("first", "second"):
        broker.add_user("bob", password, [mechanism])
        producer = Producer(rdkafka(broker, mechanism, "bob", password))
        producer.produce(topic, b"x")
        assert producer.flush(TIMEOUT_S) == 0
    test_librdkafka_is_refused(broker, mechanism, "bob", "first")
    # The user has no credential for the other mechanism.
    test_librdkafka_is_refused(broker, "SCRAM-SHA-256", "bob", "second")


# --- kafka-python and aiokafka


def python_settings(broker: SaslBroker, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: SaslBroker, mechanism: str, topic: str) -> None:
    """If this fails, no client on kafka-python can log in."""
    settings = python_settings(broker, mechanism, ALICE, PASSWORD)
    producer = KafkaProducer(**settings)
    producer.send(topic, b"x").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000), **settings)
    assert next(consumer).value == b"x"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), WRONG)
def test_kafka_python_is_refused(broker: SaslBroker, mechanism: str, user: str, password: str) -> None:
    """If this fails, a wrong password gives access."""
    with pytest.raises(PythonKafkaError):
        KafkaAdminClient(
            **python_settings(broker, mechanism, user, password),
            api_version_auto_timeout_ms=3_000,
            request_timeout_ms=3_000,
        )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: SaslBroker, mechanism: str, topic: str) -> None:
    """If this fails, no client on aiokafka can log in."""

    async def run() -> None:
        settings = python_settings(broker, mechanism, ALICE, PASSWORD)
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        await producer.send_and_wait(topic, b"x")
        await producer.stop()
        for user, password in WRONG:
            refused = aiokafka.AIOKafkaProducer(**python_settings(broker, mechanism, user, password))
            with pytest.raises(AioKafkaError):
                await refused.start()
            await refused.stop()

    asyncio.run(asyncio.wait_for(run(), 2 * TIMEOUT_S))


# --- Java


def tool(
    broker: SaslBroker,
    directory: Path,
    class_name: str,
    *arguments: str,
    given: str = "",
    user: str,
    password: str,
    mechanism: str,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools with a client.properties."""
    path = directory / f"{mechanism}-{user}.properties"
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": client_jaas(mechanism, user, password),
        "default.api.timeout.ms": "20000",
        "request.timeout.ms": "15000",
        "max.block.ms": "20000",
    }
    write_properties(path, settings)
    connect = ("--bootstrap-server", broker.bootstrap, "--command-config", path)
    done = kafka_tools.run_tool(class_name, *connect, *arguments, stdin=given.encode(), check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@needs.kafka
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java(broker: SaslBroker, mechanism: str, topic: str, tmp_path: Path) -> None:
    """If this fails, no Java client can log in."""
    good = {"user": ALICE, "password": PASSWORD, "mechanism": mechanism}
    produced = tool(
        broker, tmp_path, "org.apache.kafka.tools.ConsoleProducer", "--topic", topic, given="one\ntwo\n", **good
    )
    assert produced.returncode == 0, produced.stderr
    consumed = tool(
        broker, tmp_path, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning",
        "--max-messages", "2", "--timeout-ms", "60000", **good,
    )  # fmt: skip
    assert consumed.stdout.split() == ["one", "two"], consumed.stderr
    bad = tool(
        broker,
        tmp_path,
        "org.apache.kafka.tools.TopicCommand",
        "--list",
        user=ALICE,
        password="wrong",
        mechanism=mechanism,
    )
    assert bad.returncode != 0
    assert "SaslAuthenticationException: Authentication failed" in bad.stdout + bad.stderr


@needs.kafka
def test_kafka_configs_adds_users(broker: SaslBroker, topic: str, tmp_path: Path) -> None:
    """If this fails, operators cannot add users with Kafka's own tool."""
    done = tool(
        broker, tmp_path, "kafka.admin.ConfigCommand", "--alter", "--entity-type", "users", "--entity-name", "carol",
        "--add-config", "SCRAM-SHA-256=[iterations=8192,password=carol-secret]",
        user="admin", password="admin-secret", mechanism="PLAIN",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    producer = Producer(rdkafka(broker, "SCRAM-SHA-256", "carol", "carol-secret"))
    producer.produce(topic, b"x")
    assert producer.flush(TIMEOUT_S) == 0


# --- our own command


def own(broker: SaslBroker, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*broker_command(), "topics", "list", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_command(broker: SaslBroker, mechanism: str, tmp_path: Path) -> None:
    """If this fails, operators cannot use broker-cy with a secured cluster, or do not see that a login failed."""
    good, bad = tmp_path / "good.properties", tmp_path / "bad.properties"
    for path, password in ((good, PASSWORD), (bad, "wrong")):
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        write_properties(path, settings | {"sasl.jaas.config": client_jaas(mechanism, ALICE, password)})
    done = own(broker, "--bootstrap", broker.bootstrap, "--command-config", str(good))
    assert done.returncode == 0, done.stderr
    refused = own(broker, "--bootstrap", broker.bootstrap, "--command-config", str(bad))
    assert refused.returncode != 0
    assert "SASL_AUTHENTICATION_FAILED" in refused.stderr + refused.stdout
    assert "Authentication failed" in refused.stderr + refused.stdout
    clusters = tmp_path / "clusters.toml"
    clusters.write_text(
        f'default = "here"\n[clusters.here]\nbootstrap = "{broker.bootstrap}"\nsecurity.protocol = "SASL_PLAINTEXT"\n'
        f'sasl.mechanism = "{mechanism}"\nsasl.username = "{ALICE}"\nsasl.password.env = "ALICE_PASSWORD"\n'
    )
    done = own(broker, "--clusters-file", str(clusters), ALICE_PASSWORD=PASSWORD)
    assert done.returncode == 0, done.stderr


def test_no_secret_is_shown(broker: SaslBroker) -> None:
    """If this fails, logs or process lists reveal passwords."""
    test_librdkafka_is_refused(broker, "PLAIN", "mallory", PASSWORD)
    output = broker.stdout() + broker.stderr()
    assert "login failed" in output
    assert "mallory" in output
    command_line = Path(f"/proc/{broker.pid}/cmdline").read_text()
    for secret in (PASSWORD, "admin-secret", "carol-secret", "wrong\n"):
        assert secret not in output
        assert secret not in command_line
