"""Clusters as tests need them: responses of three brokers instead of those of the real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from uuid import UUID

from broker_cy.admin.caller import Outcome
from broker_cy.admin.cluster import BrokerInfo, ClusterDescription
from broker_cy.admin.log_dirs import LogDir, ReplicaOnDisk
from broker_cy.admin.metadata import PartitionInfo, TopicInfo
from broker_cy.client.errors import ClientError
from tests.dashboard.support import Desk


def plant(desk: Desk, feed: str, value: Any) -> None:
    """Let a feed of the session answer with `value`, or fail with it if it is an error. Call it before any channel."""

    async def fetch() -> Any:
        if isinstance(value, ClientError):
            raise value
        return value

    fetched: Callable[[], Awaitable[Any]] = fetch
    planted = desk.hub.session._feeds.get(feed, fetched, 0.05)
    assert planted.value is None, f"{feed} was requested already"


def topic_of(name: str, *partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> TopicInfo:
    """Return a topic with (leader, replicas, in-sync replicas) of each partition."""
    return TopicInfo(
        name,
        UUID(int=0),
        False,
        tuple(
            PartitionInfo(at, leader, 1, replicas, sync, ()) for at, (leader, replicas, sync) in enumerate(partitions)
        ),
    )


def cluster_of(*brokers: int, fenced: Iterable[int] = ()) -> ClusterDescription:
    away = set(fenced)
    return ClusterDescription(
        "id",
        brokers[0],
        tuple(BrokerInfo(each, f"host-{each}", 9092, f"rack-{each}", each in away) for each in brokers),
    )


def log_dirs_of(
    sizes: dict[int, dict[tuple[str, int], int]], failed: dict[int, ClientError] | None = None
) -> Outcome[int, tuple[LogDir, ...]]:
    """Return one directory of each broker, with the bytes of its replicas by topic and partition."""
    found: dict[int, tuple[LogDir, ...]] = {
        broker: (
            LogDir(broker, f"/data-{broker}", "", 1_000, 50 * broker, False,
                   tuple(sorted(ReplicaOnDisk(*key, size, 0, False) for key, size in replicas.items()))),
        )
        for broker, replicas in sizes.items()
    }  # fmt: skip
    return Outcome(found, failed or {})
