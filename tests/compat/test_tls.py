"""Third-party clients use TLS listeners, with and without certificates and logins."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer, KafkaProducer

from bench.launch.nodes import broker_command
from broker_cy.launch.processes import ProcessError
from tests.support import kafka_tools, needs
from tests.support.broker import target_is_kafka
from tests.support.certificates import PASSWORD, Authority, Holder
from tests.support.confluent import close_consumer, new_consumer
from tests.support.sasl_broker import ALICE, client_jaas, write_properties
from tests.support.sasl_broker import PASSWORD as ALICES_PASSWORD
from tests.support.tls_broker import TlsBroker
from tests.support.wait import until

needs.require(needs.tls)
pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own settings")
TIMEOUT_S = 60.0
TOOL_TIMEOUT_S = 90.0
MODULE = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuredBroker(TlsBroker):
    """On its SSL listener, `alice` (from the certificate) is a super user, and other users have no permissions. The key
    store has type JKS.
    """

    def stores(self) -> dict[str, str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        return {
            "ssl.keystore.location": str(self.holder.write_jks(self.directory / "broker.jks")),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": str(self.authority.write_truststore(self.directory / "trust.jks")),
            "ssl.truststore.password": PASSWORD,
            "listener.name.ssl.ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+),OU=Tests,.*$/$1/,DEFAULT",
            "authorizer.class.name": MODULE,
            "super.users": f"User:alice;User:{ALICE};User:admin",
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    secured = SecuredBroker(tmp_path_factory.mktemp("tls"))
    secured.start()
    yield secured
    secured.close()


def roundtrip(settings: dict[str, Any], topic: str, group: str) -> None:
    producer = Producer(settings)
    for number in range(2_000):
        producer.produce(topic, b"%d" % number * 200)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    others = {name.replace(".", "_"): value for name, value in settings.items() if name != "bootstrap.servers"}
    consumer = new_consumer(settings["bootstrap.servers"], group, **others)
    try:
        consumer.subscribe([topic])
        read = 0
        while read < 2_000:
            found = consumer.consume(1_000, TIMEOUT_S)
            assert found
            read += len(found)
    finally:
        close_consumer(consumer)


def test_librdkafka_with_a_certificate(broker: SecuredBroker, topic: str, group: str) -> None:
    """If this fails, no client on librdkafka can use TLS, or its certificate does not identify its user."""
    roundtrip(broker.confluent(broker.authority.issue("alice")), topic, group)


@pytest.mark.parametrize("name", [None, "mallory"])
def test_librdkafka_without_rights(broker: SecuredBroker, topic: str, name: str | None) -> None:
    """If this fails, a client without a certificate, or with another user's, has the permissions of `alice`."""
    failed: list[KafkaError | None] = []
    producer = Producer(
        broker.confluent(broker.authority.issue(name) if name else None) | {"message.timeout.ms": 5_000}
    )
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error))
    producer.flush(TIMEOUT_S)
    assert [error.code() for error in failed if error is not None] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_librdkafka_checks_the_broker(broker: SecuredBroker) -> None:
    """If this fails, a client cannot tell the broker from an impostor."""
    errors: list[str] = []
    settings = broker.confluent() | {"ssl.ca.pem": Authority("Other").pem}
    producer = Producer({**settings, "error_cb": lambda error: errors.append(error.str())})

    def refused() -> bool:
        producer.poll(0.1)
        return any("certificate verify failed" in error for error in errors)

    until(refused, "a failed check", TIMEOUT_S)


def test_librdkafka_with_a_login(broker: SecuredBroker, topic: str, group: str) -> None:
    """If this fails, SASL_SSL does not work: TLS below, the login above."""
    settings = broker.confluent() | {
        "bootstrap.servers": broker.sasl_bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ALICE,
        "sasl.password": ALICES_PASSWORD,
    }
    roundtrip(settings, topic, group)


def test_kafka_python(broker: SecuredBroker, topic: str, tmp_path: Path) -> None:
    """If this fails, no client on kafka-python can use TLS."""
    settings: dict[str, Any] = {
        "bootstrap_servers": f"localhost:{broker.port}",
        "security_protocol": "SSL",
        "ssl_context": broker.context(broker.authority.issue("alice"), tmp_path),
    }
    producer = KafkaProducer(**settings)
    producer.send(topic, b"x").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000), **settings)
    assert next(consumer).value == b"x"
    consumer.close()


