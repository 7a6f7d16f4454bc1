"""The settings of SASL: a server.properties of Kafka with SASL works, and settings that would not protect are
rejected.
"""

from __future__ import annotations

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.sasl.exchange import Login
from broker_cy.security.sasl.oauthbearer import TokenEndpoint

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
P = "listener.name.sasl_plaintext."
BASE = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    f"{P}plain.sasl.jaas.config": f'{PLAIN} required user_alice="a-secret";',
    f"{P}scram-sha-512.sasl.jaas.config": f'{SCRAM} required username="admin" password="b-secret";',
}


def test_a_secured_file_of_kafka() -> None:
    """If this fails, a broker does not start with settings that Kafka accepts, or serves every client."""
    config = BrokerConfig.from_properties(BASE)
    (name,) = config.sasl.listeners
    found = config.sasl.listeners[name]
    assert (name, found.mechanisms) == ("SASL_PLAINTEXT", ("PLAIN", "SCRAM-SHA-512"))
    assert found.users.by_user == {"alice": "a-secret"}
    assert found.receive_bytes_max == 524_288
    assert isinstance(config.sasl.to_brokers, Login)
    assert (config.sasl.to_brokers.user, config.sasl.to_brokers.mechanism) == ("admin", "SCRAM-SHA-512")
    assert config.sasl.to_controllers is None
    assert config.warnings == []
    assert "secret" not in repr(config.sasl)


def test_settings_of_a_listener_replace_the_others() -> None:
    """If this fails, the limits of one listener are those of another."""
    config = BrokerConfig.from_properties(
        {
            **BASE,
            "listeners": "SASL_PLAINTEXT://:9092,EXTERNAL://:9093",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,EXTERNAL:SASL_PLAINTEXT",
            "connections.max.reauth.ms": "1000",
            "sasl.server.max.receive.size": "1001",
            "listener.name.external.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.external.plain.sasl.jaas.config": f"{PLAIN} required;",
            "listener.name.external.sasl.server.max.receive.size": "1002",
            "listener.name.external.connections.max.reauth.ms": "1003",
            f"{P}plain.connections.max.reauth.ms": "1004",
        }
    )
    inner, outer = config.sasl.listeners["SASL_PLAINTEXT"], config.sasl.listeners["EXTERNAL"]
    assert (outer.mechanisms, outer.receive_bytes_max, outer.lifetime_ms) == (("PLAIN",), 1_002, {"PLAIN": 1_003})
    assert (inner.receive_bytes_max, inner.lifetime_ms) == (1_001, {"PLAIN": 1_004, "SCRAM-SHA-512": 1_000})
    assert not outer.users.by_user


def test_controllers() -> None:
    """If this fails, a node does not know how to log in at controllers that want it."""
    config = BrokerConfig.from_properties(
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://:9092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "a:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required username="admin" password="x";',
        }
    )
    assert isinstance(config.sasl.to_controllers, Login)
    assert config.sasl.to_controllers.user == "admin"
    assert config.sasl.to_brokers is None


OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JWKS, ALLOWED = "https://idp.example.com/keys", "brokercy.sasl.oauthbearer.allowed.urls"
TOKENS = "https://idp.example.com/token"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client."
LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
BY_TOKEN = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{P}oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required ;",
    f"{P}oauthbearer.sasl.login.callback.handler.class": LOGIN_HANDLER,
    "sasl.oauthbearer.jwks.endpoint.url": JWKS,
    ALLOWED: f"{JWKS},{TOKENS},file:///run/token",
    TOKEN_URL: TOKENS,
    f"{CLIENT}id": "broker",
    f"{CLIENT}secret": "a-secret",
}


