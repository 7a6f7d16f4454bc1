"""The settings of groups and offsets: those of the broker, and those of one group.

A machine gets the broker's settings as a value, which is replaced when a dynamic setting changes. The settings of a
group (resource GROUP) are part of the committed metadata. Both take effect with the next request of a member.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from broker_cy.config.definitions import BROKER
from broker_cy.config.group import effective_group_settings, group_bounds
from broker_cy.core.classes import NamedTuple

_KAFKAS_LIMITS: Final[Mapping[str, Any]] = MappingProxyType(
    group_bounds({name: setting.default for name, setting in BROKER.items()})
)


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which non-empty groups change between the classic and the consumer protocol.
    The values are (name, classic to consumer, consumer to classic).
    """

    BIDIRECTIONAL = ("bidirectional", True, True)
    UPGRADE = ("upgrade", True, False)
    DOWNGRADE = ("downgrade", False, True)
    DISABLED = ("disabled", False, False)

    @classmethod
    def parse(cls, text: str) -> MigrationPolicy:
        """Names are compared case-insensitively; the text is valid."""
        return next(policy for policy in cls if policy.value[0] == text.lower())

    @property
    def is_upgrade_enabled(self) -> bool:
        return self.value[1]

    @property
    def is_downgrade_enabled(self) -> bool:
        return self.value[2]


class ConsumerGroupSettings(NamedTuple):
    """The broker's settings of consumer groups. Defaults are Kafka's."""

    max_size: int = 2147483647
    """`group.consumer.max.size`: members of one group; further ones get GROUP_MAX_SIZE_REACHED."""
    assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`: the names that members may ask for; the first one is the default."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`: how often the topics of regular expressions are looked up again."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """For groups without settings of their own: `group.consumer.session.timeout.ms` and so on."""
    assigned_at_once_max: int = 500
    """Subscriptions of members and partitions of a group that is assigned at once, which takes about 5 ms; a larger one
    is assigned in the background. Not a setting of the broker.
    """

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ConsumerGroupSettings:
        return cls(
            max_size=config["group.consumer.max.size"],
            assignors=tuple(config["group.consumer.assignors"]),
            migration_policy=MigrationPolicy.parse(config["group.consumer.migration.policy"]),
            regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
            session_timeout_ms=config["group.consumer.session.timeout.ms"],
            heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
            assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
        )


class ConsumerGroupConfig(NamedTuple):
    """The settings of one consumer group."""

    session_timeout_ms: int
    """How long a member may send nothing."""
    heartbeat_interval_ms: int
    """How often members send heartbeats: part of each answer."""
    assignment_interval_ms: int
    """How long an assignment stays at least; members that come meanwhile share the next one."""


class ShareGroupSettings(NamedTuple):
    """The broker's settings of the membership of share groups. Defaults are Kafka's."""

    max_size: int = 200
    """`group.share.max.size`: members of one group; further ones get GROUP_MAX_SIZE_REACHED."""
    assignors: tuple[str, ...] = ("simple",)
    """`group.share.assignors`: the first one assigns the partitions."""
    initialize_retry_interval_ms: int = 30_000
    """`group.share.initialize.retry.interval.ms`: when state that was requested, and is not there, is requested again;
    at least `offsets.commit.timeout.ms`.
    """
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """For groups without settings of their own: `group.share.session.timeout.ms` and so on."""
    assigned_at_once_max: int = 500
    """Subscriptions of members and initialized partitions of a group that is assigned at once, which takes about 3 ms;
    a larger one is assigned in the background. Not a setting of the broker.
    """

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ShareGroupSettings:
        return cls(
            max_size=config["group.share.max.size"],
            assignors=tuple(config["group.share.assignors"]),
            initialize_retry_interval_ms=max(
                config["group.share.initialize.retry.interval.ms"], config["offsets.commit.timeout.ms"]
            ),
            session_timeout_ms=config["group.share.session.timeout.ms"],
            heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
            assignment_interval_ms=config["group.share.assignment.interval.ms"],
        )


class ShareGroupConfig(NamedTuple):
    """The settings of the membership of one share group."""

    session_timeout_ms: int
    """How long a member may send nothing."""
    heartbeat_interval_ms: int
    """How often members send heartbeats: part of each answer."""
    assignment_interval_ms: int
    """How long an assignment stays at least; members that come meanwhile share the next one."""


class StreamsGroupSettings(NamedTuple):
    """The broker's settings of streams groups. Defaults are Kafka's."""

    max_size: int = 2147483647
    """`group.streams.max.size`: members of one group; further ones get GROUP_MAX_SIZE_REACHED."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    standby_replicas: int = 0
    """For groups without settings of their own: `group.streams.session.timeout.ms` and so on."""
    assigned_at_once_max: int = 400
    """Members, tasks and copies of tasks of a group that is assigned at once, which takes about 5 ms; a larger one is
    assigned in the background. Not a setting of the broker.
    """

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> StreamsGroupSettings:
        return cls(
            max_size=config["group.streams.max.size"],
            session_timeout_ms=config["group.streams.session.timeout.ms"],
            heartbeat_interval_ms=config["group.streams.heartbeat.interval.ms"],
            assignment_interval_ms=config["group.streams.assignment.interval.ms"],
            initial_rebalance_delay_ms=config["group.streams.initial.rebalance.delay.ms"],
            standby_replicas=config["group.streams.num.standby.replicas"],
        )


