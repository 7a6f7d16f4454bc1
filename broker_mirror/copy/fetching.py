"""Raw records of the source: one loop for each leader, which fetches what the machine wants."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from broker_cy.admin import AdminClient
from broker_cy.admin.fetch_session_handler import FetchSessionHandler
from broker_cy.admin.fetched import fetch
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.partition import Key
from broker_mirror.copy.restamp import Damaged, cut
from broker_mirror.copy.topic_ids import KnownIds
from broker_mirror.copy.transforms import Change
from broker_mirror.formats.source_offsets import TopicIds
from broker_mirror.pacing import RatePacing
from broker_mirror.transforms.chain import Chain

FETCH_BYTES_MAX: Final = 4 << 20
"""Bytes of one answer: one for each leader of the source is in memory at a time."""
METADATA_S: Final = 5.0
"""How often leaders and ids of topics are looked up."""
PAUSED_WAIT_MS: Final = 10
"""How long a fetch waits for records while other partitions wait for room in the buffer."""
_FORBIDDEN: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_lanes = itertools.count()


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Those of the consumer of the source; `rate` is in bytes per second, 0 without a limit. Replicas in `rack` are
    read first. A fetch has at most the bytes of a second.
    """

    bytes_max: int
    partition_bytes_max: int
    bytes_min: int
    wait_ms: int
    rate: int = 0
    rack: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any], rate: int | None) -> FetchSettings:
        bytes_max = min(FETCH_BYTES_MAX, max(1, values["fetch.max.bytes"]), rate or FETCH_BYTES_MAX)
        return cls(
            bytes_max,
            min(bytes_max, max(1, values["max.partition.fetch.bytes"])),
            values["fetch.min.bytes"],
            values["fetch.max.wait.ms"],
            rate or 0,
            values["client.rack"] or "",
        )


