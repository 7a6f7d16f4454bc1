"""The settings of TLS: a server.properties of Kafka with TLS works, and settings that would not protect are
rejected.
"""

from __future__ import annotations

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.config.broker import TLS_STORES
from broker_cy.core.config_def.types import ConfigError

BASE = {
    "listeners": "SSL://:9092,OPEN://:9091",
    "listener.security.protocol.map": "SSL:SSL,SASL_SSL:SASL_SSL,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "OPEN",
    "ssl.keystore.location": "/keys/broker.jks",
    "ssl.keystore.password": "a-secret",
    "ssl.key.password": "b-secret",
    "ssl.truststore.location": "/keys/trust.jks",
    "ssl.truststore.password": "c-secret",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
WITH_SASL = {
    **BASE,
    "listeners": "SASL_SSL://:9092,OPEN://:9091",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_a="b";',
}


def test_a_secured_file_of_kafka() -> None:
    """If this fails, a broker that Kafka starts with these settings does not start."""
    config = BrokerConfig.from_properties({**BASE, "ssl.client.auth": "required"})
    assert list(config.tls.listeners) == ["SSL"]
    found = config.tls.listeners["SSL"]
    assert (found.oldest, found.newest, found.ciphers, found.suites) == ("TLSv1.2", "TLSv1.3", None, None)
    assert (found.asks, found.requires, found.rules) == (True, True, "DEFAULT")
    assert found.stores.keystore_password == "a-secret"
    assert config.warnings == []
    assert "secret" not in repr(config.tls)


def test_settings_of_a_listener_replace_the_others() -> None:
    """If this fails, a listener has the certificate of another, or asks for none."""
    config = BrokerConfig.from_properties(
        {
            **BASE,
            "listener.name.ssl.ssl.keystore.location": "/keys/other.p12",
            "listener.name.ssl.ssl.client.auth": "requested",
            "listener.name.ssl.ssl.enabled.protocols": "TLSv1.3",
            "listener.name.ssl.ssl.principal.mapping.rules": "RULE:a/b/",
        }
    )
    found = config.tls.listeners["SSL"]
    assert found.stores.keystore_location == "/keys/other.p12"
    assert (found.asks, found.requires, found.oldest, found.rules) == (True, False, "TLSv1.3", "RULE:a/b/")
    assert config.warnings == []


def test_certificates_of_clients_with_a_login() -> None:
    """If this fails, a listener with SASL_SSL demands certificates where Kafka does not (KIP-684), or does not."""
    both = BrokerConfig.from_properties({**WITH_SASL, "ssl.client.auth": "required"})
    assert (both.tls.listeners["SASL_SSL"].asks, both.tls.listeners["SASL_SSL"].rules) == (False, "")
    own = BrokerConfig.from_properties({**WITH_SASL, "listener.name.sasl_ssl.ssl.client.auth": "required"})
    assert own.tls.listeners["SASL_SSL"].requires


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.enabled.protocols": "", "ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        # The enabled ones count, as in Java.
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, ("TLSv1.3", "TLSv1.3")),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ("TLSv1.2", "TLSv1.2")),
    ],
)
def test_versions(settings: dict[str, str], versions: tuple[str, str]) -> None:
    """If this fails, an older version is accepted than is configured."""
    found = BrokerConfig.from_properties({**BASE, **settings}).tls.listeners["SSL"]
    assert (found.oldest, found.newest) == versions


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not supported"),
        ({"ssl.protocol": "SSLv3"}, "SSLv3 is not supported"),
        (
            {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            "no suite of the versions",
        ),
        ({"ssl.keystore.type": "BKS"}, "not supported"),
        ({"ssl.principal.mapping.rules": "RULE:(/a/"}, "Invalid rule"),
        ({"ssl.engine.factory.class": "a.B"}, "cannot run here, and it decides"),
        ({"ssl.provider": "a"}, "chooses cryptography of Java"),
    ],
)
def test_what_would_not_protect_is_refused(settings: dict[str, str], message: str) -> None:
    """If this fails, a broker starts with less protection than is configured."""
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.from_properties({**BASE, **settings})


