"""The mirrors of one link that this broker leads: one task does what their state machines want (replica.mirror.Act).

A round asks the source for metadata, pins the ids of topics, raises leader epochs, and gives the partitions that may
fetch to the fetchers of their leaders. A round with errors, or with partitions that wait, is repeated after waits that
double from NEWS_S up to replica.fetch.backoff.ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, Event, MirrorFailed, MirrorTruncated
from broker_cy.replica.following import NONE
from broker_cy.replica.mirror import Act, Cause, Mirror, Problem, Source
from broker_cy.replication.fetcher import NEWS_MAX, NEWS_S, Follower
from broker_cy.replication.links import LinkFailed
from broker_cy.replication.mirror_cluster import TOPICS_MAX, LinkWaits, Origin, SourceCluster
from broker_cy.replication.mirror_fetcher import MirrorFetcher
from broker_cy.replication.mirror_progress import Progress
from broker_cy.replication.mirror_view import MirrorView, State
from broker_cy.storage.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.core.mirror_settings import MirrorSettings
    from broker_cy.replica.partition import Partition
    from broker_cy.wire import messages

LOGGER = logging.getLogger("broker_cy.server.replication")

# How often the partitions of source topics are counted, and the rate of the link is read.
COUNT_S = 60.0
# The time after replica.fetch.wait.max.ms in which the source answers a fetch without news.
ANSWER_LATE_MS = 1_000
_CAUSES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Cause.UNAUTHORIZED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Cause.UNAUTHORIZED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Cause.NO_TOPIC,
    ErrorCode.LEADER_NOT_AVAILABLE: Cause.NO_LEADER,
}


UNRELATED = (
    "the topic has records, and neither its settings nor those of the source topic show that they are from it; delete "
    "the topic to copy it, or let the link describe the settings of the source topic"
)


def has_records(partition: Partition) -> bool:
    return partition.log is not None and partition.log.log_end_offset > partition.log.log_start_offset


def is_of(origin: Origin | None, partition: Partition) -> bool:
    """Whether the source topic was copied from the topic of the partition, before it was promoted. Leader epochs do not
    show it: those of unrelated topics have the same numbers.
    """
    return origin is not None and origin.topic_id == partition.topic_id


class Controller(Protocol):
    """The requests of mirrors to the active controller (mirror_manager)."""

    async def pin(self, topic: str, topic_id: UUID) -> None:
        """Store the id of the source topic. Raises LinkFailed, KafkaError."""

    async def raise_epochs(self, wanted: dict[Partition, int]) -> None:
        """Raise leader epochs. Raises LinkFailed, KafkaError."""

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic of this cluster."""

    def note(self, event: Event) -> None: ...


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
        self._progress: dict[Partition, Progress] = {}
        self._problem: Problem | None = None  # why the source cannot be asked
        self._failed: list[Partition] = []  # in this turn of the loop
        self._fewer: dict[str, Problem] = {}  # topics with fewer partitions than their sources
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
            self._progress[partition] = Progress()
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
        self._progress.pop(partition, None)
        self._fewer.pop(partition.topic, None)

    def _stop(self, partition: Partition) -> None:
        leader = self._leaders.pop(partition, None)
        if leader is None:
            return
        fetcher = self._fetchers[leader]
        self._progress[partition].seen(fetcher.answered_ms)
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

    def progress(self, partition: Partition) -> Progress:
        return self._progress[partition]

    def lost(self, partition: Partition, leader_epoch: int, error_code: int = 0) -> None:
        self.mirrors[partition].lost(leader_epoch)
        self._stop(partition)
        if (cause := _CAUSES.get(ErrorCode(error_code))) is Cause.UNAUTHORIZED:
            self._wait(partition, cause, "the link may not read the source topic")
        self._fail()

    def unreachable(self, fetcher: MirrorFetcher) -> None:
        for partition, leader in list(self._leaders.items()):
            if self._fetchers[leader] is fetcher:
                source = self.mirrors[partition].source
                self.lost(partition, source.leader_epoch if source is not None else NONE)
                self._wait(partition, Cause.UNREACHABLE, f"broker {leader} of the source cannot be reached")
        self._fail()

    def _fail(self) -> None:
        self._failures = min(self._failures + 1, NEWS_MAX)
        self._due.set()

    def failed(self, partition: Partition) -> None:
        problem = self.mirrors[partition].failure
        assert problem is not None
        LOGGER.error(
            "a mirror has failed; pause and resume the topic to try again",
            extra=facts(
                partition=f"{partition.topic}-{partition.index}", link=self.cluster.name, reason=problem.reason
            ),
        )
        self._stop(partition)
        if not self._failed:
            self._follower.loop.call_soon(self._tell_failed)
        self._failed.append(partition)

    def _tell_failed(self) -> None:
        """One event for the partitions of a topic that failed in this turn."""
        found: dict[tuple[str, Cause], MirrorFailed] = {}
        for partition in self._failed:
            mirror = self.mirrors.get(partition)
            if mirror is None or mirror.failure is None:
                continue
            cause, reason = mirror.failure
            source = self._settings[partition].topic
            event = found.setdefault(
                (partition.topic, cause),
                MirrorFailed(partition.topic, self.cluster.name, source, cause.value, reason),
            )
            event.partitions_total += 1
            if len(event.partitions) < PARTITIONS_REPORTED_MAX:
                event.partitions.append(partition.index)
        self._failed.clear()
        for event in found.values():
            self._controller.note(event)

    def cut(self, partition: Partition, before: int, *, is_deleted: bool) -> None:
        cause, after = "deleted_at_source" if is_deleted else "diverged", partition.log.log_end_offset
        self._controller.note(
            MirrorTruncated(partition.topic, partition.index, self.cluster.name, cause, before, after)
        )

    def _wait(self, partition: Partition, cause: Cause, reason: str) -> None:
        """Keep why a mirror waits, and log it once."""
        progress = self._progress[partition]
        if progress.problem is None or progress.problem.cause is not cause:
            LOGGER.warning(
                "a mirror waits",
                extra=facts(partition=f"{partition.topic}-{partition.index}", link=self.cluster.name, reason=reason),
            )
        progress.problem = Problem(cause, reason)

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
            with suppress(TimeoutError):
                async with asyncio.timeout(COUNT_S):
                    await self._due.wait()
            is_due = self._due.is_set()
            if self._failures:
                backoff_s = float(self._follower.config["replica.fetch.backoff.ms"]) / 1000
                await asyncio.sleep(min(NEWS_S * 2.0**self._failures, backoff_s))
            self._due.clear()
            try:
                if is_due:
                    await self._round()
                else:
                    await self.cluster.read_rate()
                    await self._look_up(list(dict.fromkeys(each.topic for each in self._settings.values())))
                self._problem = None
            except (LinkFailed, KafkaError) as error:
                cause = error.cause if isinstance(error, LinkWaits) else Cause.CONTROLLER
                if self._problem is None or self._problem.cause is not cause:
                    LOGGER.warning("mirrors wait", extra=facts(link=self.cluster.name, reason=str(error)))
                self._problem = Problem(cause, str(error))
                self._fail()

    def _wanting(self, act: Act) -> list[Partition]:
        return [partition for partition, mirror in self.mirrors.items() if mirror.want is act]

    async def _round(self) -> None:
        """Raises LinkFailed, KafkaError."""
        if unknown := self._wanting(Act.LOOK_UP):
            await self._look_up(list(dict.fromkeys(self._settings[each].topic for each in unknown)))
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

    async def _look_up(self, topics: Sequence[str]) -> None:
        """Raises LinkFailed."""
        for begin in range(0, len(topics), TOPICS_MAX):
            part = topics[begin : begin + TOPICS_MAX]
            metadata = await self.cluster.metadata(part)
            # A partition may begin after others of its topic: this broker leads it later.
            begins = {self._settings[each].topic for each, mirror in self.mirrors.items() if mirror.source is None}
            fresh = [each for each in part if each in begins]
            origins = await self.cluster.origins(fresh) if fresh else {}
            self._count(metadata)
            self._take_metadata(metadata, origins)

    def _count(self, response: messages.MetadataResponse) -> None:
        """Name the topics whose sources have partitions that are not copied."""
        counts = {topic.name: len(topic.partitions) for topic in response.topics if not topic.error_code}
        for topic, source in {each.topic: found.topic for each, found in self._settings.items()}.items():
            if source not in counts:
                continue
            here, there = self._controller.partitions(topic), counts[source]
            if here >= there:
                self._fewer.pop(topic, None)
                continue
            reason = f"the source topic has {there} partitions, and this one {here}: the others are not copied"
            if self._fewer.get(topic) != (Cause.FEWER_PARTITIONS, reason):
                LOGGER.warning(
                    "a mirror has fewer partitions than its source; add partitions to copy all",
                    extra=facts(topic=topic, link=self.cluster.name, reason=reason),
                )
            self._fewer[topic] = Problem(Cause.FEWER_PARTITIONS, reason)

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

    def _take_metadata(self, response: messages.MetadataResponse, origins: dict[str, Origin] | None) -> None:
        """`origins`: see SourceCluster."""
        topics = {topic.name: topic for topic in response.topics}
        for partition in self._wanting(Act.LOOK_UP):
            name = self._settings[partition].topic
            mirror, topic = self.mirrors[partition], topics.get(name)
            if topic is None:
                continue
            if topic.error_code:
                code = ErrorCode(topic.error_code)
                self._wait(partition, _CAUSES.get(code, Cause.REFUSED), f"the source answers {code.name.lower()}")
                continue
            origin = None if origins is None else origins.get(name)
            found = next((each for each in topic.partitions if each.partition_index == partition.index), None)
            if topic.topic_id == partition.topic_id:
                mirror.fail(Cause.ITSELF, "the source topic is this topic itself: the link leads to its own cluster")
            elif origin is not None and origin.is_mirror and origin.topic_id in (None, partition.topic_id):
                reason = "of this one" if origin.topic_id is not None else "that has not found its own source"
                self._wait(partition, Cause.CIRCLE, f"the source topic is a mirror {reason}")
                continue
            elif found is None:
                mirror.fail(Cause.NO_PARTITION, f"the source topic has only {len(topic.partitions)} partitions")
            elif mirror.topic_id is None and has_records(partition) and origins is None:
                self._wait(partition, Cause.UNREACHABLE, "the source does not tell where its topic is from")
                continue
            elif mirror.topic_id is None and has_records(partition) and not is_of(origin, partition):
                mirror.fail(Cause.UNRELATED, UNRELATED)
            else:
                source = Source(topic.topic_id, found.leader_id, found.leader_epoch)
                mirror.found(source, partition.log.epochs.latest_epoch if partition.log is not None else NONE)
                if found.leader_id == NONE:
                    self._wait(partition, Cause.NO_LEADER, "the source partition has no leader")
            if mirror.failure is not None:
                self.failed(partition)

    # --- for programs

    def views(self, now_ms: int) -> Iterator[MirrorView]:
        for partition in list(self.mirrors):
            if partition in self.mirrors and partition.log is not None:
                yield self._view(partition, now_ms)

    def _view(self, partition: Partition, now_ms: int) -> MirrorView:
        mirror, settings, progress = self.mirrors[partition], self._settings[partition], self._progress[partition]
        leader = self._leaders.get(partition)
        problem = mirror.failure or progress.problem or (self._problem if leader is None else None)
        state = State.ACTIVE if leader is not None and problem is None else State.WAITING
        problem = problem or self._fewer.get(partition.topic)
        if mirror.failure is not None:
            state = State.FAILED
        elif mirror.is_paused:
            state, problem = State.PAUSED, None
        if leader is not None:
            progress.seen(self._fetchers[leader].answered_ms)
        silence_max_ms = int(self._follower.config["replica.fetch.wait.max.ms"]) + ANSWER_LATE_MS
        source = mirror.source
        return MirrorView(
            partition.topic,
            partition.index,
            self.cluster.name,
            settings.topic,
            None if mirror.topic_id is None else uuids.to_text(mirror.topic_id),
            state.value,
            problem.cause.value if problem is not None else "",
            problem.reason if problem is not None else "",
            source.leader if source is not None else None,
            source.leader_epoch if source is not None else None,
            mirror.source_high if mirror.source_high != NONE else None,
            partition.high_watermark,
            progress.lag_records(),
            progress.lag_ms(now_ms, silence_max_ms),
            progress.records,
            progress.bytes,
            *progress.per_s(now_ms),
        )
