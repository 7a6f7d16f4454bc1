"""The share partitions that this broker leads: from the first fetch of a group until the group has no session here, or
the broker no longer leads the partition.

The state machines are in broker_cy.share. This service has what they lack: the loop, the clock, the log, and the share
coordinator. The file is long because a share partition ends in many ways (its leader, its session, its feature, a
failed write), and whatever ends it must know its fetches, locks and writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.features import SHARE_VERSION
from broker_cy.metadata.image import NO_LEADER, RESOURCE_GROUP
from broker_cy.replica.replica import Role
from broker_cy.share import acknowledging
from broker_cy.share.sessions import Closed, ShareSession, ShareSessions, TopicPartition
from broker_cy.share.settings import ShareGroupConfig, ShareSettings
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey, SharePartitions
from broker_cy.share.state_write import AcknowledgeError, StateWrite, is_fencing
from broker_cy.share_service.advance_wait import AdvanceWait
from broker_cy.share_service.counts import Returned, ShareCounts
from broker_cy.share_service.leader_changes import LeaderChanges, held_records
from broker_cy.share_service.loading import load
from broker_cy.share_service.lock_timer import LockTimer
from broker_cy.share_service.share_fetch import FetchRequest, FetchResult, Pause, ShareFetch
from broker_cy.share_service.state_writes import StateWrites, settled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor
    from typing import Any

    from broker_cy.coordinator_services.share_persister import SharePersister
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.partitions.openings import Openings
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

# Kafka's text.
NOT_HERE: Final = "This server does not host this topic-partition."
Acknowledgements = dict[TopicPartition, list[tuple[int, int, bytes]]]


class ShareService:
    """`image` returns the newest committed metadata; `cold_reader` has the workers that read from the disk."""

    def __init__(
        self,
        config: Mapping[str, Any],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        partitions: PartitionTable,
        openings: Openings,
        image: Callable[[], MetadataImage],
        persister: SharePersister,
        cold_reader: Executor,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.cold_reader = cold_reader
        self._openings = openings
        self.persister = persister
        self.is_stopping = False
        self.counts = ShareCounts()
        self.settings = ShareSettings.from_config(config)
        self.sessions = ShareSessions(self.settings.sessions_max)
        self.table = SharePartitions()
        self._partitions = partitions
        self._image = image
        self._configs: dict[str, ShareGroupConfig] = {}
        self._writes: dict[ShareKey, StateWrites] = {}
        self._locks = LockTimer(loop, self.now_ms, self._expire)
        # Those of partitions that fetches wait for, with these fetches.
        self._advances: dict[TopicPartition, tuple[AdvanceWait, dict[ShareFetch, None]]] = {}
        # The fetch of each connection, or its pause: a connection has one request at a time.
        self._fetches: dict[Hashable, ShareFetch | Pause] = {}
        self._loading: dict[asyncio.Task[None], None] = {}
        self.leader_changes = LeaderChanges(loop)
        # Told of each share partition that was loaded, or whose state was persisted.
        self.on_progress: Callable[[ShareKey], None] = lambda _: None

    def now_ms(self) -> int:
        return int(self.clock.monotonic() * 1000)

    @property
    def is_enabled(self) -> bool:
        """Whether the cluster has finalized share.version."""
        return self._image().features.served(SHARE_VERSION) > 0

    def config_of(self, group_id: str) -> ShareGroupConfig:
        config = self._configs.get(group_id)
        if config is None:
            overrides = self._image().configs.resource(RESOURCE_GROUP, group_id)
            config = self.settings.of_group(overrides)
            if self.sessions.members(group_id):
                # Bounded by the sessions: it is forgotten with the last one.
                self._configs[group_id] = config
        return config

    def topic_name(self, partition: TopicPartition) -> str | None:
        """Return the name of a topic; None if it no longer exists."""
        topic = self._image().topics.by_id(partition.topic_id)
        return None if topic is None else topic.name

    # ---- share partitions

    def obtain(self, key: ShareKey) -> tuple[SharePartition, Partition]:
        """Return a share partition, which may still be loading, and its partition. Raises KafkaError."""
        share = self.table.get(key)
        try:
            partition = self.leading(key.topic)
        except KafkaError:
            self._drop(self.table.keys_of(key.topic))
            raise
        if share is None:
            share = SharePartition(partition.leader_epoch)
            self._configure(key, share)
            self.table.add(key, share)
            share.begin()
            task = self.loop.create_task(self._load(key, share, partition))
            self._loading[task] = None
            task.add_done_callback(self._loading.pop)
        return share, partition

    async def opened(self, topics: Iterable[TopicPartition]) -> None:
        """Return once the logs of the partitions are open, as for a broker that is still starting."""
        partitions = [partition for topic in topics if (partition := self._place(topic)) is not None]
        if any(partition.unopened for partition in partitions):
            await self._openings.opened(partitions)

    def _place(self, topic: TopicPartition) -> Partition | None:
        places = self._partitions.by_id.get(topic.topic_id.bytes, ())
        return places[topic.partition] if 0 <= topic.partition < len(places) else None

    def leading(self, topic: TopicPartition) -> Partition:
        """Return the partition, which this broker leads. Raises KafkaError."""
        partition = self._place(topic)
        if partition is None:
            known = self._image().topics.by_id(topic.topic_id)
            is_elsewhere = known is not None and topic.partition in known.partitions
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if partition.replica.role != Role.LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def _configure(self, key: ShareKey, share: SharePartition) -> None:
        config = self.config_of(key.group_id)
        share.configure(config.lock_ms, config.delivery_limit, config.records_max, config.is_renew_enabled)

    async def _load(self, key: ShareKey, share: SharePartition, partition: Partition) -> None:
        began_s = self.clock.monotonic()
        error = None
        try:
            writes = self._writes.get(key)
            if writes is not None:
                # These are writes of an earlier life of this share partition.
                await writes.drained()
            await load(self, key, share, partition, self.config_of(key.group_id).offset_reset)
        except KafkaError as failure:
            error = failure
        except Exception as failure:
            # A defect; otherwise the share partition would be loading for ever.
            self.loop.call_exception_handler({"message": f"loading {key}", "exception": failure})
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if self.table.get(key) is not share:
            return
        if error is None:
            self.counts.load_times.observe_ns(int((self.clock.monotonic() - began_s) * 1e9))
            self.on_progress(key)
            self._resume(self.table.wake(key))
            return
        share.fail()
        fetches = self.table.wake(key)
        self._forget(key)
        self.table.drop(key)
        for fetch in fetches:
            cast(ShareFetch, fetch).fail(key.topic, error)

    def _drop(self, keys: Iterable[ShareKey], cause: Returned = Returned.LEADER) -> None:
        """Forget share partitions; `cause` is that of records which members hold."""
        for key in keys:
            self._forget(key)
            share = self.table.get(key)
            if share is not None:
                name = self.topic_name(key.topic)
                # Records of a deleted topic do not come again.
                held = 0 if name is None else held_records(share)
                self.counts.dropped(key.group_id, share, held, cause)
                if name is not None and held and cause is Returned.LEADER:
                    self.leader_changes.note(key, name, held, self._leader_of(key.topic))
            self._resume(self.table.drop(key), hurry=True)

    def _leader_of(self, topic: TopicPartition) -> int:
        known = self._image().topics.by_id(topic.topic_id)
        partition = None if known is None else known.partitions.get(topic.partition)
        return NO_LEADER if partition is None else partition.leader

    def _forget(self, key: ShareKey) -> None:
        self._locks.forget(key)
        self._forget_writes(key)

    def _forget_writes(self, key: ShareKey) -> None:
        """Forget the queue of a share partition that was dropped, once it is empty."""
        writes = self._writes.get(key)
        if writes is not None and writes.is_idle:
            del self._writes[key]

    # ---- fetches

    async def fetch(self, connection: Hashable, request: FetchRequest) -> FetchResult:
        """Acquire records for a member, and wait for them if there are none. The caller sends them at once."""
        fetch = self._fetches[connection] = ShareFetch(self, request)
        try:
            return await fetch.run()
        finally:
            self._fetches.pop(connection, None)

    async def pause(self, connection: Hashable, wait_ms: int) -> None:
        """Wait before an error is answered, so that the client does not ask again at once."""
        pause = self._fetches[connection] = Pause(self.loop, wait_ms)
        try:
            await pause.over
        finally:
            pause.hurry()
            self._fetches.pop(connection, None)

    def reload(self, key: ShareKey) -> None:
        """Load a share partition again that is full of finished records: its start offset waits at a gap that was
        fetched. In Kafka 4.3.1 the group reads no further. The persisted state has no gap by now.
        """
        self._forget(key)
        fetches = self.table.drop(key)
        self.obtain(key)
        self._resume(fetches)

    def start_moved(self, key: ShareKey) -> None:
        """A fetch has found that records are no longer in the log, so that others may be in flight."""
        self._resume(self.table.wake(key))

    def acquired(self, key: ShareKey, share: SharePartition, acquired: Sequence[tuple[int, int, int]]) -> None:
        """A fetch has acquired records."""
        self._locks.arm(key, share.next_deadline_ms)
        self.counts.acquired(acquired)

    def wait(self, fetch: ShareFetch, keys: Sequence[ShareKey]) -> bool:
        """Let a fetch wait; False if it cannot."""
        if not self.table.wait(fetch, keys):
            return False
        for key in keys:
            self._watch(key.topic, fetch)
        return True

    def end_wait(self, fetch: ShareFetch, keys: Sequence[ShareKey]) -> None:
        self.table.forget(fetch)
        for key in keys:
            wait, fetches = self._advances.get(key.topic, (None, {}))
            fetches.pop(fetch, None)
            if wait is not None and not fetches:
                del self._advances[key.topic]
                wait.end()

    def _watch(self, topic: TopicPartition, fetch: ShareFetch) -> None:
        known = self._advances.get(topic)
        if known is not None:
            known[1][fetch] = None
            return
        try:
            partition = self.leading(topic)
        except KafkaError:
            # The fetch gets the error with its answer.
            return
        wait = AdvanceWait(partition, partial(self._advanced, topic))
        self._advances[topic] = wait, {fetch: None}
        wait.begin()

    def _advanced(self, topic: TopicPartition, is_served: bool) -> None:
        """A partition has new records, or another role."""
        if not is_served:
            try:
                self.leading(topic)
            except KafkaError:
                self._drop(self.table.keys_of(topic))
                return
        # A group whose share partition is full is not woken: its fetches would find nothing (KAFKA-20425).
        for key in self.table.keys_of(topic):
            share = self.table.get(key)
            if share is not None and share.can_acquire():
                self._resume(self.table.wake(key))

    def _resume(self, fetches: Iterable[Hashable], *, hurry: bool = False) -> None:
        for fetch in fetches:
            if hurry:
                cast(ShareFetch, fetch).hurry()
            else:
                cast(ShareFetch, fetch).resume()

    # ---- acknowledgements

    async def acknowledge(
        self, group_id: str, member_id: str, wanted: Acknowledgements
    ) -> dict[TopicPartition, KafkaError | None]:
        """Apply the acknowledgements of a request, and return the errors of share partitions once all are written."""
        results: dict[TopicPartition, KafkaError | None] = {}
        waiting: dict[TopicPartition, tuple[StateWrite, asyncio.Future[KafkaError | None]]] = {}
        for topic, batches in wanted.items():
            key = ShareKey(group_id, topic)
            share = self.table.get(key)
            if share is None:
                results[topic] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE)
                continue
            try:
                write = acknowledging.acknowledge(share, member_id, batches, self.now_ms())
            except AcknowledgeError as error:
                results[topic] = KafkaError(error.code, str(error))
                continue
            finally:
                self._locks.arm(key, share.next_deadline_ms)
            results[topic] = None
            if write is None:
                self.counts.acknowledged(group_id, batches, None)
            else:
                waiting[topic] = write, self.loop.create_future()
                self.write(key, share, write, settled(waiting[topic][1]))
        for topic, (write, future) in waiting.items():
            results[topic] = await future
            if results[topic] is None:
                self.counts.acknowledged(group_id, wanted[topic], write)
        return results

    def write(
        self,
        key: ShareKey,
        share: SharePartition,
        write: StateWrite,
        done: Callable[[KafkaError | None], None] | None = None,
    ) -> None:
        """Persist new states of records, and call `done(error)` at the end."""
        writes = self._writes.get(key)
        if writes is None:
            writes = self._writes[key] = StateWrites(key, self.persister, self._written)
        writes.add(share, write, done)

    def _written(self, key: ShareKey, share: SharePartition, error: KafkaError | None, wakes: bool) -> None:
        """A write has ended."""
        if self.table.get(key) is not share:
            self._forget_writes(key)
            return
        self._locks.arm(key, share.next_deadline_ms)
        if error is None:
            self.on_progress(key)
        if error is not None and is_fencing(error.code):
            self._drop([key])
        elif wakes:
            self._resume(self.table.wake(key))

    def _expire(self, key: ShareKey) -> None:
        """A lock of the share partition may have ended."""
        share = self.table.get(key)
        if share is None:
            return
        write = acknowledging.expire(share, self.now_ms())
        self._locks.arm(key, share.next_deadline_ms)
        if write is not None:
            self.counts.expired(key.group_id, write)
            self.write(key, share, write)
            self._resume(self.table.wake(key))

    # ---- sessions

    def close_session(self, session: ShareSession) -> None:
        """End a session after its last request; it may have ended already."""
        if self.sessions.get(session.key) is session:
            self._release([self.sessions.close(session.key)])

    def disconnected(self, connection: Hashable) -> None:
        """A connection has ended, and the sessions on it with it."""
        fetch = self._fetches.get(connection)
        ended = self.sessions.disconnect(connection)
        if fetch is not None:
            fetch.hurry()
        if not self.is_stopping:
            # The next leader takes records that are locked for available ones.
            self._release(ended)

    def _release(self, ended: Iterable[Closed]) -> None:
        for closed in ended:
            for key, write in self.table.release(closed):
                share = self.table.get(key)
                if share is not None:
                    self.counts.released(key.group_id, write)
                    self.write(key, share, write)
            if closed.is_group_empty:
                self._configs.pop(closed.key.group_id, None)
                self._drop(self.table.keys_of_group(closed.key.group_id), Returned.SESSION)

    # ---- the end of leaderships, and of the broker

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed; the partitions of this broker have taken their roles already."""
        if SHARE_VERSION in delta.features and not self.is_enabled:
            self.sessions.clear()
            self._configs.clear()
            self._drop(self.table, Returned.SESSION)
        for resource_type, name in delta.configs:
            if resource_type == RESOURCE_GROUP and self._configs.pop(name, None) is not None:
                for key in self.table.keys_of_group(name):
                    share = self.table.get(key)
                    if share is not None:
                        self._configure(key, share)
        changed = {topic.topic_id for each in delta.topics for topic in each if topic is not None}
        if changed:
            for topic in self.table.topics():
                if topic.topic_id in changed:
                    self._check(topic)

    def _check(self, topic: TopicPartition) -> None:
        """Drop the share partitions of a partition that this broker no longer leads."""
        try:
            self.leading(topic)
        except KafkaError:
            self._drop(self.table.keys_of(topic))

    def lost_directory(self) -> None:
        """Partitions may have gone offline."""
        for topic in self.table.topics():
            self._check(topic)

    def stop(self) -> None:
        """Answer the fetches that wait. Acknowledgements end with the persister."""
        self.is_stopping = True
        self._locks.stop()
        for fetch in list(self._fetches.values()):
            fetch.hurry()
        for task in list(self._loading):
            task.cancel()
