"""Third-party clients log in with tickets of MIT Kerberos."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiokafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from kafka import KafkaProducer

from bench.launch import kafka_dist
from bench.launch.nodes import broker_command
from broker_cy.client.program import EXIT_USAGE
from broker_cy.launch.processes import run
from broker_cy.security import jaas
from broker_cy.security.sasl.gssapi import GssapiClient
from broker_cy.wire import messages as m
from loadgen.net import connection as loadgen_connection
from loadgen.net import login as loadgen_login
from tests.compat.differential.client import CLOSED, Client
from tests.support import kerberos as kdcs
from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.clients import kcat
from tests.support.kerberos import MODULE, REALM, Kdc, client_jaas
from tests.support.sasl_broker import KafkaSaslPeer, SaslBroker, write_properties
from tests.support.wait import until

if TYPE_CHECKING:
    from broker_cy.client.kerberos import Initiator

pytestmark = [
    pytest.mark.skipif(target_is_kafka(), reason="starts the broker itself"),
    needs.kerberos(),
]
TIMEOUT_S = 60.0
SERVICE = "kafka/localhost"
# Carol/admin is the user carol, a super user; alice has no permissions.
ADMIN, ALICE = "Carol/admin", "alice"
SETTINGS = {
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "GSSAPI",
    "listener.name.sasl_plaintext.sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](.*-admin)s/-admin//L,DEFAULT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:carol;User:ANONYMOUS",
}


def settings(keytab: Path) -> dict[str, str]:
    return {**SETTINGS, "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": client_jaas(keytab, SERVICE)}


class GssapiBroker(SaslBroker):
    """A broker with a host name, by which clients and Kerberos know it."""

    def __init__(self, directory: Path, keytab: Path) -> None:
        super().__init__(directory, settings(keytab))

    def prepare(self) -> None:
        self.settings["advertised.listeners"] = (
            f"SASL_PLAINTEXT://localhost:{self.port},OPEN://{self.host}:{self.open_port}"
        )
        super().prepare()

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"


class GssapiKafka(KafkaSaslPeer):
    name = "localhost"

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        super().__init__(directory, settings(key(kdc, SERVICE)))
        self.jvm_flags = (*self.jvm_flags, f"-Djava.security.krb5.conf={kdc.config}")

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kdcs.kerberos(tmp_path_factory.mktemp("kdc")) as found:
        for principal in (SERVICE, ADMIN, ALICE):
            found.add(principal)
        found.log_in(ADMIN, key(found, ADMIN))
        yield found


def key(kdc: Kdc, principal: str) -> Path:
    return kdc.directory / f"{principal.replace('/', '-')}.keytab"


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GssapiBroker]:
    found = GssapiBroker(tmp_path_factory.mktemp("gssapi"), key(kdc, SERVICE))
    try:
        yield found.start()
    finally:
        found.close()


def client_file(file: Path, text: str) -> Path:
    write_properties(
        file,
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": text,
        },
    )
    return file


def kafka_topics(broker: GssapiBroker, kdc: Kdc, file: Path, *arguments: str) -> None:
    command = kafka_dist.tool_command("org.apache.kafka.tools.TopicCommand")
    command.insert(1, f"-Djava.security.krb5.conf={kdc.config}")
    connect: list[str | Path] = ["--bootstrap-server", broker.bootstrap, "--command-config", file]
    done = run([*command, *connect, *arguments], timeout_s=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def our_topics(broker: GssapiBroker | GssapiKafka, file: Path, code: int = 0) -> str:
    command = [*broker_command(), "topics", "create", "--partitions", "1", f"t{os.urandom(4).hex()}"]
    done = run([*command, "--bootstrap", broker.bootstrap, "--command-config", file], timeout_s=60, check=False)
    assert done.returncode == code, done.stderr
    return (done.stdout + done.stderr).decode()


def test_librdkafka(broker: GssapiBroker, kdc: Kdc, topic: str) -> None:
    """If this fails, clients on librdkafka and Cyrus SASL cannot log in."""
    # With existing tickets, and with tickets that it gets itself with the key.
    settings = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=GSSAPI"]
    by_key = ["-X", f"sasl.kerberos.keytab={key(kdc, ADMIN)}", "-X", f"sasl.kerberos.principal={ADMIN}"]
    for more in (["-X", "sasl.kerberos.kinit.cmd=true"], by_key):
        kcat(broker.bootstrap, "-P", "-t", topic, *settings, *more, stdin=b"x\n")
    settings += by_key
    assert kcat(broker.bootstrap, "-C", "-q", "-e", "-t", topic, *settings) == b"x\nx\n"


def test_kafka_python(broker: GssapiBroker, topic: str) -> None:
    """If this fails, clients on kafka-python cannot log in."""
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_domain_name="localhost",
    )
    producer.send(topic, b"x").get(TIMEOUT_S)
    producer.close()


def test_aiokafka(broker: GssapiBroker, kdc: Kdc, topic: str) -> None:
    """If this fails, clients on aiokafka cannot log in, or can without a ticket for this service."""

    def producer(service: str) -> Any:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name=service,
            sasl_kerberos_domain_name="localhost",
        )

    kdc.add("other/localhost")

    async def work() -> None:
        good = producer("kafka")
        await good.start()
        await good.send_and_wait(topic, b"x")
        await good.stop()
        bad = producer("other")
        with pytest.raises(AioKafkaError):
            await bad.start()
        await bad.stop()

    asyncio.run(asyncio.wait_for(work(), 2 * TIMEOUT_S))


@needs.kafka
def test_java(broker: GssapiBroker, kdc: Kdc, topic: str, tmp_path: Path) -> None:
    """If this fails, Java clients cannot log in with the key of a principal, or are other users than in Kafka."""
    file = client_file(tmp_path / "client.properties", client_jaas(key(kdc, ADMIN), ADMIN))
    kafka_topics(broker, kdc, file, "--create", "--topic", topic)


def test_our_command(broker: GssapiBroker, kdc: Kdc, tmp_path: Path) -> None:
    """If this fails, operators cannot use broker-cy with a key or with kinit, or a user without permissions can."""
    our_topics(broker, client_file(tmp_path / "a", client_jaas(key(kdc, ADMIN), ADMIN)))
    our_topics(broker, client_file(tmp_path / "b", f"{MODULE} required useTicketCache=true;"))
    text = our_topics(broker, client_file(tmp_path / "c", client_jaas(key(kdc, ALICE), ALICE)), 1)
    assert "TOPIC_AUTHORIZATION_FAILED" in text
    text = our_topics(broker, client_file(tmp_path / "d", client_jaas(key(kdc, ALICE), "nobody")), 1)
    assert f"Kerberos: no ticket for nobody@{REALM} with the keys in {key(kdc, ALICE)}" in text
    text = our_topics(broker, client_file(tmp_path / "e", client_jaas(tmp_path / "none.keytab", ALICE)), 1)
    assert "none.keytab: it cannot be read" in text


def test_load_generators(broker: GssapiBroker, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, load generators cannot log in with GSSAPI."""
    file = client_file(tmp_path / "client.properties", client_jaas(key(kdc, ADMIN), ADMIN))
    monkeypatch.setenv(loadgen_login.FILE_VARIABLE, str(file))
    connection = loadgen_connection.connect(("localhost", broker.port), "load", TIMEOUT_S)
    try:
        answer = connection.call(m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert len(answer.brokers) == 1
    finally:
        connection.close()


# --- the exchange, token by token


def initiator(kdc: Kdc) -> Initiator:
    # If the library cannot be imported, these tests are skipped.
    from broker_cy.client.kerberos import Initiator

    return Initiator(jaas.kerberos(client_jaas(key(kdc, ALICE), ALICE), "kafka"))


def exchange(kdc: Kdc) -> GssapiClient:
    found = initiator(kdc)
    return GssapiClient(lambda: found.begin("localhost"))


def begun(broker: GssapiBroker | GssapiKafka, version: int = 1) -> Client:
    client = Client((broker.host, broker.port))
    assert client.ask(m.SaslHandshakeRequest(mechanism="GSSAPI"), version).error_code == 0
    return client


def send(client: Client, token: bytes) -> Any:
    return client.ask(m.SaslAuthenticateRequest(auth_bytes=token), 2)


@pytest.mark.full
@needs.kafka
def test_the_same_answers_as_kafka(broker: GssapiBroker, kdc: Kdc, tmp_path: Path) -> None:
    """If this fails, our clients cannot log in to Apache Kafka, or our broker accepts other logins than Kafka."""
    admin = client_file(tmp_path / "admin", client_jaas(key(kdc, ADMIN), ADMIN))
    nobody = client_file(tmp_path / "alice", client_jaas(key(kdc, ALICE), ALICE))
    theirs = GssapiKafka(tmp_path / "kafka", kdc)
    try:
        theirs.start()
        our_topics(theirs, admin)
        assert "TOPIC_AUTHORIZATION_FAILED" in our_topics(theirs, nobody, 1)
        ours, found = verdicts(broker, kdc), verdicts(theirs, kdc)
        assert ours == found
        assert [code for code, _ in found.values()] == [0, 0, 0, 58, 58, 58, 58, 58]
    finally:
        theirs.close()


def verdicts(broker: GssapiBroker | GssapiKafka, kdc: Kdc) -> dict[str, tuple[int, str | None]]:
    """The response to the last token of a client."""
    last = {
        "no layer": b"\x01\0\0\0",
        "a size": b"\x01\0\xff\xff",
        "another authorization id": b"\x01\0\0\0Carol/admin@EXAMPLE.COM",
        "integrity": b"\x02\0\0\0",
        "confidentiality": b"\x04\0\0\0",
        "no layer at all": b"\0\0\0\0",
    }
    found = {}
    for what, message in last.items():
        client, context = begun(broker), initiator(kdc).begin("localhost")
        context.step(send(client, context.step(b"")).auth_bytes)
        context.unwrap(send(client, b"").auth_bytes)
        answer = send(client, context.wrap(message))
        found[what] = answer.error_code, answer.error_message
    for what, token in {"no token": b"", "no token of Kerberos": b"x" * 100}.items():
        answer = send(begun(broker), token)
        found[what] = answer.error_code, answer.error_message
    return found


def test_a_ticket_does_not_count_twice(broker: GssapiBroker, kdc: Kdc) -> None:
    """If this fails, an attacker who reads the network can log in by replaying tokens."""
    client, at_client = begun(broker), exchange(kdc)
    first = at_client.first()
    answer = send(client, first)
    assert answer.error_code == 0
    replayed = send(begun(broker), first)
    assert replayed.error_code == 58
    assert replayed.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )
    until(lambda: "Request is a replay" in broker.stderr() + broker.stdout(), "the reason in the log")
    # The first login continues.
    sent = at_client.step(answer.auth_bytes)
    while sent is not None:
        answer = send(client, sent)
        assert answer.error_code == 0
        sent = at_client.step(answer.auth_bytes)
    assert at_client.is_complete
    assert client.ask(m.MetadataRequest(topics=[]), 12) != CLOSED