def without(*names: str) -> dict[str, str]:
    return {name: text for name, text in BASE.items() if name not in names}


def test_what_is_missing_is_named() -> None:
    """If this fails, every certificate that the machine trusts opens the broker, or no client can connect."""
    with pytest.raises(ConfigError, match="SSL needs a key and a certificate"):
        BrokerConfig.from_properties(without("ssl.keystore.location", "ssl.keystore.password"))
    with pytest.raises(ConfigError, match=r"needs ssl\.truststore\.location"):
        BrokerConfig.from_properties(
            {**without("ssl.truststore.location", "ssl.truststore.password"), "ssl.client.auth": "required"}
        )


def test_between_nodes() -> None:
    """If this fails, nodes connect to each other without TLS, or do not verify their peers."""
    config = BrokerConfig.from_properties(
        {
            **BASE,
            "inter.broker.listener.name": "SSL",
            "listener.name.ssl.ssl.endpoint.identification.algorithm": "",
            "listener.security.protocol.map": "SSL:SSL,OPEN:PLAINTEXT,CONTROLLER:SSL",
            "listener.name.controller.ssl.truststore.location": "/keys/other.jks",
        }
    )
    brokers, controllers = config.tls.to_brokers, config.tls.to_controllers
    assert brokers is not None
    assert controllers is not None
    assert (brokers.checks_host, controllers.checks_host) == (False, True)
    assert brokers.stores.truststore_location == "/keys/trust.jks"
    assert controllers.stores.truststore_location == "/keys/other.jks"
    assert config.warnings == []
    assert BrokerConfig.from_properties(BASE).tls.to_brokers is None
    with pytest.raises(ConfigError, match="is not supported: use https"):
        BrokerConfig.from_properties(
            {**BASE, "inter.broker.listener.name": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}
        )


def test_settings_of_no_listener_are_reported() -> None:
    """If this fails, an operator believes that a listener is protected that is not."""
    settings = {"listeners": "OPEN://:9091,SSL://:9092", "listener.name.open.ssl.client.auth": "required"}
    found = BrokerConfig.from_properties({**BASE, **settings}).warnings
    assert [event.fields["settings"] for event in found] == ["listener.name.open.ssl.client.auth"]
    found = BrokerConfig.from_properties({**BASE, "listeners": "OPEN://:9091"}).warnings
    (event,) = found
    assert set(str(event.fields["settings"]).split(", ")) == {name for name in BASE if name.startswith("ssl.")}
    assert "secret" not in str(found)


def test_what_changes_while_the_broker_runs() -> None:
    """If this fails, a change seems to be accepted and has no effect, or a certificate cannot be exchanged."""
    config = BrokerConfig.from_properties({**BASE, "listener.name.ssl.ssl.client.auth": "required"})
    name = "listener.name.ssl.ssl.keystore.location"
    found = config.validate_dynamic({name: "/new.jks"}, per_broker=True)
    assert found.tls.listeners["SSL"].stores.keystore_location == "/new.jks"
    changed: list[frozenset[str]] = []
    config.on_change(changed.append, TLS_STORES)
    config.apply_dynamic({name: "/new.jks"}, {})
    assert len(changed) == 1
    assert config.tls.listeners["SSL"].stores.keystore_location == "/new.jks"
    for other in (
        "ssl.keystore.location",
        "listener.name.ssl.ssl.client.auth",
        "listener.name.open.ssl.keystore.location",
        "listener.name.controller.ssl.keystore.location",
        "listener.name.nobody.ssl.keystore.location",
    ):
        with pytest.raises(ConfigError):
            config.validate_dynamic({other: "required"}, per_broker=True)
    with pytest.raises(ConfigError, match="default cluster level"):
        config.validate_dynamic({name: "/new.jks"}, per_broker=False)
