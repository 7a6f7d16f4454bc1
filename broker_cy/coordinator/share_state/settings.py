"""The settings of the share coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.core.classes import NamedTuple


class ShareStateSettings(NamedTuple):
    """Defaults are Kafka's. Each field names the broker setting it stands for."""

    updates_per_snapshot: int = 500
    """`share.coordinator.snapshot.update.records.per.snapshot`: ShareUpdate records of a share partition between two
    snapshots.
    """
    cold_snapshot_interval_ms: int = 300_000
    """`share.coordinator.cold.partition.snapshot.interval.ms`: how often old snapshots are written again, and the age
    from which on they are.
    """
    prune_interval_ms: int = 300_000
    """`share.coordinator.state.topic.prune.interval.ms`: how often redundant records are deleted."""
    write_timeout_ms: int = 5_000
    """`share.coordinator.write.timeout.ms`: how long a request waits until its records are committed."""
    compression_codec: int = 0
    """`share.coordinator.state.topic.compression.codec`."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ShareStateSettings:
        """From broker settings by their Kafka names, already typed and validated."""
        return cls(
            updates_per_snapshot=config["share.coordinator.snapshot.update.records.per.snapshot"],
            cold_snapshot_interval_ms=config["share.coordinator.cold.partition.snapshot.interval.ms"],
            prune_interval_ms=config["share.coordinator.state.topic.prune.interval.ms"],
            write_timeout_ms=config["share.coordinator.write.timeout.ms"],
            compression_codec=config["share.coordinator.state.topic.compression.codec"],
        )
