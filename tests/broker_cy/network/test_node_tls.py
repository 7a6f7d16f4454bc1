"""Key stores and trust stores of a node that are replaced while it runs: its listeners, and its connections to other
nodes.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker_cy.config.broker import BrokerConfig
from broker_cy.core.clock import ManualClock
from broker_cy.core.config_def.types import ConfigError
from broker_cy.network.certificate_reports import CertificateReports
from tests.support import needs
from tests.support.certificates import Authority, Holder

needs.require(needs.tls)
from broker_cy.metrics.events import Event  # noqa: E402
from broker_cy.network.node_tls import NodeTls  # noqa: E402
from broker_cy.network.tls_listener import TlsListener  # noqa: E402

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "INNER://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "inter.broker.listener.name": "INNER",
    "listener.security.protocol.map": "INNER:SSL,CONTROLLER:SSL",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "ssl.client.auth": "required",
}


class Node:
    """The stores of a node with a listener between brokers, and one of controllers; all in `directory`."""

    def __init__(self, directory: Path, authority: Authority, holder: Holder, **settings: str) -> None:
        self.directory = directory
        stores = {
            "ssl.keystore.location": str(holder.write_pem(directory / "own.pem")),
            "ssl.truststore.location": str(authority.write_pem(directory / "trusted.pem")),
        }
        self.config = BrokerConfig.from_properties({**BASE, **stores, **settings})
        self.events: list[Event] = []
        self.tls = NodeTls(self.config, CertificateReports(ManualClock(), self.events.append))
        anything: Any = None
        for name, each in self.config.tls.listeners.items():
            self.tls.add(TlsListener(name, each, anything, anything))

    def set(self, changes: Mapping[str, str]) -> None:
        """As AlterConfigs does, with the settings of this node. Raises ConfigError."""
        dynamic = {**self.config.dynamic_broker, **changes}
        self.tls.check(self.config.validate_dynamic(dynamic, per_broker=True).tls)
        self.config.apply_dynamic(dynamic, {})

    def store(self, holder: Holder, name: str, listener: str = "inner") -> dict[str, str]:
        return {
            f"listener.name.{listener}.ssl.keystore.location": str(holder.write_pem(self.directory / f"{name}.pem"))
        }

    def trust(self, name: str, *authorities: Authority, listener: str = "inner") -> dict[str, str]:
        path = self.directory / f"{name}.pem"
        path.write_text("".join(each.pem for each in authorities))
        return {f"listener.name.{listener}.ssl.truststore.location": str(path)}

    def shown(self, listener: str = "INNER") -> tuple[bytes, bytes]:
        """The certificates that this node shows now: to clients, and as one."""
        identity = self.tls.outgoing[listener].loaded.identity
        assert identity is not None
        return self.tls.listeners[listener].identity.chain[0], identity.chain[0]


@pytest.fixture
def authority() -> Authority:
    return Authority()


def test_both_halves_are_exchanged(tmp_path: Path, authority: Authority) -> None:
    """If this fails, a node shows others a certificate that has ended, or trusts an authority that was withdrawn."""
    first, second, other = authority.issue("node"), authority.issue("node"), Authority("Other")
    node = Node(tmp_path, authority, first)
    contexts = {name: each() for name, each in node.tls.outgoing.items()}
    node.set(node.store(second, "second"))
    assert node.shown() == (second.der, second.der)
    assert node.shown("CONTROLLER") == (first.der, first.der)
    assert node.tls.outgoing["INNER"]() is not contexts["INNER"]
    assert node.tls.outgoing["CONTROLLER"]() is contexts["CONTROLLER"]
    # To another authority, in the three steps that a cluster without a pause needs.
    third = other.issue("node")
    for listener in ("inner", "controller"):
        node.set(node.trust(f"both-{listener}", authority, other, listener=listener))
        node.set(node.store(third, f"third-{listener}", listener))
        node.set(node.trust(f"other-{listener}", other, listener=listener))
        assert node.shown(listener.upper()) == (third.der, third.der)
        assert [each["subject"] for each in node.tls.outgoing[listener.upper()]().get_ca_certs()] == [
            each["subject"] for each in _trusting(other).get_ca_certs()
        ]


def _trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem)


def test_a_broker_has_to_accept_itself(tmp_path: Path, authority: Authority) -> None:
    """If this fails, one change cuts a broker off from all others."""
    first, other = authority.issue("node"), Authority("Other")
    node = Node(tmp_path, authority, first)
    for change in (node.store(other.issue("node"), "strange"), node.trust("strange-trust", other)):
        with pytest.raises(ConfigError, match="could not connect to each other"):
            node.set(change)
    assert node.shown() == (first.der, first.der)
    with pytest.raises(ConfigError, match="could not connect to each other"):
        Node(tmp_path, other, first)


def test_controllers_need_not_accept_themselves(tmp_path: Path, authority: Authority) -> None:
    """If this fails, a controller rejects a certificate whose authority its own trust store lacks; Kafka accepts it."""
    other = Authority("Other")
    node = Node(tmp_path, authority, authority.issue("node"))
    third = other.issue("node")
    node.set(node.store(third, "third", "controller"))
    assert node.shown("CONTROLLER") == (third.der, third.der)


def test_the_other_rules_of_kafka(tmp_path: Path, authority: Authority) -> None:
    """If this fails, a new certificate can change a node's identity, or drop host names that its peers verify."""
    node = Node(tmp_path, authority, authority.issue("node"), **{"ssl.client.auth": "none"})
    with pytest.raises(ConfigError, match="DistinguishedName does not match"):
        node.set(node.store(authority.issue("another"), "another"))
    with pytest.raises(ConfigError, match="SubjectAltNames do not match"):
        node.set(node.store(authority.issue("node", hosts=("localhost",)), "fewer"))
    capitals = authority.issue("NODE")
    node.set(node.store(capitals, "capitals"))
    assert node.shown() == (capitals.der, capitals.der)
    settings = {"ssl.allow.dn.changes": "true", "listener.name.inner.ssl.allow.san.changes": "true"}
    freer = Node(tmp_path, authority, authority.issue("node"), **settings)
    freer.set(freer.store(authority.issue("another", hosts=()), "freer"))


