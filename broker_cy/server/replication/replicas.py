"""The fetchers of a broker: for each leader, one for partitions that keep up, and one for partitions that are far
behind.

A replica that is being copied fills answers of megabytes. Replicas that acks=all waits for are not queued behind them:
they have a connection and a session of their own. A partition begins among those that keep up. It is far behind if it
is not in sync, and an answer has as many bytes of it as one may have (replica.fetch.max.bytes). It catches up when it
is in sync, or when an answer brings all records that the leader has committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.replica import following
from broker_cy.server.replication.fetcher import Follower, Lane, LeaderFetcher

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta
    from broker_cy.replica.partition import Partition
    from broker_cy.server.replication.fetch_session import Fetched

NO_LEADER = -1


class Replicas:
    """Gives each following partition to a fetcher of its leader (partitions.partition_service.Replication)."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._fetchers: dict[Lane, LeaderFetcher] = {}
        self._lanes: dict[Partition, Lane] = {}

    def follow(self, partition: Partition, leader: int) -> None:
        """Fetch the partition from the broker `leader` from now on; -1 without a leader."""
        self.leave(partition)
        if leader != NO_LEADER:
            self._fetch(partition, Lane(leader, is_far_behind=False))

    def _fetch(self, partition: Partition, lane: Lane) -> None:
        self._lanes[partition] = lane
        if lane not in self._fetchers:
            self._fetchers[lane] = LeaderFetcher(self._follower, lane, self._misplaced)
        self._fetchers[lane].add(partition)

    def leave(self, partition: Partition) -> None:
        """Stop fetching the partition. A fetcher without partitions ends with its connection."""
        lane = self._lanes.pop(partition, None)
        if lane is None:
            return
        fetcher = self._fetchers[lane]
        fetcher.remove(partition)
        if fetcher.is_idle:
            del self._fetchers[lane]
            fetcher.close()

    def _misplaced(self, found: Fetched) -> None:
        """See LeaderFetcher."""
        partition = found.partition
        lane = self._lanes.get(partition)
        if lane is None:
            return
        is_in_sync = partition.assigned is not None and self._follower.node_id in partition.assigned.isr
        if lane.is_far_behind:
            is_moved = is_in_sync or following.has_all(partition.replica, found.high_watermark)
        else:
            is_moved = not is_in_sync
        if is_moved:
            self.leave(partition)
            self._fetch(partition, lane._replace(is_far_behind=not lane.is_far_behind))

    def apply(self, delta: ImageDelta) -> None:
        """Brokers that have registered, or are served again, may be reached now."""
        registered = set(delta.brokers)
        for lane, fetcher in self._fetchers.items():
            if lane.leader_id in registered:
                fetcher.wake()

    def close(self) -> None:
        """End all fetchers."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._lanes.clear()