@pytest.mark.parametrize("cut", [0, 1, 20, 200])
def test_a_changed_ticket(broker: GssapiBroker, kdc: Kdc, cut: int) -> None:
    """If this fails, a forged ticket gives access, or stops the broker."""
    first = exchange(kdc).first()
    changed = first[:cut] if cut != 200 else first[:-200] + bytes([first[-200] ^ 1]) + first[-199:]
    assert send(begun(broker), changed).error_code == 58
    assert send(begun(broker), first).error_code == 0


def test_without_the_key_of_the_ticket(broker: GssapiBroker, kdc: Kdc) -> None:
    """If this fails, a stolen first token is enough to log in."""
    client, at_client = begun(broker), exchange(kdc)
    assert send(client, at_client.first()).error_code == 0
    offer = send(client, b"")
    assert offer.error_code == 0
    # Instead of the server's message, which contains the server's proof.
    assert send(client, offer.auth_bytes).error_code == 58


def test_a_new_key_counts_without_a_restart(broker: GssapiBroker, kdc: Kdc) -> None:
    """If this fails, no client can log in after the broker's key was changed, until the broker is restarted."""
    kdc.new_key(SERVICE, key(kdc, SERVICE))
    client, at_client = begun(broker), exchange(kdc)
    assert send(client, at_client.first()).error_code == 0