def test_a_trust_store_cannot_be_added(tmp_path: Path, authority: Authority) -> None:
    """If this fails, a new certificate also replaces the system's certificate authorities with others."""
    holder = authority.issue("node").write_pem(tmp_path / "own.pem")
    settings = {
        **BASE,
        "listener.security.protocol.map": "INNER:PLAINTEXT,CONTROLLER:SSL",
        "ssl.client.auth": "none",
        "ssl.keystore.location": str(holder),
    }
    config = BrokerConfig.from_properties(settings)
    tls = NodeTls(config, CertificateReports(ManualClock(), lambda event: None))
    name = "listener.name.controller.ssl.truststore.location"
    changed = config.validate_dynamic({name: str(authority.write_pem(tmp_path / "trusted.pem"))}, per_broker=True)
    with pytest.raises(ConfigError, match="Cannot add SSL truststore"):
        tls.check(changed.tls)


def test_files_that_change_concern_both_halves(tmp_path: Path, authority: Authority) -> None:
    """If this fails, a certificate that a tool renews in its file is shown to clients only."""
    first, second = authority.issue("node"), authority.issue("node")
    node = Node(tmp_path, authority, first)
    node.tls.look()
    second.write_pem(tmp_path / "own.pem")
    node.tls.look()
    for listener in ("INNER", "CONTROLLER"):
        assert node.shown(listener) == (second.der, second.der)
    # An unsuitable certificate is used for neither half.
    Authority("Other").issue("node").write_pem(tmp_path / "own.pem")
    node.tls.look()
    assert node.shown() == (second.der, second.der)


def test_settings_of_an_earlier_exchange_count_after_a_start(tmp_path: Path, authority: Authority) -> None:
    """If this fails, a restarted node presents the certificate that was replaced earlier."""
    second = authority.issue("node")
    node = Node(tmp_path, authority, authority.issue("node"))
    node.config.apply_dynamic(node.store(second, "second"), {})
    assert node.shown() == (second.der, second.der)
