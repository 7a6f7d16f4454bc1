"""The settings of groups and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


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
        )