class Fetching:
    """Run it as a task; `room` wakes loops that wait for room in the buffer, `wake` reports that something arrived."""

    def __init__(
        self,
        client: AdminClient,
        machine: CopyMachine,
        ids: KnownIds,
        settings: FetchSettings,
        now_ms: Callable[[], int],
        wake: Callable[[], None],
        transforms: Chain | None = None,
    ) -> None:
        self._client, self._machine, self._ids, self._settings = client, machine, ids, settings
        self._now_ms, self._wake, self._transforms = now_ms, wake, transforms
        self._loops: dict[int, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._changed = asyncio.Event()
        # The replicas that leaders name for partitions because of the rack; a failure of one forgets its partitions.
        self._preferred: dict[TopicPartition, int] = {}
        self._pacing = RatePacing(settings.rate)
        # The defect that ended a loop.
        self._failure: BaseException | None = None

    def room(self) -> None:
        """Wake the loops: a partition may be fetched that could not."""
        self._room.set()

    def refresh(self) -> None:
        """Look up leaders now."""
        self._changed.set()

    async def run(self) -> None:
        """Keep one loop for each leader until it is cancelled. Raises what ended a loop, if that was no ClientError."""
        try:
            while True:
                if self._failure is not None:
                    raise self._failure
                self._changed.clear()
                await self._look_up()
                try:
                    async with asyncio.timeout(METADATA_S):
                        await self._changed.wait()
                        # Several partitions of a leader that has ended report it.
                        await asyncio.sleep(0.1)
                except TimeoutError:
                    pass
        finally:
            loops = list(self._loops.values())
            for each in loops:
                each.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _look_up(self) -> None:
        """Look up the topics, report those that are absent or others now, and start loops for new leaders."""
        topics = sorted({topic for topic, _ in self._machine.partitions})
        if not topics:
            return
        metadata = self._client.caller.metadata
        try:
            found, failed = await metadata.refresh(topics, self._client.caller.deadline())
        except ClientError:
            return
        for name, error in failed.items():
            self._report(name, f"the source answers: {error}")
        ids = {name: topic.topic_id for name, topic in found.items()}
        for key in list(self._machine.partitions):
            if key[0] in ids:
                self._is_same(key, ids[key[0]])
        leaders = {part.leader_id for topic in found.values() for part in topic.partitions if part.leader_id >= 0}
        leaders.update(self._preferred.values())
        for node_id, task in list(self._loops.items()):
            if node_id not in leaders:
                task.cancel()
                del self._loops[node_id]
        for node_id in leaders - self._loops.keys():
            self._loops[node_id] = task = asyncio.create_task(self._follow(node_id))
            task.add_done_callback(self._ended)
        self._room.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._changed.set()

    def _report(self, topic: str, text: str) -> None:
        for key in [key for key in self._machine.partitions if key[0] == topic]:
            self._machine.problem(key, text, self._now_ms())
        self._wake()

    def _is_same(self, key: Key, topic_id: UUID) -> bool:
        """Return whether a topic is still the one that is copied; else its partition stops, or begins again."""
        each = self._machine.partitions[key]
        text = self._ids.problem(key, each.target[0], TopicIds(source=topic_id))
        if text is None:
            return True
        if not self._ids.may_begin_again(key[0]):
            self._machine.problem(key, text, self._now_ms(), lasts=True)
            self._wake()
        elif self._machine.begin_again([key]):
            self._wake()
        return False

    async def _follow(self, node_id: int) -> None:
        lane = f"mirror-{next(_lanes)}"
        session = FetchSessionHandler()
        attempt = 1
        try:
            while True:
                if wait_ms := self._pacing.wait_ms(self._now_ms()):
                    await asyncio.sleep(wait_ms / 1000)
                offsets, waits_for_room = self._wanted(node_id)
                if not offsets:
                    self._room.clear()
                    await self._room.wait()
                    continue
                try:
                    peer = await self._client.caller.metadata.peer(node_id, self._client.caller.deadline())
                    await self._fetch(peer._replace(lane=lane), offsets, session, waits_for_room)
                    attempt = 1
                except ClientError:
                    self._forget_preferred(node_id)
                    self.refresh()
                    await Deadline(10.0).back_off(attempt)
                    attempt += 1
        finally:
            self._client.caller.pool.leave(lane)

    def _wanted(self, node_id: int) -> tuple[dict[TopicPartition, int], bool]:
        """Return the partitions of a leader to fetch now, and whether others wait for room in the buffer."""
        metadata = self._client.caller.metadata
        mine = []
        for key in self._machine.partitions:
            partition = TopicPartition(*key)
            if self._preferred.get(partition, metadata.leader_of(partition)) == node_id:
                mine.append(partition)
        now_ms = self._now_ms()
        found = self._machine.fetches(now_ms, mine)
        # Partitions with a problem wait for longer.
        waits_for_room = any(
            each.position is not None and not each.is_waiting(now_ms)
            for key in mine
            if key not in found and (each := self._machine.partitions.get(key)) is not None
        )
        wanted = {
            TopicPartition(*key): offset
            for key, offset in found.items()
            if self._is_same(key, metadata.topic_id(key[0]))
        }
        return wanted, waits_for_room

    def _forget_preferred(self, node_id: int) -> None:
        self._preferred = {key: preferred for key, preferred in self._preferred.items() if preferred != node_id}

    async def _fetch(
        self, peer: Peer, offsets: dict[TopicPartition, int], session: FetchSessionHandler, waits_for_room: bool
    ) -> None:
        settings, caller = self._settings, self._client.caller
        ids = {caller.metadata.topic_id(key.topic): key.topic for key in offsets}
        answer, version = await fetch(
            caller,
            peer,
            offsets,
            caller.deadline(),
            bytes_max=settings.bytes_max,
            partition_bytes_max=settings.partition_bytes_max,
            bytes_min=settings.bytes_min,
            wait_ms=min(PAUSED_WAIT_MS, settings.wait_ms) if waits_for_room else settings.wait_ms,
            isolation=Isolation.READ_COMMITTED,
            session=session,
            rack=settings.rack,
        )
        size = 0
        failures = False
        for topic in answer.responses:
            name = topic.topic if version < 13 else ids.get(topic.topic_id, "")
            for part in topic.partitions:
                key = TopicPartition(name, part.partition_index)
                if key in offsets:
                    size += len(part.records or b"")
                    failures |= not await self._take(peer, key, offsets[key], part)
        self._pacing.took(size, self._now_ms())
        self._wake()
        if failures:
            self.refresh()
            await Deadline(10.0).back_off(1)

    async def _take(
        self, peer: Peer, key: TopicPartition, offset: int, part: messages.FetchResponse.PartitionData
    ) -> bool:
        """Take the answer for one partition; False if leaders must be looked up again."""
        now_ms = self._now_ms()
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._out_of_range(key, offset)
        if (problem := problem_of(part.error_code)) is not None:
            self._preferred.pop(key, None)
            if problem.code in _FORBIDDEN or not (problem.code.retriable or problem.code in _ABSENT):
                text = str(refused(problem, peer.name, "Fetch", f"partition {key} of the source"))
                self._machine.problem(key, text, now_ms)
            return False
        if part.preferred_read_replica >= 0:
            # The answer has no records.
            self._preferred[key] = part.preferred_read_replica
            return part.preferred_read_replica in self._loops
        each = self._machine.partitions.get(key)
        if each is None:
            return True
        records = bytes(part.records or b"")
        change = None if self._transforms is None else Change(self._transforms, each.target[0])
        try:
            pieces, next_offset = cut(
                records, offset, part.aborted_transactions, f"partition {key} of the source", each.bytes_max, change
            )
        except Damaged as error:
            self._machine.problem(key, str(error), now_ms)
            return True
        filtered_to = 0 if change is None else change.filtered_to
        self._machine.fetched(key, offset, list(pieces), next_offset, part.last_stable_offset, filtered_to)
        return True

    async def _out_of_range(self, key: TopicPartition, offset: int) -> bool:
        """Skip what retention has deleted, or report a truncation; False if the offset is in the log by now."""
        calls = self._client.offsets
        start = (await calls.earliest([key])).whole()[key]
        if offset < start:
            self._machine.lost(key, offset, start)
            return True
        end = (await calls.latest([key])).whole()[key]
        if offset > end:
            text = f"partition {key} of the source was truncated or created again: it ends at {end}, copied to {offset}"
            self._machine.problem(key, text, self._now_ms(), lasts=True)
        return offset > end
