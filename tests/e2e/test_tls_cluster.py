"""Three nodes that communicate over TLS: with SASL between brokers, and only with certificates at controllers."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.launch.nodes import broker_command
from broker_cy.client.program import EXIT_USAGE
from broker_cy.launch.processes import run
from tests.e2e.test_sasl_cluster import INNER, ROLES, SaslNode, produce
from tests.support import needs
from tests.support.certificates import PASSWORD, Authority
from tests.support.cluster import running
from tests.support.confluent import read_all
from tests.support.wait import until

needs.require(needs.tls)

TIMEOUT_S = 60.0


class TlsNode(SaslNode):
    """SASL_SSL between brokers, with a PKCS12 key store; SSL with certificates on both sides at controllers."""

    def __init__(self, directory: Path, node_id: int, roles: str, authority: Authority, issuer: Authority) -> None:
        """`issuer` signs its certificate; it trusts both authorities."""
        super().__init__(directory, node_id, roles, "SCRAM-SHA-512")
        self.authority = authority
        self.issuer = issuer

    def write_properties(self, voters: str) -> None:
        super().write_properties(voters)
        text = self.properties.read_text()
        text = text.replace(f"{INNER}:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT", f"{INNER}:SASL_SSL,CONTROLLER:SSL")
        assert "SASL_SSL" in text
        trusted = self.directory / "authority.pem"
        # A broker that does not accept its own certificate would not start.
        trusted.write_text("".join(each.pem for each in dict.fromkeys((self.authority, self.issuer))))
        store = self.issuer.issue(f"node-{self.node_id}").write_pkcs12(self.directory / "node.p12")
        settings = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": store,
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": trusted,
            "listener.name.controller.ssl.client.auth": "required",
        }
        self.properties.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))


def nodes_of(directory: Path, authority: Authority, stranger: Authority | None = None) -> list[TlsNode]:
    """Three nodes; if `stranger` is given, it signs the certificate of the last one."""
    found = [
        TlsNode(
            directory / f"node-{number}", number, role, authority, stranger if stranger and number == 3 else authority
        )
        for number, role in enumerate(ROLES, 1)
    ]
    for node in found:
        node.choose_ports()
    return found


def test_a_cluster_over_tls(tmp_path: Path) -> None:
    """If this fails, nodes cannot replicate or elect leaders over TLS listeners."""
    nodes = nodes_of(tmp_path, Authority())
    with running(nodes):
        admin = AdminClient({"bootstrap.servers": nodes[0].bootstrap})
        for done in admin.create_topics([NewTopic("t", 1, 3)]).values():
            done.result(TIMEOUT_S)
        produce(nodes[0].bootstrap, "t", [b"%d" % number for number in range(300)])
        assert len(read_all(nodes[1].bootstrap, "t")) == 300
        for listener in (INNER, "CONTROLLER"):
            shaken = f'broker_cy_tls_handshakes_total{{listener="{listener}",result="success"}}'
            assert any(node.counts().get(shaken, 0) > 0 for node in nodes)
        leader = next(node for node in nodes if node.counts()["broker_cy_quorum_leader"] == node.node_id)
        leader.kill()
        left = [node for node in nodes if node is not leader]
        until(
            lambda: left[0].counts()["broker_cy_quorum_leader"] in {node.node_id for node in left},
            "another leader of the quorum",
            TIMEOUT_S,
        )


def test_a_node_with_the_certificate_of_a_stranger(tmp_path: Path) -> None:
    """If this fails, an untrusted machine can join the cluster."""
    authority = Authority()
    *good, stranger = nodes_of(tmp_path, authority, Authority("Stranger"))
    voters = ",".join(f"{node.node_id}@{node.host}:{node.controller_port}" for node in (*good, stranger))
    try:
        for node in (*good, stranger):
            node.write_properties(voters)
            node.format()
            node.launch()
        until(lambda: all(node.brokers() == 2 for node in good), "the two good nodes", TIMEOUT_S)
        until(lambda: "TLS handshake failed" in good[0].stderr() + good[1].stderr(), "a refusal", TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": good[0].bootstrap})
        assert set(admin.list_topics(timeout=TIMEOUT_S).brokers) == {node.node_id for node in good}
    finally:
        for node in (*good, stranger):
            node.close()


def test_a_key_store_that_cannot_be_read(tmp_path: Path) -> None:
    """If this fails, a typing error in a password causes a traceback, or the password is shown."""
    node = nodes_of(tmp_path, Authority())[0]
    node.write_properties(f"{node.node_id}@{node.host}:{node.controller_port}")
    wrong = "not-the-password-77"
    node.properties.write_text(node.properties.read_text() + f"ssl.keystore.password={wrong}\n")
    node.format()
    done = run([*broker_command(), "start", "--config", node.properties], timeout_s=90, check=False)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == EXIT_USAGE
    assert line.startswith("broker-cy: listener ")
    assert line.endswith("node.p12: the password is wrong, or the store is damaged")
    assert "setting ssl.keystore.location=" in line
    assert wrong not in line
