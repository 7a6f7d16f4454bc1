"""The mirrors of one link that this broker leads: one task does what their state machines want (replica.mirror.Act).

A round asks the source for metadata, pins the ids of topics, raises leader epochs, and gives the partitions that may
fetch to the fetchers of their leaders. A round with errors, or with partitions that wait, is repeated after waits that
double from NEWS_S up to replica.fetch.backoff.ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.replica.following import NONE
from broker_cy.replica.mirror import Act, Mirror, Source
from broker_cy.replication.fetcher import NEWS_MAX, NEWS_S, Follower
from broker_cy.replication.links import LinkFailed
from broker_cy.replication.mirror_cluster import TOPICS_MAX, SourceCluster
from broker_cy.replication.mirror_fetcher import MirrorFetcher
from broker_cy.storage.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.config.mirror import MirrorSettings
    from broker_cy.replica.partition import Partition
    from broker_cy.wire import messages

LOGGER = logging.getLogger("broker_cy.server.replication")


class Controller(Protocol):
    """What mirrors have the active controller do (mirror_manager)."""

    async def pin(self, topic: str, topic_id: UUID) -> None:
        """Store the id of the source topic. Raises LinkFailed, KafkaError."""

    async def raise_epochs(self, wanted: dict[Partition, int]) -> None:
        """Raise leader epochs. Raises LinkFailed, KafkaError."""


class LinkFlows:
    """See mirror_fetcher.Flows."""

    def __init__(self, follower: Follower, cluster: SourceCluster, controller: Controller) -> None:
        self.cluster = cluster
        self.mirrors: dict[Partition, Mirror] = {}
        self._settings: dict[Partition, MirrorSettings] = {}
        self._follower = follower
        self._controller = controller
        self._fetchers: dict[int, MirrorFetcher] = {}
        self._leaders: dict[Partition, int] = {}  # of those that are fetched
        self._due = asyncio.Event()
        self._failures = 0  # in a row, at most NEWS_MAX
        self._task = keep_running(follower.loop, self._run, "mirrors")

    @property
    def is_idle(self) -> bool:
        return not self.mirrors

    def set(self, partition: Partition, settings: MirrorSettings) -> None:
        """This broker leads the partition, whose topic has these settings."""
        mirror = self.mirrors.get(partition)
        if mirror is None or self._is_other(self._settings[partition], settings):
            self.remove(partition)
            mirror = self.mirrors[partition] = Mirror(partition.leader_epoch, settings.topic_id)
        self._settings[partition] = settings
        mirror.led(partition.leader_epoch)
        if settings.topic_id is not None:
            mirror.pinned(settings.topic_id)
        mirror.is_paused = settings.is_paused
        if mirror.want is not Act.FETCH:
            self._stop(partition)
        self._due.set()

    def _is_other(self, before: MirrorSettings, settings: MirrorSettings) -> bool:
        """Whether an operator has named another source, or has let a flow that failed go on."""
        is_resumed = before.is_paused and not settings.is_paused
        return settings.topic != before.topic or is_resumed or before.topic_id not in (None, settings.topic_id)

    def remove(self, partition: Partition) -> None:
        """The partition is no mirror of this link, or led elsewhere."""
        self._stop(partition)
        self.mirrors.pop(partition, None)
        self._settings.pop(partition, None)

    def _stop(self, partition: Partition) -> None:
        leader = self._leaders.pop(partition, None)
        if leader is None:
            return
        fetcher = self._fetchers[leader]
        fetcher.remove(partition)
        if fetcher.is_idle:
            del self._fetchers[leader]
            fetcher.close()

    async def close(self) -> None:
        self._task.cancel()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        await self.cluster.close()

    # --- reports of fetchers

    def source_topic(self, partition: Partition) -> str:
        return self._settings[partition].topic

    def answered(self) -> None:
        self._failures = 0

    def lost(self, partition: Partition, leader_epoch: int) -> None:
        self.mirrors[partition].lost(leader_epoch)
        self._stop(partition)
        self._fail()

    def unreachable(self, fetcher: MirrorFetcher) -> None:
        for partition, leader in list(self._leaders.items()):
            if self._fetchers[leader] is fetcher:
                source = self.mirrors[partition].source
                self.lost(partition, source.leader_epoch if source is not None else NONE)
        self._fail()

    def _fail(self) -> None:
        self._failures = min(self._failures + 1, NEWS_MAX)
        self._due.set()

    def failed(self, partition: Partition) -> None:
        reason = self.mirrors[partition].failure
        LOGGER.error(
            "a mirror has failed; pause and resume the topic to try again",
            extra=facts(partition=f"{partition.topic}-{partition.index}", link=self.cluster.name, reason=reason),
        )
        self._stop(partition)

    def follow_log_start(self, partition: Partition) -> None:
        mirror, log = self.mirrors.get(partition), partition.log
        if mirror is None or log in self._follower.logs.truncations:
            return
        # As a follower's, it does not pass the high watermark.
        start = min(mirror.source_start, partition.high_watermark)
        if start <= log.log_start_offset or log.staged_batches:
            return
        try:
            self._follower.logs.delete_records_before(log, start)
        except (StorageError, OffsetOutOfRange, KafkaError) as error:
            LOGGER.warning(
                "cannot delete the records of a mirror that its source has deleted",
                extra=facts(partition=f"{partition.topic}-{partition.index}", reason=str(error)),
            )
        else:
            partition.tell_log_start()

    # --- rounds

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            if self._failures:
                backoff_s = float(self._follower.config["replica.fetch.backoff.ms"]) / 1000
                await asyncio.sleep(min(NEWS_S * 2.0**self._failures, backoff_s))
            self._due.clear()
            try:
                await self._round()
            except (LinkFailed, KafkaError) as error:
                LOGGER.warning("mirrors wait", extra=facts(link=self.cluster.name, reason=str(error)))
                self._fail()

    def _wanting(self, act: Act) -> list[Partition]:
        return [partition for partition, mirror in self.mirrors.items() if mirror.want is act]

    async def _round(self) -> None:
        """Raises LinkFailed, KafkaError."""
        if unknown := self._wanting(Act.LOOK_UP):
            topics = list(dict.fromkeys(self._settings[each].topic for each in unknown))
            for begin in range(0, len(topics), TOPICS_MAX):
                self._take_metadata(await self.cluster.metadata(topics[begin : begin + TOPICS_MAX]))
        self._fetch(self._wanting(Act.FETCH))
        pins = {each.topic: each for each in self._wanting(Act.PIN)}
        for topic, partition in pins.items():
            topic_id = self.mirrors[partition].topic_id
            assert topic_id is not None
            await self._controller.pin(topic, topic_id)
        raises = {}
        for partition in self._wanting(Act.RAISE):
            source = self.mirrors[partition].source
            assert source is not None
            raises[partition] = source.leader_epoch
        if raises:
            await self._controller.raise_epochs(raises)
        if self._wanting(Act.LOOK_UP) or self._wanting(Act.RAISE) or self._wanting(Act.PIN):
            # The metadata of both clusters come by themselves, and may be late.
            self._fail()

    def _fetch(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            source = self.mirrors[partition].source
            assert source is not None
            if self._leaders.get(partition) == source.leader:
                continue
            self._stop(partition)
            self._leaders[partition] = source.leader
            if source.leader not in self._fetchers:
                self._fetchers[source.leader] = MirrorFetcher(self._follower, source.leader, self)
            self._fetchers[source.leader].add(partition)

    def _take_metadata(self, response: messages.MetadataResponse) -> None:
        topics = {topic.name: topic for topic in response.topics}
        for partition in self._wanting(Act.LOOK_UP):
            mirror, topic = self.mirrors[partition], topics.get(self._settings[partition].topic)
            if topic is None:
                continue
            if topic.error_code:
                LOGGER.warning(
                    "the source of a mirror cannot be found",
                    extra=facts(
                        topic=topic.name, link=self.cluster.name, reason=ErrorCode(topic.error_code).name.lower()
                    ),
                )
                continue
            found = next((each for each in topic.partitions if each.partition_index == partition.index), None)
            if found is None:
                mirror.fail(f"the source topic has only {len(topic.partitions)} partitions")
            else:
                source = Source(topic.topic_id, found.leader_id, found.leader_epoch)
                mirror.found(source, partition.log.epochs.latest_epoch if partition.log is not None else NONE)
            if mirror.failure is not None:
                self.failed(partition)
