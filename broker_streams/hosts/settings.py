"""The settings of a host, by Kafka Streams' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker_cy.core.java_duration import duration_ms
from broker_streams.hosts.announced import DAY_MS
from broker_streams.kernel.settings import TaskSettings
from broker_streams.state.directory import default_root

EXACTLY_ONCE: Final = "exactly_once_v2"
AT_LEAST_ONCE: Final = "at_least_once"
TOPIC_PREFIX: Final = "topic."
# Values of auto.offset.reset, besides earliest.
LATEST: Final = "latest"
NO_RESET: Final = "none"
BY_DURATION: Final = "by_duration:"
# Kafka's defaults of commit.interval.ms.
COMMIT_MS: Final = {EXACTLY_ONCE: 100, AT_LEAST_ONCE: 30_000}


@dataclass(frozen=True)
class HostSettings:
    """`guarantee` is exactly_once_v2 by default, other than in Kafka: nothing is written twice after a failure."""

    task: TaskSettings
    guarantee: str = EXACTLY_ONCE
    commit_interval_ms: int = COMMIT_MS[EXACTLY_ONCE]
    # earliest, latest, none or by_duration:PT1H; sources may say otherwise.
    offset_reset: str = "earliest"
    replication_factor: int = -1
    topic_config: Mapping[str, str] = field(default_factory=dict)
    additional_retention_ms: int = DAY_MS
    rebalance_timeout_ms: int = 300_000
    # An open transaction keeps readers of committed records waiting so long, if its host is gone.
    transaction_timeout_ms: int = 10_000
    instance_id: str | None = None
    rack: str | None = None
    # application.server
    endpoint: str = ""
    client_tags: Mapping[str, str] = field(default_factory=dict)
    repartition_purge_ms: int = 30_000
    # state.dir, and whether it was set.
    state_dir: str = field(default_factory=lambda: str(default_root()))
    is_state_dir_given: bool = False
    state_cleanup_delay_ms: int = 600_000
    # brokercy.streams.state.buffer.bytes: about the memory of changed rows of all tasks before they go to their files.
    state_buffer_bytes: int = 64 << 20
    # brokercy.streams.snapshot.dir, .interval.ms and .count; "": no snapshots.
    snapshot_dir: str = ""
    snapshot_interval_ms: int = 600_000
    snapshot_count: int = 2

    @property
    def application_id(self) -> str:
        return self.task.application_id

    @property
    def is_exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE

    @staticmethod
    def of(config: Mapping[str, Any]) -> HostSettings:
        """Raises ValueError, which names the setting, its value and what is allowed."""
        guarantee = _one_of(config, "processing.guarantee", EXACTLY_ONCE, (EXACTLY_ONCE, AT_LEAST_ONCE))
        return HostSettings(
            task=TaskSettings.of(config),
            guarantee=guarantee,
            commit_interval_ms=_number(config, "commit.interval.ms", COMMIT_MS[guarantee], 0),
            offset_reset=_reset(config.get("auto.offset.reset")),
            replication_factor=_number(config, "replication.factor", -1, -1),
            topic_config={
                name.removeprefix(TOPIC_PREFIX): str(value)
                for name, value in config.items()
                if name.startswith(TOPIC_PREFIX) and value is not None
            },
            additional_retention_ms=_number(
                config, "windowstore.changelog.additional.retention.ms", HostSettings.additional_retention_ms, 0
            ),
            rebalance_timeout_ms=_number(config, "max.poll.interval.ms", HostSettings.rebalance_timeout_ms, 1),
            transaction_timeout_ms=_number(config, "transaction.timeout.ms", HostSettings.transaction_timeout_ms, 1),
            instance_id=config.get("group.instance.id"),
            rack=config.get("client.rack"),
            endpoint=str(config.get("application.server") or ""),
            client_tags={
                name.removeprefix("client.tag."): str(value)
                for name, value in config.items()
                if name.startswith("client.tag.")
            },
            repartition_purge_ms=_number(config, "repartition.purge.interval.ms", HostSettings.repartition_purge_ms, 1),
            state_dir=str(config.get("state.dir") or default_root()),
            is_state_dir_given=bool(config.get("state.dir")),
            state_cleanup_delay_ms=_number(config, "state.cleanup.delay.ms", HostSettings.state_cleanup_delay_ms, 0),
            state_buffer_bytes=_number(
                config, "brokercy.streams.state.buffer.bytes", HostSettings.state_buffer_bytes, 0
            ),
            snapshot_dir=str(config.get("brokercy.streams.snapshot.dir") or ""),
            snapshot_interval_ms=_number(
                config, "brokercy.streams.snapshot.interval.ms", HostSettings.snapshot_interval_ms, 1
            ),
            snapshot_count=_number(config, "brokercy.streams.snapshot.count", HostSettings.snapshot_count, 1),
        )


def _reset(given: Any) -> str:
    text = "earliest" if given is None else str(given)
    try:
        if text.startswith(BY_DURATION):
            duration_ms(text.removeprefix(BY_DURATION))
        elif text not in ("earliest", LATEST, NO_RESET):
            raise ValueError(text)
    except ValueError:
        allowed = f"earliest, {LATEST}, {NO_RESET}, {BY_DURATION}PT1H"
        raise ValueError(f"auto.offset.reset is {given!r}; allowed are {allowed}") from None
    return text


def _number(config: Mapping[str, Any], name: str, default: int, least: int) -> int:
    given = config.get(name)
    if given is None:
        return default
    try:
        found = int(given)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {given!r}, which is no whole number") from None
    if found < least:
        raise ValueError(f"{name} is {found}; at least {least} is allowed")
    return found


def _one_of(config: Mapping[str, Any], name: str, default: str, allowed: tuple[str, ...]) -> str:
    given = config.get(name, default)
    if given not in allowed:
        raise ValueError(f"{name} is {given!r}; allowed are {', '.join(allowed)}")
    return str(given)