def test_tokens_between_brokers() -> None:
    """If this fails, brokers whose only mechanism is OAUTHBEARER do not start, or send their secret to another place
    than the operator has named for this listener.
    """
    config = BrokerConfig.from_properties({**BY_TOKEN, f"{P}sasl.oauthbearer.scope": "kafka"})
    assert config.sasl.to_brokers == TokenEndpoint(TOKENS, "broker", "a-secret", "kafka")
    assert config.warnings == []
    assert "a-secret" not in repr(config.sasl)
    of_file = {name: text for name, text in BY_TOKEN.items() if not name.startswith(CLIENT)}
    config = BrokerConfig.from_properties({**of_file, f"{P}oauthbearer.{TOKEN_URL}": "file:///run/token"})
    assert config.sasl.to_brokers == TokenEndpoint("file:///run/token")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({TOKEN_URL: ""}, f"setting {TOKEN_URL} is needed"),
        ({ALLOWED: JWKS}, "the URL is not allowed"),
        ({TOKEN_URL: "file:///etc/passwd"}, "the URL is not allowed"),
        ({TOKEN_URL: "http://idp.example.com/token"}, "use https"),
        ({TOKEN_URL: "file:///run/token"}, "do not belong to a file"),
        ({f"{CLIENT}secret": ""}, f"needs {CLIENT}id and {CLIENT}secret"),
        ({f"{CLIENT}id": ""}, f"needs {CLIENT}id and {CLIENT}secret"),
        ({f"{P}oauthbearer.sasl.login.callback.handler.class": "x"}, "cannot run here, and it decides"),
        ({"sasl.login.callback.handler.class": LOGIN_HANDLER}, "cannot run here, and it decides"),
        (
            {f"{P}oauthbearer.sasl.jaas.config": f'{OAUTH_MODULE} required clientSecret="a-secret";'},
            "use the settings sasl.oauthbearer",
        ),
    ],
)
def test_tokens_between_brokers_that_are_refused(change: dict[str, str], error: str) -> None:
    """If this fails, anyone who can change settings can make a broker read any file or query any server
    (CVE-2025-27817), or the broker starts without the login that it needs.
    """
    with pytest.raises(ConfigError, match=error) as found:
        BrokerConfig.from_properties({**BY_TOKEN, **change})
    assert "a-secret" not in str(found.value)


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in BASE.items() if key != name}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (without("sasl.enabled.mechanisms"), "gssapi.sasl.jaas.config is needed"),
        (without(f"{P}plain.sasl.jaas.config"), f"setting {P}plain.sasl.jaas.config is needed"),
        (without(f"{P}scram-sha-512.sasl.jaas.config"), "scram-sha-512.sasl.jaas.config is needed"),
        (without("sasl.mechanism.inter.broker.protocol"), "must be included in sasl.enabled.mechanisms"),
        ({**BASE, "sasl.jaas.config": f"{PLAIN} required;"}, "must be prefixed with listener and mechanism"),
        ({**BASE, "sasl.enabled.mechanisms": "DIGEST-MD5"}, "DIGEST-MD5 is not supported: use GSSAPI"),
        (
            {**BASE, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER"},
            "oauthbearer.sasl.jaas.config is needed",
        ),
        ({**BASE, "sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms"),
        ({**BASE, "sasl.server.max.receive.size": "0"}, "it must be at least 1"),
        ({**BASE, f"{P}plain.sasl.jaas.config": f'{PLAIN} required user_alice="a-secret'}, "a quote is not closed"),
        (
            {**BASE, f"{P}plain.sasl.jaas.config": 'com.sun.security.auth.module.JndiLoginModule required a="b";'},
            "JndiLoginModule is not allowed",
        ),
        (
            {**BASE, f"{P}scram-sha-512.sasl.jaas.config": f"{SCRAM} required;"},
            "needs the options username and password",
        ),
        ({**BASE, f"{P}sasl.server.callback.handler.class": "x"}, "cannot run here, and it decides"),
        ({**BASE, f"{P}plain.sasl.server.callback.handler.class": "x"}, "cannot run here, and it decides"),
        (
            {**BASE, "listeners": "SASL_SSL://:9092", "security.inter.broker.protocol": "SASL_SSL"},
            r"jaas\.config is needed",
        ),
        (
            {**BASE, "listeners": "SASL_PLAINTEXT://:9092,CONTROLLER://:9093"},
            "No security protocol defined for listener CONTROLLER",
        ),
    ],
)
def test_what_would_not_protect_is_refused(settings: dict[str, str], error: str) -> None:
    """If this fails, a broker starts with a listener that rejects all clients, or accepts all."""
    with pytest.raises(ConfigError, match=error) as found:
        BrokerConfig.from_properties(settings)
    assert "a-secret" not in str(found.value)


@pytest.mark.parametrize(
    "name",
    ["sasl.enabled.mechanisms", f"{P}plain.sasl.jaas.config", f"{P}sasl.enabled.mechanisms", "sasl.jaas.config"],
)
def test_no_change_at_run_time_is_accepted(name: str) -> None:
    """If this fails, an operator believes that a user or a mechanism was removed, and it still works."""
    config = BrokerConfig.from_properties(BASE)
    text = f"{PLAIN} required;" if name.endswith("jaas.config") else "PLAIN"
    with pytest.raises(ConfigError, match="cannot be changed while the broker runs"):
        config.validate_dynamic({name: text}, per_broker=True)
    before = config.sasl
    assert config.apply_dynamic({name: text}, {}) == frozenset()
    assert config.sasl is before


CONTROLLER_ONLY = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,INNER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
OWN_LOGIN = {"listener.name.inner.plain.sasl.jaas.config": f'{PLAIN} required username="admin" password="b-secret";'}


@pytest.mark.parametrize(
    ("settings", "listener"),
    [
        ({}, ""),
        ({"inter.broker.listener.name": "inner"}, ""),
        ({"inter.broker.listener.name": "inner", **OWN_LOGIN}, "INNER"),
        ({"inter.broker.listener.name": "inner", **OWN_LOGIN, "sasl.mechanism.inter.broker.protocol": "GSSAPI"}, ""),
        ({"inter.broker.listener.name": "unknown", **OWN_LOGIN}, ""),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT"),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, ""),
    ],
)
def test_where_a_controller_sends_its_events(settings: dict[str, str], listener: str) -> None:
    """If this fails, the settings of one of Kafka's controllers prevent the start, or refusals go nowhere."""
    found = BrokerConfig.from_properties({**CONTROLLER_ONLY, **settings})
    assert found.network.to_brokers[0] == listener
    assert (found.sasl.to_brokers is not None) == (listener == "INNER")
    assert found.network.inter_broker == ""
