"""Fetches the partitions of a link that one broker of the source leads: the fetcher of a follower, on the leaders of
mirrors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker_cy.replica import follower_log, following
from broker_cy.replica.following import Answer, Step
from broker_cy.replication.fetcher import FetcherId, Follower, LeaderFetcher
from broker_cy.replication.links import Link
from broker_cy.replication.mirror_fetch_session import MirrorFetchSession

if TYPE_CHECKING:
    from broker_cy.replica.mirror import Mirror
    from broker_cy.replica.partition import Partition
    from broker_cy.replication.fetch_session_handler import Fetched
    from broker_cy.replication.mirror_cluster import SourceCluster


class Flows(Protocol):
    """The mirrors of a link (mirror_flows.LinkFlows)."""

    cluster: SourceCluster
    mirrors: dict[Partition, Mirror]

    def source_topic(self, partition: Partition) -> str: ...
    def answered(self) -> None:
        """The source has answered a fetch."""

    def lost(self, partition: Partition, leader_epoch: int) -> None:
        """The leader of that epoch refused to answer, or this broker knows newer metadata of the source."""

    def unreachable(self, fetcher: MirrorFetcher) -> None:
        """The connection could not be made, or broke."""

    def failed(self, partition: Partition) -> None:
        """The flow of the partition has ended: see Mirror.failure."""

    def follow_log_start(self, partition: Partition) -> None:
        """The log start of the source, or the high watermark here, may have moved."""


class MirrorFetcher(LeaderFetcher):
    """`close` ends it."""

    def __init__(self, follower: Follower, leader_id: int, flows: Flows) -> None:
        self._flows = flows
        self._mirror_session = MirrorFetchSession(follower.config, follower.throttle, flows.mirrors)
        super().__init__(follower, FetcherId(leader_id, is_far_behind=False), lambda found: None, self._mirror_session)

    async def _connect(self) -> Link:
        link = await self._flows.cluster.connect(self._leader_id)
        self._mirror_session.version = link.fetch_version
        return link

    async def _pause(self) -> None:
        self._flows.unreachable(self)
        await super()._pause()

    def _written(self, partition: Partition) -> None:
        super()._written(partition)
        self._flows.follow_log_start(partition)

    def _take(self, found: Fetched) -> None:
        partition, records = found.partition, found.records
        if found.error_code:
            self._flows.lost(partition, found.asked.leader_epoch)
            return
        self._flows.answered()
        mirror, log = self._flows.mirrors[partition], partition.log
        spans = follower_log.spans(partition, records) if records is not None else []
        answer = Answer(found.high_watermark, found.log_start_offset, found.diverging, spans)
        step = mirror.take(partition.replica, found.asked, answer, log.epochs, log.log_start_offset)
        if mirror.failure is not None:
            self._flows.failed(partition)
            return
        self._carry_out(partition, step, records)

    def _append(self, partition: Partition, step: Step, records: memoryview | None) -> None:
        """The high watermark is that of the own in-sync set: the source sends only records that are committed."""
        if step.append and records is not None:
            follower_log.append_fetched(partition, records, step.append, self._follower.clock.wall_ms())
        self._flows.follow_log_start(partition)
        self._session.note(partition)

    def _name_at_leader(self, partition: Partition) -> str:
        return self._flows.source_topic(partition)

    def _resume(self, found: Fetched, leader_start: int, leader_end: int) -> None:
        partition, log = found.partition, found.partition.log
        mirror = self._flows.mirrors.get(partition)
        if mirror is None or not mirror.is_expected(partition.replica, found.asked, log.epochs):
            return
        step = mirror.out_of_range(found.asked, leader_start, leader_end, log.log_start_offset)
        if mirror.failure is not None:
            self._flows.failed(partition)
        elif step.truncate_to == following.NONE and step.restart_at == following.NONE:
            # The source does not know the newest epoch of this log, and has its offset: a leader that is deposed.
            self._flows.lost(partition, found.asked.leader_epoch)
        else:
            self._carry_out(partition, step, None)