@needs.kafka
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_java(broker: SecuredBroker, topic: str, tmp_path: Path, protocol: str) -> None:
    """If this fails, no Java client can use TLS."""
    settings = {
        "security.protocol": protocol,
        "ssl.truststore.location": str(broker.authority.write_truststore(tmp_path / "trust.jks")),
        "ssl.truststore.password": PASSWORD,
        "default.api.timeout.ms": "20000",
        "max.block.ms": "20000",
    }
    if protocol == "SSL":
        settings |= {
            "ssl.keystore.location": str(broker.authority.issue("alice").write_jks(tmp_path / "alice.jks")),
            "ssl.keystore.password": PASSWORD,
        }
    else:
        settings |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": client_jaas("PLAIN", ALICE, ALICES_PASSWORD)}
    path = tmp_path / "client.properties"
    write_properties(path, settings)
    server = f"localhost:{broker.port if protocol == 'SSL' else broker.sasl_port}"

    def tool(class_name: str, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        connect = ("--bootstrap-server", server, "--command-config", path)
        return kafka_tools.run_tool(class_name, *connect, *arguments, stdin=given, check=False)

    produced = tool("org.apache.kafka.tools.ConsoleProducer", "--topic", topic, given=b"one\ntwo\n")
    assert produced.returncode == 0, produced.stderr
    consumed = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "2",
        "--timeout-ms", "60000",
    )  # fmt: skip
    assert consumed.stdout.split() == [b"one", b"two"], consumed.stderr


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_our_own_client(broker: SecuredBroker, topic: str, tmp_path: Path, protocol: str) -> None:
    """If this fails, broker-cy and the consoles cannot reach a cluster with TLS, or connect to an impostor."""

    port = broker.port if protocol == "SSL" else broker.sasl_port

    def called(authority: Authority, *words: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.write_pem(tmp_path / "authority.pem")),
        }
        if protocol == "SSL":
            store = broker.authority.issue("alice").write_pkcs12(tmp_path / "alice.p12")
            (tmp_path / "secret").write_text(PASSWORD)
            settings |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(store),
                "ssl.keystore.password.file": str(tmp_path / "secret"),
            }
        else:
            settings |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": client_jaas("PLAIN", ALICE, ALICES_PASSWORD)}
        path = tmp_path / "client.properties"
        write_properties(path, settings)
        command = [*broker_command(), *words, "--bootstrap", f"localhost:{port}", "--command-config", str(path)]
        return subprocess.run(
            [*command, "--timeout", "10"], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )

    roundtrip(broker.confluent(broker.authority.issue("alice")), topic, topic)
    good = called(broker.authority, "topics", "list")
    assert topic in good.stdout, good.stderr
    bad = called(Authority("Other"), "topics", "list")
    assert bad.returncode == 3
    assert "certificate verify failed" in bad.stderr

    def is_reported() -> bool:
        said = called(broker.authority, "events", "--json", "--type", "login_failed")
        found = [json.loads(line) for line in said.stdout.splitlines()]
        return any(
            (each["listener"], each["mechanism"]) == (protocol, "TLS") and "http request" in each["reason"]
            for each in found
        )

    # The operator of the broker sees refused connections.
    with socket.create_connection((broker.host, port), TIMEOUT_S) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    until(is_reported, "the event", TIMEOUT_S)


def test_our_own_client_at_another_listener(broker: SecuredBroker, tmp_path: Path) -> None:
    """If this fails, a client with a wrong security.protocol only reports a closed connection, without the reason."""
    trusted = str(broker.authority.write_pem(tmp_path / "authority.pem"))
    path = tmp_path / "client.properties"
    settings = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
    write_properties(path, settings)
    base = [*broker_command(), "topics", "list", "--timeout", "30", "--bootstrap"]
    for which, command in (
        ("with", [*base, f"localhost:{broker.port}"]),
        ("without", [*base, broker.open_bootstrap, "--command-config", str(path)]),
    ):
        said = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
        assert said.returncode == 3
        assert f"closed the connection, as a listener {which} TLS does with this security.protocol" in said.stderr


