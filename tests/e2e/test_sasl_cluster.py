"""Three nodes that log in to each other: brokers to brokers, and all nodes to the controllers."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.launch.nodes import free_ports
from broker_cy.security import jaas
from tests.support import needs
from tests.support.cluster import QUICK, ClusterNode, running
from tests.support.confluent import read_all
from tests.support.kerberos import client_jaas, kerberos
from tests.support.oauth_provider import AUDIENCE, ISSUER, Provider, key_set, rsa_key
from tests.support.sasl_broker import ADMIN_PASSWORD, listener_settings, write_properties
from tests.support.wait import until

TIMEOUT_S = 60.0
INNER = "INNER"
ROLES = ("broker,controller",) * 3


class SaslNode(ClusterNode):
    """`port` is the port of a listener for clients without a login; the other listeners require one."""

    def __init__(
        self, directory: Path, node_id: int, roles: str, mechanism: str, password: str = ADMIN_PASSWORD
    ) -> None:
        super().__init__(directory, node_id, roles, {})
        self.mechanism = mechanism
        self.password = password
        self.more: dict[str, str] = {}
        self.inner_port = 0

    def choose_ports(self) -> None:
        super().choose_ports()
        (self.inner_port,) = free_ports(1)

    def write_properties(self, voters: str) -> None:
        listeners = []
        if "broker" in self.roles:
            listeners += [f"PLAINTEXT://{self.host}:{self.port}", f"{INNER}://{self.host}:{self.inner_port}"]
        if "controller" in self.roles:
            listeners.append(f"CONTROLLER://{self.host}:{self.controller_port}")
        of_listeners = listener_settings(INNER) | listener_settings("CONTROLLER")
        if self.password != ADMIN_PASSWORD:
            own = f'username="admin" password="{ADMIN_PASSWORD}"'
            of_listeners = {
                name: value.replace(own, f'username="admin" password="{self.password}"')
                for name, value in of_listeners.items()
            }
        values = {
            **QUICK,
            "process.roles": self.roles,
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INNER}:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data_dir),
            # With SCRAM, no first leader could be elected, because SCRAM users are in the metadata. The same holds for
            # Kafka.
            "sasl.mechanism.controller.protocol": "PLAIN",
            "default.replication.factor": "3",
            "min.insync.replicas": "3",
            "offsets.topic.replication.factor": "3",
            "offsets.topic.num.partitions": "4",
            "brokercy.metrics.listener": "127.0.0.1:0",
            "listener.name.inner.connections.max.reauth.ms": "3000",
            "listener.name.controller.connections.max.reauth.ms": "3000",
            **of_listeners,
            **self.more,
        }
        if "broker" in self.roles:
            values |= {"inter.broker.listener.name": INNER, "sasl.mechanism.inter.broker.protocol": self.mechanism}
        write_properties(self.properties, values)

    def format(self, *options: str, **named: str) -> None:
        users = ("--add-scram", f"{self.mechanism}=[name=admin,password={ADMIN_PASSWORD}]")
        super().format(*options, *(users if self.mechanism in jaas.SCRAM else ()), **named)

    def counts(self) -> dict[str, float]:
        """The metrics by name and labels."""
        address = self.stdout().partition("http://")[2].split("/")[0]
        page = urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S).read().decode()
        lines = [line.rpartition(" ") for line in page.splitlines() if line[:1] != "#"]
        return {name: float(value) for name, _, value in lines}


@contextmanager
def sasl_cluster(
    directory: Path, mechanism: str, roles: Sequence[str] = ROLES, more: Mapping[str, str] | None = None
) -> Iterator[list[SaslNode]]:
    """`more` are further settings of all nodes."""
    nodes = [SaslNode(directory / f"node-{number}", number, role, mechanism) for number, role in enumerate(roles, 1)]
    for node in nodes:
        node.choose_ports()
        node.more.update(more or {})
    with running(nodes):
        yield nodes


def produce(bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def logged_in_again(nodes: Sequence[SaslNode], broker: SaslNode) -> bool:
    """Produce to the broker, and check that nodes have reauthenticated at both kinds of listeners."""
    produce(broker.bootstrap, "t", [b"more"])
    counts = [node.counts() for node in nodes]
    again = 'broker_cy_reauthentications_total{listener="%s",result="success"}'
    return all(any(each.get(again % name, 0) >= 2 for each in counts) for name in (INNER, "CONTROLLER"))


@pytest.mark.parametrize(
    ("mechanism", "roles"),
    [
        ("SCRAM-SHA-512", ROLES),
        pytest.param("PLAIN", ("controller", "broker", "broker", "broker"), marks=pytest.mark.full),
    ],
)
def test_a_cluster_of_nodes_that_log_in(tmp_path: Path, mechanism: str, roles: tuple[str, ...]) -> None:
    """If this fails, nodes cannot replicate or elect leaders if listeners require a login, or only until their first
    session ends.
    """
    with sasl_cluster(tmp_path, mechanism, roles) as nodes:
        brokers = [node for node in nodes if "broker" in node.roles]
        admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap})
        for done in admin.create_topics([NewTopic("t", 1, 3)]).values():
            done.result(TIMEOUT_S)
        produce(brokers[0].bootstrap, "t", [b"%d" % number for number in range(300)])
        assert len(read_all(brokers[1].bootstrap, "t")) == 300
        until(lambda: logged_in_again(nodes, brokers[2]), "nodes that log in again", TIMEOUT_S)
        for node in nodes:
            counts = node.counts()
            assert not [name for name in counts if "authentications_total" in name and "failure" in name]
            assert not [name for name in counts if "expired_sessions_total{" in name]
            assert ADMIN_PASSWORD not in node.stdout() + node.stderr()


def test_a_node_with_a_wrong_password_stays_out(tmp_path: Path) -> None:
    """If this fails, every process that reaches the controllers' listener can become a broker of the cluster."""
    with sasl_cluster(tmp_path, "SCRAM-SHA-256", ("broker,controller",)) as (first,):
        other = SaslNode(tmp_path / "other", 9, "broker", "SCRAM-SHA-256", "another-secret")
        other.choose_ports()
        other.write_properties(f"1@{first.host}:{first.controller_port}")
        other.format()
        try:
            other.launch()
            failures = 'broker_cy_authentications_total{listener="CONTROLLER",result="failure"}'
            until(lambda: first.counts().get(failures, 0) >= 3, "refused logins", TIMEOUT_S)
            assert first.brokers() == 1
            assert "login failed" in first.stderr() + first.stdout()
            assert "another-secret" not in first.stderr() + first.stdout() + other.stderr() + other.stdout()
        finally:
            other.close()


