"""The settings of the share groups whose records this broker serves: those of the broker, and those of one group.

The settings of a group (resource GROUP) are part of the committed metadata, and take effect with the next fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from broker_cy.config.group import effective_group_settings, group_bounds
from broker_cy.core.classes import NamedTuple

READ_COMMITTED: Final = "read_committed"


class ShareGroupConfig(NamedTuple):
    """The settings of one share group."""

    lock_ms: int
    """How long an acquired record is locked."""
    delivery_limit: int
    """How often a record is delivered at most."""
    records_max: int
    """How many records of one partition may be in flight."""
    is_renew_enabled: bool
    offset_reset: str
    """Where the group begins a partition without a state: latest, earliest, or by_duration:PnDTnHnMn.nS."""
    is_read_committed: bool


class ShareSettings(NamedTuple):
    """The broker's settings of share groups."""

    sessions_max: int
    """`group.share.max.share.sessions`."""
    limits: Mapping[str, Any]
    """The broker's settings that are defaults or limits of the settings of one group, by Kafka's names."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ShareSettings:
        return cls(config["group.share.max.share.sessions"], MappingProxyType(group_bounds(config)))

    def of_group(self, overrides: Mapping[str, str]) -> ShareGroupConfig:
        """Return the settings of a share group with these settings of its own."""
        values = effective_group_settings(overrides, self.limits)
        return ShareGroupConfig(
            values["share.record.lock.duration.ms"],
            values["share.delivery.count.limit"],
            values["share.partition.max.record.locks"],
            values["share.renew.acknowledge.enable"],
            values["share.auto.offset.reset"],
            values["share.isolation.level"] == READ_COMMITTED,
        )