def test_calls_that_block_hold_up_nobody_else(broker: GssapiBroker, kdc: Kdc) -> None:
    """If this fails, a slow disk with the file of used tickets blocks the broker for all clients, or clients that
    disconnect meanwhile leak resources.
    """
    request = m.MetadataRequest(topics=[])
    with (kdc.directory / "replays").open("r+b") as file:
        # The Kerberos library waits for this lock.
        fcntl.lockf(file, fcntl.LOCK_EX)
        clients = [begun(broker) for _ in range(6)]
        for client in clients:
            client.send(m.SaslAuthenticateRequest(auth_bytes=exchange(kdc).first()), 2)
        for client in clients[::2]:
            client.close()
        # A request of a waiting client is not lost.
        clients[1].send(m.SaslAuthenticateRequest(auth_bytes=b""), 2)
        others = Client((broker.host, broker.open_port))
        for _ in range(3):
            assert others.ask(request, 12) != CLOSED
        begun(broker).close()
    for client in clients[1::2]:
        assert client.receive().error_code == 0
    assert clients[1].receive().error_code == 0
    assert send(begun(broker), exchange(kdc).first()).error_code == 0


def test_a_start_that_nobody_could_log_in_to(kdc: Kdc, tmp_path: Path) -> None:
    """If this fails, a broker starts although its listener refuses all clients, or does not report the missing
    package.
    """
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "gssapi.py").write_text("raise ImportError('libgssapi_krb5.so.2: cannot open shared object file')")
    for keytab, environment, text in (
        (key(kdc, ALICE), {}, f"No key table entry found for {SERVICE}@{REALM}"),
        (tmp_path / "none.keytab", {}, "none.keytab' not found"),
        (key(kdc, SERVICE), {"PYTHONPATH": str(hidden)}, "pip install 'broker-cy[gssapi]'"),
    ):
        broker = GssapiBroker(tmp_path / f"broker-{len(text)}", keytab)
        broker.choose_ports()
        broker.directory.mkdir()
        broker.prepare()
        done = run(broker.command(), env=environment, check=False, timeout_s=TIMEOUT_S)
        assert done.returncode == EXIT_USAGE
        assert text in done.stderr.decode()
