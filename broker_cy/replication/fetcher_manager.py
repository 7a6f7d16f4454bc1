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
from broker_cy.replication.fetcher import FetcherId, Follower, LeaderFetcher

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta
    from broker_cy.replica.partition import Partition
    from broker_cy.replication.fetch_session_handler import Fetched

NO_LEADER = -1


class ReplicaFetcherManager:
    """Gives each following partition to a fetcher of its leader (partitions.partition_service.Replication)."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._fetchers: dict[FetcherId, LeaderFetcher] = {}
        self._fetcher_ids: dict[Partition, FetcherId] = {}

    def follow(self, partition: Partition, leader: int) -> None:
        """Fetch the partition from the broker `leader` from now on; -1 without a leader."""
        self.leave(partition)
        if leader != NO_LEADER:
            self._fetch(partition, FetcherId(leader, is_far_behind=False))

    def _fetch(self, partition: Partition, fetcher_id: FetcherId) -> None:
        self._fetcher_ids[partition] = fetcher_id
        if fetcher_id not in self._fetchers:
            self._fetchers[fetcher_id] = LeaderFetcher(self._follower, fetcher_id, self._misplaced)
        self._fetchers[fetcher_id].add(partition)

    def leave(self, partition: Partition) -> None:
        """Stop fetching the partition. A fetcher without partitions ends with its connection."""
        fetcher_id = self._fetcher_ids.pop(partition, None)
        if fetcher_id is None:
            return
        fetcher = self._fetchers[fetcher_id]
        fetcher.remove(partition)
        if fetcher.is_idle:
            del self._fetchers[fetcher_id]
            fetcher.close()

    def _misplaced(self, found: Fetched) -> None:
        """See LeaderFetcher."""
        partition = found.partition
        fetcher_id = self._fetcher_ids.get(partition)
        if fetcher_id is None:
            return
        is_in_sync = partition.assigned is not None and self._follower.node_id in partition.assigned.isr
        if fetcher_id.is_far_behind:
            is_moved = is_in_sync or following.has_all(partition.replica, found.high_watermark)
        else:
            is_moved = not is_in_sync
        if is_moved:
            self.leave(partition)
            self._fetch(partition, fetcher_id._replace(is_far_behind=not fetcher_id.is_far_behind))

    def apply(self, delta: ImageDelta) -> None:
        """Brokers that have registered, or are served again, may be reached now."""
        registered = set(delta.brokers)
        for fetcher_id, fetcher in self._fetchers.items():
            if fetcher_id.leader_id in registered:
                fetcher.wake()

    def close(self) -> None:
        """End all fetchers."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._fetcher_ids.clear()
