"""Consuming without a group: from offsets, times or the end, leaving out aborted transactions where asked
for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from broker_cy.admin.caller import Caller, Leaders
from broker_cy.admin.fetched import Chunk, RowForm, decode_partition, fetch
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation, OffsetCalls
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# Bytes of one answer, and of one partition in it; a larger batch is returned alone.
FETCH_BYTES_MAX: Final = 8 << 20
PARTITION_BYTES_MAX: Final = 1 << 20
# How long a broker holds a Fetch that finds nothing.
WAIT_MS: Final = 500
# Partitions of one Fetch.
PARTITIONS_MAX = 1_000
# Chunks that were read and not taken yet, about one answer; no more is requested until some are taken.
QUEUED_CHUNKS_MAX = 16
# One connection for each reader: a broker answers the requests of a connection in order, so that a Fetch that waits for
# data would delay every other reader.
_lanes = itertools.count()


@dataclass(slots=True)
class _Position:
    """The next position in a partition. `failing_since_s`: since when its leader has failed, None if it answers."""

    offset: int
    end: int | None
    failing_since_s: float | None = None
    attempt: int = 0
    # The first offset that was skipped because retention had deleted it.
    lost_from: int | None = None


class Reader:
    """Chunks of records, in order within each partition: `async for chunk in reader`. Close it, or use it with
    `async with`.

    `starts` has the first offset to read of each partition; `ends` the first offset not to read; without `ends`,
    reading continues as records arrive. At most a few chunks are read ahead. If a leader does not answer, the reader
    waits as long as a call may take; then ClientError ends the reading. Records below the log start offset are skipped,
    and the chunk says so. `containing`: batches without these bytes are skipped and counted, which makes a search many
    times faster. `forms`: these partitions are read as rows (see Chunk).
    """

    def __init__(
        self,
        caller: Caller,
        starts: Mapping[TopicPartition, int],
        *,
        ends: Mapping[TopicPartition, int] | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        containing: bytes | None = None,
        forms: Mapping[TopicPartition, RowForm] | None = None,
    ) -> None:
        for key, start in starts.items():
            if start < 0:
                raise ClientError(Failure.INVALID, f"offset {start}: must be 0 or more", what=f"partition {key}")
        self._caller = caller
        self._offsets = OffsetCalls(caller)
        self._isolation = isolation
        self._fetch_bytes_max = fetch_bytes_max
        self._partition_bytes_max = partition_bytes_max
        self._containing = containing
        self._forms = forms or {}
        self._positions = {
            key: _Position(start, None if ends is None else ends[key])
            for key, start in starts.items()
            if ends is None or start < ends[key]
        }
        self._chunks: asyncio.Queue[Chunk | ClientError | None] = asyncio.Queue(QUEUED_CHUNKS_MAX)
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to fetch, of the partitions that are not at their end."""
        return {key: position.offset for key, position in self._positions.items()}

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        while not self._is_closed:
            chunk = await self._chunks.get()
            if chunk is None:
                return
            if isinstance(chunk, ClientError):
                raise chunk
            yield chunk

    async def _run(self) -> None:
        """Run a loop for each leader, restarted for partitions whose leader changed, until all are at their end."""
        idle = set(self._positions)
        loops: dict[asyncio.Task[set[TopicPartition]], Peer] = {}
        try:
            while self._positions:
                idle &= self._positions.keys()
                if idle:
                    for peer, keys in (await self._locate(idle)).items():
                        for start in range(0, len(keys), PARTITIONS_MAX):
                            part = keys[start : start + PARTITIONS_MAX]
                            loops[asyncio.create_task(self._follow(peer, part))] = peer
                            idle.difference_update(part)
                if not loops:
                    continue
                # Partitions without a leader do not wait for those of others: `_locate` has paused.
                timeout_s = 0 if idle else None
                done, _ = await asyncio.wait(loops, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del loops[task]
                    idle |= task.result()
            await self._chunks.put(None)
        except ClientError as error:
            await self._chunks.put(error)
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _locate(self, keys: set[TopicPartition]) -> dict[Peer, list[TopicPartition]]:
        """The current leaders of `keys`; waits a moment if a key has none."""
        deadline = self._caller.deadline()
        ordered = sorted(keys)
        try:
            places, failed = await Leaders(self._caller.metadata).locate(ordered, deadline)
        except ClientError as error:
            places, failed = {}, dict.fromkeys(ordered, error)
        for key, failure in failed.items():
            self._note_failure(key, failure)
        if failed:
            attempt = max(self._positions[key].attempt for key in failed)
            await Deadline(self._caller.timeout_s + 2.0).back_off(attempt)
        return {Peer(peer.address, peer.node_id): theirs for peer, theirs in places.items()}

    def _note_failure(self, key: TopicPartition, error: ClientError) -> None:
        """Count a failure of `key`; ClientError if it is not retriable, or lasted too long."""
        position = self._positions[key]
        now = asyncio.get_running_loop().time()
        if position.failing_since_s is None:
            position.failing_since_s = now
        position.attempt += 1
        patient = now - position.failing_since_s < self._caller.timeout_s
        if not patient or not self._caller.may_retry(error, position.attempt):
            raise error.about(f"partition {key}")
        self._caller.metadata.forget([key.topic])

    async def _follow(self, peer: Peer, keys: list[TopicPartition]) -> set[TopicPartition]:
        """Fetch `keys` from their leader until one fails; returns those that are not at their end."""
        peer = peer._replace(lane=f"fetch-{next(_lanes)}")
        try:
            return await self._fetch_from(peer, keys)
        finally:
            self._caller.pool.leave(peer.lane)

    async def _fetch_from(self, peer: Peer, keys: list[TopicPartition]) -> set[TopicPartition]:
        order = deque(keys)
        while order:
            try:
                answer, version = await self._fetch(peer, order)
            except ClientError as error:
                left = {key for key in order if key in self._positions}
                for key in left:
                    self._note_failure(key, error)
                await Deadline(self._caller.timeout_s).back_off(1)
                return left
            moved: set[TopicPartition] = set()
            ids = {self._caller.metadata.topic_id(key.topic): key.topic for key in order}
            for topic in answer.responses:
                name = topic.topic if version < 13 else ids.get(topic.topic_id, "")
                for part in topic.partitions:
                    key = TopicPartition(name, part.partition_index)
                    if key in self._positions and not await self._take(peer, key, part):
                        moved.add(key)
            order = deque(key for key in order if key in self._positions)
            # A broker fills its answer in the requested order: rotate, so that another partition comes first next time.
            order.rotate(-1)
            if moved:
                await Deadline(self._caller.timeout_s).back_off(1)
                return set(order)
        return set()

    async def _fetch(self, peer: Peer, keys: Iterable[TopicPartition]) -> tuple[messages.FetchResponse, int]:
        return await fetch(
            self._caller,
            peer,
            {key: self._positions[key].offset for key in keys},
            self._caller.deadline(),
            bytes_max=self._fetch_bytes_max,
            partition_bytes_max=self._partition_bytes_max,
            bytes_min=1,
            wait_ms=WAIT_MS,
            isolation=self._isolation,
        )

    async def _take(self, peer: Peer, key: TopicPartition, part: messages.FetchResponse.PartitionData) -> bool:
        """Pass on the records of one partition; False if its leader must be looked up again."""
        position = self._positions[key]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._skip_deleted(peer, key, position)
            return True
        if (problem := problem_of(part.error_code)) is not None:
            self._note_failure(key, refused(problem, peer.name, "Fetch", f"partition {key}"))
            return False
        position.failing_since_s, position.attempt = None, 0
        chunk = decode_partition(
            key,
            part,
            position.offset,
            position.end,
            self._isolation,
            position.lost_from,
            self._containing,
            self._forms.get(key),
        )
        at_end = position.end is not None and chunk.next_offset >= position.end
        moved = chunk.next_offset > position.offset
        position.offset = chunk.next_offset
        if at_end:
            del self._positions[key]
        if moved or at_end or chunk.lost_from is not None:
            position.lost_from = None
            await self._chunks.put(chunk)
        return True

    async def _skip_deleted(self, peer: Peer, key: TopicPartition, position: _Position) -> None:
        """Continue at the log start offset if retention overtook the reader; ClientError if it is beyond the end."""
        earliest = (await self._offsets.earliest([key])).whole()[key]
        if position.offset >= earliest:
            end = (await self._offsets.latest([key])).whole()[key]
            raise ClientError(
                Failure.REFUSED,
                f"offset {position.offset} is beyond the end: the log has {earliest} to {end}",
                broker=peer.name,
                api="Fetch",
                code=ErrorCode.OFFSET_OUT_OF_RANGE,
                what=f"partition {key}",
            )
        position.lost_from = position.offset
        position.offset = earliest
        if position.end is not None and earliest >= position.end:
            del self._positions[key]
            await self._chunks.put(Chunk(key, [], earliest, -1, -1, earliest, 0, 0, position.lost_from, ()))
