"""The definitions of all settings: the five tables beside this file, loaded once.

`broker_configs.tsv`, `topic_configs.tsv` and `group_configs.tsv` have the name, type, default and valid values of each
setting of Kafka 4.3.1, `own_configs.tsv` and `own_topic_configs.tsv` those of the settings that this broker has in
addition; those of topics have the names that Confluent Server gave them. The tables of broker settings have a column
`update`: whether a setting can be changed at run time. The column `support` states what this broker does with a
setting:

- `effective`: it changes the behaviour of the broker;
- `inert`: it is accepted, and a log line lists it because it has no effect yet;
- `refused`: any value but the default prevents the start, because ignoring it would be dangerous or misleading; the
  reason is in `foreign_configs.tsv`.

`findings` judges names that are not in these tables. `startup` makes further decisions in code (a second voter, an SSL
listener).
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.config_def.definitions import Definition, read_rows
from broker_cy.core.config_def.types import invalid
from broker_cy.core.config_def.validators import from_column
from broker_cy.core.configs import ConfigType


class Support(Enum):
    EFFECTIVE = "effective"
    INERT = "inert"
    REFUSED = "refused"


class UpdateMode(Enum):
    """Whether a running broker accepts a new value, and at which level."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True)
class Setting(Definition):
    """One row. `support` and `update` are its further columns."""

    support: Support
    update: UpdateMode

    def parse(self, text: str) -> Any:
        """Return the typed and validated value. Raises ConfigError with Kafka's message."""
        value = super().parse(text)
        # The broker has one class of each kind, its own.
        if self.type is ConfigType.CLASS and value != self.default:
            raise invalid(self.name, text, f"Class {text} could not be found.")
        return value


@dataclass(frozen=True)
class Synonym:
    """A broker setting that is a topic setting's fallback; its value times `factor` is the topic's (hours to ms)."""

    name: str
    factor: int


class GroupBounds(NamedTuple):
    """The broker settings that are a group setting's default and limits; empty without such settings."""

    default: str
    minimum: str
    maximum: str


def rows_of(file: str) -> list[dict[str, str]]:
    """The rows of a table beside this file, by the names of its columns."""
    return read_rows(Path(__file__).with_name(file))


def _setting(row: dict[str, str]) -> Setting:
    return Setting.from_row(
        row, support=Support(row.get("support", "inert")), update=UpdateMode(row.get("update", "cluster-wide"))
    )


def _synonyms(text: str) -> tuple[Synonym, ...]:
    found = []
    for part in text.split(",") if text else ():
        name, _, factor = part.partition("*")
        found.append(Synonym(name, int(factor or 1)))
    return tuple(found)


_OWN_TOPIC_ROWS = rows_of("own_topic_configs.tsv")
_TOPIC_ROWS = [*rows_of("topic_configs.tsv"), *_OWN_TOPIC_ROWS]
_GROUP_ROWS = rows_of("group_configs.tsv")

# Settings of this broker that Kafka does not have; a name begins with "brokercy.".
OWN: dict[str, Setting] = {row["name"]: _setting(row) for row in rows_of("own_configs.tsv")}
BROKER: dict[str, Setting] = {row["name"]: _setting(row) for row in rows_of("broker_configs.tsv")} | OWN
OWN_TOPIC = frozenset(row["name"] for row in _OWN_TOPIC_ROWS)
TOPIC: dict[str, Setting] = {row["name"]: _setting(row) for row in _TOPIC_ROWS}
GROUP: dict[str, Setting] = {row["name"]: _setting(row) for row in _GROUP_ROWS}

# ServerTopicConfigSynonyms: the first one that is set takes effect.
TOPIC_SYNONYMS: dict[str, tuple[Synonym, ...]] = {row["name"]: _synonyms(row["synonyms"]) for row in _TOPIC_ROWS}
GROUP_BOUNDS: dict[str, GroupBounds] = {
    row["name"]: GroupBounds(row["server_default"], row["server_min"], row["server_max"]) for row in _GROUP_ROWS
}
# The texts of the rows are no longer needed.
del _OWN_TOPIC_ROWS, _TOPIC_ROWS, _GROUP_ROWS

# Quotas that exist only as dynamic settings of a broker (QuotaConfig.brokerQuotaConfigs), in bytes per second. The last
# one limits copies between the directories of a broker.
_UNLIMITED = 2**63 - 1
BROKER_QUOTAS: dict[str, Setting] = {
    name: Setting(
        name,
        ConfigType.LONG,
        _UNLIMITED,
        False,
        from_column("[0,...]", ConfigType.LONG),
        None,
        Support.EFFECTIVE,
        UpdateMode.CLUSTER_WIDE,
    )
    for name in (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}

# Internal settings of Kafka that this broker reads. As in Kafka, they are neither documented nor described.
BROKER_INTERNAL: dict[str, Setting] = {
    name: Setting(
        name,
        ConfigType.INT,
        default,
        False,
        from_column(valid, ConfigType.INT),
        None,
        Support.EFFECTIVE,
        UpdateMode.READ_ONLY,
    )
    for name, default, valid in (
        ("group.consumer.regex.refresh.interval.ms", 600_000, "[10000,...]"),
        ("group.share.initialize.retry.interval.ms", 30_000, "[1,...]"),
        ("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, "[1,...]"),
        ("share.coordinator.state.topic.prune.interval.ms", 300_000, "[1,...]"),
    )
}

# Settings that Kafka has but does not document; they are harmless in a file.
INTERNAL = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