def test_a_certificate_is_exchanged(broker: SecuredBroker, tmp_path: Path) -> None:
    """If this fails, a certificate can be replaced only by a restart."""
    admin = AdminClient({**broker.confluent(broker.authority.issue("alice"))})

    def exchanged(holder: Holder, password: str = PASSWORD) -> None:
        names = {"location": str(holder.write_pkcs12(tmp_path / "new.p12")), "password": password, "type": "PKCS12"}
        changes = [
            ConfigEntry(f"listener.name.ssl.ssl.keystore.{name}", text, incremental_operation=AlterConfigOpType.SET)
            for name, text in names.items()
        ]
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=changes)
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(TIMEOUT_S)

    def shown() -> bytes | None:
        with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as plain:
            return broker.context().wrap_socket(plain, server_hostname="localhost").getpeercert(binary_form=True)

    with pytest.raises(KafkaException, match="DistinguishedName does not match"):
        exchanged(broker.authority.issue("other"))
    with pytest.raises(KafkaException, match="the password is wrong"):
        exchanged(broker.authority.issue("broker"), "wrong")
    assert shown() == broker.holder.der
    second = broker.authority.issue("broker")
    exchanged(second)
    until(lambda: shown() == second.der, "the new certificate", TIMEOUT_S)
    logged = broker.stdout() + broker.stderr()
    assert "password=wrong" not in logged
    assert PASSWORD not in logged

    def events_of(types: Sequence[str]) -> str:
        path = tmp_path / "admin.properties"
        write_properties(
            path,
            {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(broker.authority.write_pem(tmp_path / "authority.pem")),
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": client_jaas("PLAIN", ALICE, ALICES_PASSWORD),
            },
        )
        chosen = [part for each in types for part in ("--type", each)]
        server = f"localhost:{broker.sasl_port}"
        command = [*broker_command(), "events", "--json", *chosen, "--bootstrap", server, "--command-config", str(path)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
        assert said.returncode == 0, said.stderr
        return said.stdout

    # The certificates of tests expire within 30 days.
    reported = {("exchanged", "SSL"), ("refused", "SSL"), ("expires", "SSL"), ("expires", "SASL_SSL")}

    def all_reported() -> list[dict[str, Any]] | None:
        lines = events_of([f"certificate_{each}" for each in ("exchanged", "refused", "expires")]).splitlines()
        found = [json.loads(line) for line in lines]
        return found if {(each["type"].partition("_")[2], each["listener"]) for each in found} == reported else None

    def change_of_password() -> str:
        said = events_of(["config_changed"])
        return said if "ssl.keystore.password" in said else ""

    found = until(all_reported, "the events", TIMEOUT_S, interval_s=0.5)
    changed = until(change_of_password, "the change", TIMEOUT_S)
    assert PASSWORD not in changed
    reasons = [each["reason"] for each in found if "reason" in each]
    assert ["DistinguishedName" in each for each in reasons] == [True, False]
    assert "the password is wrong" in reasons[1]
    assert {each["days"] for each in found if "days" in each} == {30}
    broker.stop()
    broker.start()
    assert shown() == second.der


# --- invalid stores


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl.keystore.location": "/none.jks"}, "ssl.keystore.location=/none.jks: No such file or directory"),
        ({"ssl.keystore.password": "wrong"}, "the password is wrong, or the store is damaged"),
        ({"ssl.truststore.password": "wrong"}, "the password is wrong, or the store is damaged"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH"}, "the cipher suite TLS_NO_SUCH is not known"),
    ],
)
def test_bad_stores_prevent_the_start(tmp_path: Path, change: dict[str, str], message: str) -> None:
    """If this fails, a broker starts that no client can reach, or does not report why it refuses to start."""

    class Changed(SecuredBroker):
        def stores(self) -> dict[str, str]:
            return super().stores() | change

    bad = Changed(tmp_path)
    with pytest.raises(ProcessError, match=re.escape(message)) as found:
        bad.start()
    bad.close()
    assert "Traceback" not in str(found.value)
    assert PASSWORD not in str(found.value)
