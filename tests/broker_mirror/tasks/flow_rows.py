"""A flow A->B with settings, and values of plans in short, for rows of tests."""

from __future__ import annotations

from broker_cy.admin.configs import ConfigEntry
from broker_cy.core.configs import ConfigSource, ConfigType
from broker_mirror.config import parse_config
from broker_mirror.flows import Flow, flows_of

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def flow_of(**more: str) -> Flow:
    """The flow A->B; `__` in a name stands for a dot."""
    given = {name.replace("__", "."): text for name, text in more.items()}
    return flows(**given)[0]


def flows(**given: str) -> tuple[Flow, ...]:
    """The flows A->B and, if it is enabled, B->A."""
    base = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}
    base["emit.heartbeats.enabled"] = "false"
    return flows_of(parse_config({**base, **given}, "f"))


def entry(
    name: str,
    value: str | None,
    source: ConfigSource = ConfigSource.DYNAMIC_TOPIC_CONFIG,
    *,
    read_only: bool = False,
    sensitive: bool = False,
) -> ConfigEntry:
    return ConfigEntry(name, value, source, read_only, sensitive, ConfigType.STRING, (), None)
