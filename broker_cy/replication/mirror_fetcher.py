"""Fetches the partitions of a link that one broker of the source leads: the fetcher of a follower, on the leaders of
mirrors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica import follower_log, following
from broker_cy.replica.following import Answer, Step
from broker_cy.replica.mirror import Cause
from broker_cy.replication.fetcher import FetcherId, Follower, LeaderFetcher
from broker_cy.replication.links import Link
from broker_cy.replication.mirror_fetch_session import MirrorFetchSession

if TYPE_CHECKING:
    from broker_cy.replica.mirror import Mirror
    from broker_cy.replica.partition import Partition
    from broker_cy.replication.fetch_session_handler import Fetched
    from broker_cy.replication.mirror_cluster import SourceCluster
    from broker_cy.replication.mirror_progress import Progress


class Flows(Protocol):
    """The mirrors of a link (mirror_flows.LinkFlows)."""

    cluster: SourceCluster
    mirrors: dict[Partition, Mirror]

    def source_topic(self, partition: Partition) -> str: ...
    def answered(self) -> None:
        """The source has answered a fetch."""

    def lost(self, partition: Partition, leader_epoch: int, error_code: int = 0) -> None:
        """The leader of that epoch refused to answer, or this broker knows newer metadata of the source."""

    def unreachable(self, fetcher: MirrorFetcher) -> None:
        """The connection could not be made, or broke."""

    def failed(self, partition: Partition) -> None:
        """The flow of the partition has ended: see Mirror.failure."""

    def progress(self, partition: Partition) -> Progress: ...
    def cut(self, partition: Partition, before: int, *, is_deleted: bool) -> None:
        """The log, which ended at `before`, was truncated; or, if the source has deleted what follows, it begins again
        at the log start of the source.
        """

    def follow_log_start(self, partition: Partition) -> None:
        """The log start of the source, or the high watermark here, may have moved."""


class MirrorFetcher(LeaderFetcher):
    """`close` ends it."""

    def __init__(self, follower: Follower, leader_id: int, flows: Flows) -> None:
        self._flows = flows
        self.answered_ms = 0  # the time of its last answer
        self._mirror_session = MirrorFetchSession(follower.config, follower.throttle, flows.mirrors)
        super().__init__(follower, FetcherId(leader_id, is_far_behind=False), lambda found: None, self._mirror_session)

    async def _connect(self) -> Link:
        link = await self._flows.cluster.connect(self._leader_id)
        self._mirror_session.version = link.fetch_version
        return link

    def answered(self, body: memoryview) -> None:
        self.answered_ms = self._now_ms
        super().answered(body)

    async def _pause(self) -> None:
        self._flows.unreachable(self)
        await super()._pause()

    def _written(self, partition: Partition) -> None:
        super()._written(partition)
        self._flows.follow_log_start(partition)

    def _take(self, found: Fetched) -> None:
        partition, records = found.partition, found.records
        if found.error_code:
            self._flows.lost(partition, found.asked.leader_epoch, found.error_code)
            return
        self._flows.answered()
        mirror, log = self._flows.mirrors[partition], partition.log
        if records is not None and self._follower.throttle.is_set:
            self._follower.throttle.record(len(records), self.answered_ms)
        try:
            spans = follower_log.spans(partition, records) if records is not None else []
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                raise
            mirror.fail(Cause.OLD_RECORDS, error.message)
            self._flows.failed(partition)
            return
        answer = Answer(found.high_watermark, found.log_start_offset, found.diverging, spans)
        step = mirror.take(partition.replica, found.asked, answer, log.epochs, log.log_start_offset)
        if mirror.failure is not None:
            self._flows.failed(partition)
            return
        if not step.is_ignored:
            progress = self._flows.progress(partition)
            progress.problem = None
            progress.answered(log.log_end_offset, mirror.source_high, self.answered_ms)
        self._carry_out(partition, step, records)

    def _carry_out(self, partition: Partition, step: Step, records: memoryview | None) -> bool:
        before = partition.log.log_end_offset
        is_whole = super()._carry_out(partition, step, records)
        after = partition.log.log_end_offset
        if after < before or (after != before and after == step.restart_at):
            self._flows.cut(partition, before, is_deleted=step.restart_at != following.NONE)
        return is_whole

    def _append(self, partition: Partition, step: Step, records: memoryview | None) -> None:
        """The high watermark is that of the own in-sync set: the source sends only records that are committed."""
        if step.append and records is not None:
            before = partition.replicated_bytes
            count = follower_log.append_fetched(partition, records, step.append, self._follower.clock.wall_ms())
            progress, mirror = self._flows.progress(partition), self._flows.mirrors[partition]
            progress.copied(count, partition.replicated_bytes - before, self.answered_ms)
            progress.answered(partition.log.log_end_offset, mirror.source_high, self.answered_ms)
        self._flows.follow_log_start(partition)
        self._session.note(partition)

    def _name_at_leader(self, partition: Partition) -> str:
        return self._flows.source_topic(partition)

    def _resume(self, found: Fetched, leader_start: int, leader_end: int) -> None:
        partition, log = found.partition, found.partition.log
        mirror = self._flows.mirrors.get(partition)
        if mirror is None or not mirror.is_expected(partition.replica, found.asked, log.epochs):
            return
        step = mirror.out_of_range(log.log_start_offset, log.log_end_offset, leader_start, leader_end)
        if mirror.failure is not None:
            self._flows.failed(partition)
        elif step is None:
            # The source does not know the newest epoch of this log, and has its offset: a leader that is deposed.
            self._flows.lost(partition, found.asked.leader_epoch)
        else:
            self._carry_out(partition, step, None)