class StreamsGroupConfig(NamedTuple):
    """The settings of one streams group."""

    session_timeout_ms: int
    """How long a member may send nothing."""
    heartbeat_interval_ms: int
    """How often members send heartbeats: part of each answer."""
    assignment_interval_ms: int
    """How long an assignment stays at least; members that come meanwhile share the next one."""
    initial_rebalance_delay_ms: int
    """How long the first assignment of an empty group waits for more members."""
    standby_replicas: int
    """How many copies of its state each stateful task has besides its own."""


class GroupSettings(NamedTuple):
    """Defaults are Kafka's. Each field names the broker setting it stands for."""

    group_max_size: int = 2147483647
    """`group.max.size`: members of one group; further joins get GROUP_MAX_SIZE_REACHED."""
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    """`group.min.session.timeout.ms`, `group.max.session.timeout.ms`: the allowed range of a JoinGroup."""
    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for more members; each new one prolongs it."""
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    """`offsets.retention.minutes`."""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`."""
    offset_metadata_max: int = 4096
    """`offset.metadata.max.bytes`, counted in UTF-16 units as Kafka does."""
    offsets_topic_compression_codec: int = 0
    """`offsets.topic.compression.codec`."""
    offsets_commit_timeout_ms: int = 5_000
    """`offsets.commit.timeout.ms`: how long a request waits until its records are committed."""
    consumer: ConsumerGroupSettings = ConsumerGroupSettings()
    share: ShareGroupSettings = ShareGroupSettings()
    streams: StreamsGroupSettings = StreamsGroupSettings()
    limits: Mapping[str, Any] = _KAFKAS_LIMITS
    """The broker's settings that are defaults or limits of the settings of one group, by Kafka's names."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> GroupSettings:
        """From broker settings by their Kafka names, already typed and validated."""
        return cls(
            group_max_size=config["group.max.size"],
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            offset_metadata_max=config["offset.metadata.max.bytes"],
            offsets_topic_compression_codec=config["offsets.topic.compression.codec"],
            offsets_commit_timeout_ms=config["offsets.commit.timeout.ms"],
            consumer=ConsumerGroupSettings.from_config(config),
            share=ShareGroupSettings.from_config(config),
            streams=StreamsGroupSettings.from_config(config),
            limits=MappingProxyType(group_bounds(config)),
        )

    def consumer_config(self, overrides: Mapping[str, str]) -> ConsumerGroupConfig:
        """The settings of a consumer group with these settings of its own."""
        if not overrides:
            consumer = self.consumer
            return ConsumerGroupConfig(
                consumer.session_timeout_ms, consumer.heartbeat_interval_ms, consumer.assignment_interval_ms
            )
        values = effective_group_settings(overrides, self.limits)
        return ConsumerGroupConfig(
            values["consumer.session.timeout.ms"],
            values["consumer.heartbeat.interval.ms"],
            values["consumer.assignment.interval.ms"],
        )

    def share_config(self, overrides: Mapping[str, str]) -> ShareGroupConfig:
        """The settings of a share group with these settings of its own."""
        if not overrides:
            share = self.share
            return ShareGroupConfig(share.session_timeout_ms, share.heartbeat_interval_ms, share.assignment_interval_ms)
        values = effective_group_settings(overrides, self.limits)
        return ShareGroupConfig(
            values["share.session.timeout.ms"],
            values["share.heartbeat.interval.ms"],
            values["share.assignment.interval.ms"],
        )

    def streams_config(self, overrides: Mapping[str, str]) -> StreamsGroupConfig:
        """The settings of a streams group with these settings of its own."""
        if not overrides:
            streams = self.streams
            return StreamsGroupConfig(
                streams.session_timeout_ms,
                streams.heartbeat_interval_ms,
                streams.assignment_interval_ms,
                streams.initial_rebalance_delay_ms,
                streams.standby_replicas,
            )
        values = effective_group_settings(overrides, self.limits)
        return StreamsGroupConfig(
            values["streams.session.timeout.ms"],
            values["streams.heartbeat.interval.ms"],
            values["streams.assignment.interval.ms"],
            values["streams.initial.rebalance.delay.ms"],
            values["streams.num.standby.replicas"],
        )
