"""History from the broker's own topics: a sample each second, and the events of the cluster.

A follower reads the newest records first, and then each new one. A cluster without these topics (Apache Kafka, or a
broker with these topics switched off) has no history: `error` says so, and all other parts work without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.commit_notes import CommitNotes
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.own_topics import EVENTS_TOPIC, METRICS_TOPIC
from broker_cy.admin.records import Start
from broker_cy.console.listeners import Listener, Listeners, LoopOwner, call
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics import events, sample
from broker_cy.metrics.events import Stamped
from broker_cy.metrics.sample import Sample
from broker_cy.wire.records import Record

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

# Ten minutes of samples, and the newest events.
SAMPLES_MAX = 600
EVENTS_MAX = 2_000
# Records that are read at the start to find other events than commits, which most events are.
EVENT_RECORDS_READ = 4_000
# Records that are decoded in one turn of the loop, about 5 ms.
RECORDS_A_TURN = 50
RETRY_S = 2.0


class Follower(Generic[T]):
    """Follows one of the broker's own topics. `items` has the newest records, in ascending order of time."""

    def __init__(
        self,
        client: AdminClient,
        topic: str,
        decode: Callable[[bytes], T | None],
        records_read: int,
        items_max: int,
        owner: LoopOwner | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._decode = decode
        self._records_read = records_read
        self.items: deque[T] = deque(maxlen=items_max)
        self.error: str | None = None
        self.is_absent = False
        self.unreadable = 0
        self._heard_at_s: float | None = None
        self._owner = owner or LoopOwner()
        self._listeners = Listeners()
        self._task: asyncio.Task[None] | None = None
        self._retry = asyncio.Event()

    @property
    def age_s(self) -> float | None:
        """Return the time since the last record arrived."""
        return None if self._heard_at_s is None else asyncio.get_running_loop().time() - self._heard_at_s

    def start(self) -> None:
        self._owner.check()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self.items or self.error:
            call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def kick(self) -> None:
        """Retry now if reading failed."""
        self._retry.set()

    def take(self, item: T) -> None:
        """Add one item."""
        self.items.append(item)

    async def _run(self) -> None:
        position: dict[TopicPartition, int] | None = None
        while True:
            try:
                if position is None:
                    keys = await self._client.records.partitions(self._topic)
                    spans = await self._client.records.spans(keys, Start.last(self._records_read))
                    position = {key: span.start for key, span in spans.items()}
                await self._follow(position)
            except ClientError as error:
                self.error = str(error)
                self.is_absent = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if self.is_absent:
                    position = None
                    self.error = f"no topic {self._topic}: only broker-cy writes it, unless it is switched off"
                elif error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    # The topic was deleted and created again.
                    position = None
                self._listeners.call()
            except Exception as error:
                # A bug in reading: this follower reports it and retries, and everything else continues.
                _LOG.exception("following %s failed", self._topic)
                self.error = f"{type(error).__name__}: {error}"
                position = None
                self._listeners.call()
            self._retry.clear()
            try:
                async with asyncio.timeout(RETRY_S):
                    await self._retry.wait()
            except TimeoutError:
                pass

    async def _follow(self, position: dict[TopicPartition, int]) -> None:
        async with self._client.records.reader(position) as reader:
            async for chunk in reader:
                position[chunk.partition] = chunk.next_offset
                for start in range(0, len(chunk.records), RECORDS_A_TURN):
                    self._decode_all(chunk.records[start : start + RECORDS_A_TURN])
                    await asyncio.sleep(0)
                self.error, self.is_absent = None, False
                self._heard_at_s = asyncio.get_running_loop().time()
                self._listeners.call()

    def _decode_all(self, records: Iterable[Record]) -> None:
        for record in records:
            try:
                item = self._decode(record.value or b"")
            except ValueError:
                self.unreadable += 1
                continue
            if item is not None:
                self.take(item)


class Samples(Follower[Sample]):
    """`__broker_metrics`."""

    def __init__(self, client: AdminClient, owner: LoopOwner | None = None) -> None:
        super().__init__(client, METRICS_TOPIC, sample.decode, SAMPLES_MAX, SAMPLES_MAX, owner)

    @property
    def last(self) -> Sample | None:
        return self.items[-1] if self.items else None


class Events(Follower[Stamped]):
    """`__cluster_events`; commits of groups are kept apart from other events, and accesses are not kept."""

    def __init__(self, client: AdminClient, owner: LoopOwner | None = None) -> None:
        super().__init__(client, EVENTS_TOPIC, events.decode, EVENT_RECORDS_READ, EVENTS_MAX, owner)
        self.commits = CommitNotes()

    def take(self, item: Stamped) -> None:
        self.commits.take(item)
        if item.event.TYPE not in events.ROUTINE:
            super().take(item)