def token_settings(provider: Provider) -> dict[str, str]:
    """Settings of nodes that identify each other only by tokens."""
    found = {
        "sasl.mechanism.controller.protocol": jaas.OAUTHBEARER,
        "brokercy.sasl.oauthbearer.allowed.urls": f"{provider.url},{provider.token_url}",
        "sasl.oauthbearer.jwks.endpoint.url": provider.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "node",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
    }
    for name in (INNER, "CONTROLLER"):
        prefix = f"listener.name.{name.lower()}."
        found[f"{prefix}sasl.enabled.mechanisms"] = jaas.OAUTHBEARER
        found[f"{prefix}oauthbearer.sasl.jaas.config"] = f"{jaas.MODULES[jaas.OAUTHBEARER]} required ;"
        # A session ends with its token.
        found[f"{prefix}connections.max.reauth.ms"] = "0"
    return found


@pytest.mark.full
def test_nodes_with_tokens(tmp_path: Path) -> None:
    """If this fails, nodes cannot log in to each other with OAUTHBEARER, or only until their first token expires; or a
    node without the secret can become a broker of the cluster.
    """
    key = rsa_key("rsa")
    with Provider(key_set(key), key, lifetime_s=5) as provider:
        settings = token_settings(provider)
        with sasl_cluster(tmp_path, jaas.OAUTHBEARER, ("controller", "broker", "broker"), settings) as nodes:
            first, *brokers = nodes
            admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap})
            for done in admin.create_topics([NewTopic("t", 1, 2, config={"min.insync.replicas": "2"})]).values():
                done.result(TIMEOUT_S)
            until(lambda: logged_in_again(nodes, brokers[0]), "nodes that log in again", TIMEOUT_S)
            for node in nodes:
                counts = node.counts()
                assert not [name for name in counts if "authentications_total" in name and "failure" in name]
                assert not [name for name in counts if "expired_sessions_total{" in name]
            assert provider.refused == 0
            other = SaslNode(tmp_path / "other", 9, "broker", jaas.OAUTHBEARER)
            other.more = settings | {"sasl.oauthbearer.client.credentials.client.secret": "wrong-secret"}
            other.choose_ports()
            other.write_properties(f"1@{first.host}:{first.controller_port}")
            other.format()
            try:
                other.launch()
                until(lambda: provider.refused >= 2, "a node that asks for tokens", TIMEOUT_S)
                assert brokers[0].brokers() == 2
                output = "".join(node.stderr() + node.stdout() for node in (*nodes, other))
                assert "wrong-secret" not in output
                assert provider.token_url in other.stderr() + other.stdout()
            finally:
                other.close()


@pytest.mark.full
@needs.kerberos()
def test_nodes_with_tickets(tmp_path: Path) -> None:
    """If this fails, nodes cannot log in to each other with GSSAPI, or cannot reauthenticate."""
    principal = "kafka/127.0.0.1"
    with kerberos(tmp_path / "kdc") as kdc:
        text = client_jaas(kdc.add(principal), principal)
        settings = {"sasl.mechanism.controller.protocol": jaas.GSSAPI, "sasl.kerberos.service.name": "kafka"}
        for name in (INNER, "CONTROLLER"):
            prefix = f"listener.name.{name.lower()}."
            settings |= {f"{prefix}sasl.enabled.mechanisms": jaas.GSSAPI, f"{prefix}gssapi.sasl.jaas.config": text}
        with sasl_cluster(tmp_path, jaas.GSSAPI, ("controller", "broker", "broker"), settings) as nodes:
            _, *brokers = nodes
            admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap})
            for done in admin.create_topics([NewTopic("t", 1, 2, config={"min.insync.replicas": "2"})]).values():
                done.result(TIMEOUT_S)
            until(lambda: logged_in_again(nodes, brokers[0]), "nodes that log in again", TIMEOUT_S)
            counts = [name for node in nodes for name in node.counts()]
            assert not [name for name in counts if "authentications_total" in name and "failure" in name]
