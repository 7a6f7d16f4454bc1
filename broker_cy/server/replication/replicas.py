"""The fetchers of a broker, one for each leader that it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.server.replication.fetcher import Follower, LeaderFetcher

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta
    from broker_cy.replica.partition import Partition

NO_LEADER = -1


class Replicas:
    """Gives each following partition to the fetcher of its leader (partitions.partition_service.Replication)."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._leaders: dict[Partition, int] = {}

    def follow(self, partition: Partition, leader: int) -> None:
        """Fetch the partition from the broker `leader` from now on; -1 if there is no leader."""
        self.leave(partition)
        if leader == NO_LEADER:
            return
        self._leaders[partition] = leader
        if leader not in self._fetchers:
            self._fetchers[leader] = LeaderFetcher(self._follower, leader)
        self._fetchers[leader].add(partition)

    def leave(self, partition: Partition) -> None:
        """Fetch the partition no more. A fetcher without partitions ends with its connection."""
        leader = self._leaders.pop(partition, NO_LEADER)
        if leader == NO_LEADER:
            return
        fetcher = self._fetchers[leader]
        fetcher.remove(partition)
        if fetcher.is_idle:
            del self._fetchers[leader]
            fetcher.close()

    def apply(self, delta: ImageDelta) -> None:
        """Brokers that have registered, or are served again, may be reached now."""
        for broker_id in delta.brokers:
            if broker_id in self._fetchers:
                self._fetchers[broker_id].wake()

    def close(self) -> None:
        """End all fetchers."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._leaders.clear()
