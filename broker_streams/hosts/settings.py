"""The settings of a host, by Kafka Streams' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker_streams import settings
from broker_streams.hosts.announced import DAY_MS
from broker_streams.kernel.settings import TaskSettings
from broker_streams.registry.opening import open_registry
from broker_streams.settings import Scope
from broker_streams.state.directory import default_root

EXACTLY_ONCE: Final = "exactly_once_v2"
AT_LEAST_ONCE: Final = "at_least_once"
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
    # How long tasks go on without progress, while the cluster does not answer.
    task_timeout_ms: int = 300_000
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

    # The name of connections; the application's id by default.
    client_id: str = ""
    # Records of open and aborted transactions are no inputs, also with at_least_once.
    reads_committed: bool = True

    @property
    def application_id(self) -> str:
        return self.task.application_id

    @property
    def is_exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE

    @staticmethod
    def of(config: Mapping[str, Any]) -> HostSettings:
        """Read the settings by Kafka's names, open the schema registry that they name, and warn of those without an
        effect. Raises ValueError, which names the setting, its value and what is allowed.
        """
        found = settings.read(config)
        settings.warn(found)
        task = TaskSettings.of(found, open_registry(found))
        guarantee = found.get("processing.guarantee")
        interval_ms = found.get("commit.interval.ms")
        return HostSettings(
            task=task,
            guarantee=guarantee,
            commit_interval_ms=COMMIT_MS[guarantee] if interval_ms is None else interval_ms,
            offset_reset=found.get("auto.offset.reset", Scope.CONSUMER),
            replication_factor=found.get("replication.factor"),
            topic_config=found.topic_config,
            additional_retention_ms=found.get("windowstore.changelog.additional.retention.ms"),
            rebalance_timeout_ms=found.get("max.poll.interval.ms", Scope.CONSUMER),
            transaction_timeout_ms=found.get("transaction.timeout.ms", Scope.PRODUCER),
            task_timeout_ms=found.get("task.timeout.ms"),
            rack=found.get("client.rack", Scope.CONSUMER),
            endpoint=found.get("application.server"),
            client_tags=found.client_tags,
            repartition_purge_ms=found.get("repartition.purge.interval.ms"),
            client_id=found.get("client.id") or task.application_id,
            reads_committed=guarantee == EXACTLY_ONCE
            or found.get("isolation.level", Scope.CONSUMER) == "read_committed",
            state_dir=found.get("state.dir") or str(default_root()),
            is_state_dir_given=bool(found.get("state.dir")),
            state_cleanup_delay_ms=found.get("state.cleanup.delay.ms"),
            state_buffer_bytes=found.get("brokercy.streams.state.buffer.bytes"),
            snapshot_dir=found.get("brokercy.streams.snapshot.dir") or "",
            snapshot_interval_ms=found.get("brokercy.streams.snapshot.interval.ms"),
            snapshot_count=found.get("brokercy.streams.snapshot.count"),
        )
