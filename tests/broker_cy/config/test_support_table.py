"""The column `support` is correct: some code reads each setting that is marked as effective."""

from __future__ import annotations

from pathlib import Path

from broker_cy.config import tls
from broker_cy.config.definitions import BROKER, GROUP, TOPIC, TOPIC_SYNONYMS, Support

ROOT = Path(__file__).parents[3] / "broker_cy"

# Read in config/, which provides them as typed attributes of BrokerConfig, or in another form.
BY_ATTRIBUTE = tls.NAMES | {
    "advertised.listeners",
    "authorizer.class.name",
    "broker.id",
    "connections.max.reauth.ms",
    "controller.listener.names",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "brokercy.automatic.config.providers",
    "brokercy.config.strict",
    "brokercy.sasl.oauthbearer.allowed.urls",
    "config.providers",
    "delegation.token.secret.key",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "max.connections.per.ip.overrides",
    "node.id",
    "process.roles",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.server.max.receive.size",
    "security.inter.broker.protocol",
}


# The limits of the settings of consumer and share groups, which config/ compares.
BY_ATTRIBUTE |= {
    f"group.{kind}.{limit}.{name}"
    for kind in ("consumer", "share", "streams")
    for limit in ("min", "max")
    for name in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
}
BY_ATTRIBUTE |= {"group.streams.max.standby.replicas"}
# The defaults and the limits of settings of share groups that the leaders of partitions use.
BY_ATTRIBUTE |= {
    f"group.share.{limit}{name}"
    for limit in ("", "min.", "max.")
    for name in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
}

# Definitions, and the clients that show and change settings of any broker.
ELSEWHERE = {"config", "admin", "commands", "console"}


def source() -> str:
    files = [*ROOT.rglob("*.py"), *ROOT.rglob("*.pyx")]
    return "\n".join(file.read_text() for file in files if file.relative_to(ROOT).parts[0] not in ELSEWHERE)


def unread() -> set[str]:
    text = source()
    topic = {name for name in TOPIC if f'"{name}"' in text}
    by_topic = {synonym.name for name in topic for synonym in TOPIC_SYNONYMS[name]}
    effective = {name for name, setting in BROKER.items() if setting.support is Support.EFFECTIVE}
    return {name for name in effective - BY_ATTRIBUTE - by_topic if f'"{name}"' not in text}


def test_effective_settings_are_read() -> None:
    """A setting marked as effective that no code reads would be accepted and silently ignored."""
    assert unread() == set()


def test_settings_that_are_read_are_not_called_inert() -> None:
    """If this fails, records are deleted by a setting that has no effect according to the log."""
    text = source()
    inert = {name for name, setting in {**BROKER, **TOPIC, **GROUP}.items() if setting.support is Support.INERT}
    assert {name for name in inert if f'"{name}"' in text} == set()


def test_topic_settings_agree_with_the_broker() -> None:
    """A broker's default for a topic setting has an effect exactly if the topic's setting has one."""
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            assert BROKER[synonym.name].support is TOPIC[name].support, (name, synonym.name)
