"""A consumer without a group: it reads all partitions at one isolation level, and seeks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from broker_cy.wire.records import decode_batches
from tests.history.operations import Assign, Poll, Read, Seek
from tests.sim.world.clients.base import GONE, RETRIABLE, Client, Spot, value_of
from tests.sim.world.router import Router
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

EARLIEST, LATEST = -2, -1
# The time between two checks whether a transaction in a cluster is still open.
STABLE_S = 0.3
# Versions of Fetch: the last one in which topics have names, and one in which they have ids.
BY_NAME, BY_ID = 12, 17


def records_of(spot: Spot, part: Any, position: int, *, committed: bool) -> tuple[list[Read], int]:
    """Return what Kafka's consumer reads from one partition of a Fetch response, and its position afterwards."""
    aborted = sorted(part.aborted_transactions or (), key=lambda each: each.first_offset)
    skipped: set[int] = set()
    reads: list[Read] = []
    for batch in decode_batches(part.records or b""):
        assert batch.is_valid(), f"{spot.place}: the checksum of the batch at {batch.base_offset} is wrong"
        while committed and aborted and aborted[0].first_offset <= batch.last_offset:
            skipped.add(aborted.pop(0).producer_id)
        if batch.is_control:
            # The key is version and type; type 0 is an abort.
            if bytes(batch.records()[0].key or b"")[2:4] == b"\0\0":
                skipped.discard(batch.producer_id)
        elif not (committed and batch.is_transactional and batch.producer_id in skipped):
            reads += [
                Read(spot.place, record.offset, value_of(record))
                for record in batch.records()
                if record.offset >= position
            ]
        position = max(position, batch.last_offset + 1)
    return reads, position


class Fetcher(Client):
    """The common part of consumers."""

    committed = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.positions: dict[Spot, int] = {}
        # By partition, the high watermark of the last answer: it never goes back.
        self.high_watermarks: dict[Spot, int] = {}

    def assign(self, positions: dict[Spot, int], *, unknown: bool = False) -> None:
        """Take other partitions; `unknown`: the start positions are not reported."""
        self.positions = dict(positions)
        known = {spot.place: None if unknown else at for spot, at in positions.items()}
        self.recorder.add(Assign(self.name, self.committed, known))

    async def poll(self, spots: Iterable[Spot], max_wait_ms: int = 0) -> None:
        """One Fetch, without a session. Raises Lost."""
        spots = list(spots)
        topics = [
            m.FetchRequest.FetchTopic(
                topic=spot.topic,
                topic_id=spot.topic_id,
                partitions=[
                    m.FetchRequest.FetchPartition(
                        partition=spot.partition,
                        current_leader_epoch=-1,
                        fetch_offset=self.positions[spot],
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=self.draw.choice([200, 5_000, 1 << 20]),
                    )
                ],
            )
            for spot in spots
        ]
        request = m.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self.draw.choice([0, 1, 1, 3_000]),
            isolation_level=int(self.committed),
            topics=topics,
        )
        by_name = self.draw.chance(0.15) and all(map(self.may_name, spots))
        answer = await self.once(request, BY_NAME if by_name else BY_ID)
        # The next look at the metadata may find later ones.
        epochs = {spot: self._epoch_of(spot) for spot in spots}
        asked = {(spot.topic if by_name else spot.topic_id, spot.partition): spot for spot in spots}
        reads: list[Read] = []
        gone: set[UUID] = set()
        if by_name:
            # Another life of a topic may have answered.
            volatile = {spot.topic: spot for spot in spots if spot.topic[0] == "v"}
            gone |= {spot.topic_id for spot in volatile.values() if not await self.is_alive(spot)}
        for topic in answer.responses:
            for part in topic.partitions:
                spot = asked[topic.topic if by_name else topic.topic_id, part.partition_index]
                if part.error_code in GONE:
                    gone.add(spot.topic_id)
                elif spot.topic_id not in gone:
                    reads += await self._take(spot, part, epochs[spot])
        positions = {spot.place: at for spot, at in self.positions.items() if spot in spots}
        self.recorder.add(Poll(self.name, self.recorder.now(), tuple(reads), positions))
        self.world.reads += len(reads)
        self.successes += 1
        if gone:
            self.assign({spot: at for spot, at in self.positions.items() if spot.topic_id not in gone})
            self.spots.clear()

    def _epoch_of(self, spot: Spot) -> int:
        """The leader epoch in fetches of a partition: -1 without a cluster."""
        return self.channel.epoch_of(spot.topic_id, spot.partition) if isinstance(self.channel, Router) else -1

    async def _take(self, spot: Spot, part: Any, epoch: int) -> list[Read]:
        """Take over one partition of the answer to a fetch with this leader epoch."""
        code = ErrorCode(part.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            ends = self.world.sites[self.host].ends
            start = await self.offset_of(spot, EARLIEST)
            # A volatile topic may be another one by now, and the end of a process may undo a deletion.
            is_new = start is not None and start > self.positions[spot]
            may_differ = spot.topic[0] in "vu" or ends != self.world.sites[self.host].ends
            # A leader that does not know yet that it was replaced deletes records from its own log when it is asked to,
            # as in Kafka (KIP-107), and refuses what it has deleted. Its successor still has these records.
            was_deposed = self.world.is_trimmed(spot) and self.cluster.has_newer_leader(
                spot.topic_id, spot.partition, epoch
            )
            assert is_new or start is None or may_differ or was_deposed, (
                f"{self.name}: {self.positions[spot]} of {spot.place} is out of range, and the log starts at {start}"
            )
            if start is not None and (is_new or spot.topic[0] == "u"):
                self.positions[spot] = start
                self.recorder.add(Seek(self.name, spot.place, start))
            return []
        if code in RETRIABLE:
            return []
        assert code is ErrorCode.NONE, f"{self.name}: {code.name} for {spot.place}"
        # In a cluster a new leader may not know yet how much is committed (KIP-207), and answers overtake each other:
        # there each node's own are checked, and all that was read.
        before = 0 if self.world.plan.is_cluster else self.high_watermarks.get(spot, 0)
        assert part.high_watermark >= before, (
            f"{self.name}: the high watermark of {spot.place} goes back from {before} to {part.high_watermark}"
        )
        self.high_watermarks[spot] = part.high_watermark
        assert part.last_stable_offset <= part.high_watermark
        reads, position = records_of(spot, part, self.positions[spot], committed=self.committed)
        limit = part.last_stable_offset if self.committed else part.high_watermark
        assert position <= max(limit, self.positions[spot]), f"{self.name}: {spot.place}: {position} is beyond {limit}"
        self.positions[spot] = position
        return reads

    async def offset_of(self, spot: Spot, timestamp: int, *, committed: bool = False) -> int | None:
        """Return the offset for a timestamp (ListOffsets); None if the partition is gone or does not answer."""
        part = m.ListOffsetsRequest.ListOffsetsPartition(
            partition_index=spot.partition, current_leader_epoch=-1, timestamp=timestamp
        )
        topic = m.ListOffsetsRequest.ListOffsetsTopic(name=spot.topic, partitions=[part])
        request = m.ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=[topic], timeout_ms=1_000)
        answer = (await self.ask(request, 10)).topics[0].partitions[0]
        return None if answer.error_code else int(answer.offset)


class Reader(Fetcher):
    takes_unclean = True

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.committed = self.draw.chance(0.6)

    async def step(self) -> None:
        if not self.positions or self.draw.chance(0.05):
            await self.look()
            # A topic that was deleted and recreated since then is another topic.
            self.assign(dict.fromkeys(self.spots, 0))
            if not self.spots:
                return await self.back_off()
        if self.draw.chance(0.05):
            spot = self.draw.choice(list(self.positions))
            self.positions[spot] = self.draw.randint(0, self.positions[spot])
            self.recorder.add(Seek(self.name, spot.place, self.positions[spot]))
        spots = list(self.positions)
        if self.draw.chance(0.3):
            spots = self.draw.sample(spots, self.draw.randint(1, len(spots)))
        try:
            await self.poll(spots, self.draw.choice([0, 0, 100, 500]))
        except Lost:
            await self.back_off()
        return None


class LastReader(Fetcher):
    """Reads everything at one isolation level when the faults are over, and ends."""

    takes_unclean = True

    def __init__(self, world: World, name: str, host: str, *, committed: bool) -> None:
        super().__init__(world, name, host)
        self.committed = committed

    async def run(self) -> None:
        await self.look()
        ends: dict[Spot, int] = {}
        for spot in self.spots:
            ends[spot] = await self._stable_end(spot)
        starts: dict[Spot, int] = {}
        for spot in self.spots:
            # The leader may have moved again in the meantime.
            while (start := await self.offset_of(spot, EARLIEST)) is None:
                await self.back_off()
            starts[spot] = start
        self.assign(starts)
        while left := [spot for spot, end in ends.items() if self.positions[spot] < end]:
            try:
                await self.poll(left)
            except Lost:
                await self.back_off()
        self.is_done = True

    async def _stable_end(self, spot: Spot) -> int:
        """The end of the partition, as soon as no transaction is open."""
        while True:
            ends = [await self.offset_of(spot, LATEST, committed=committed) for committed in (False, True)]
            if ends[0] is not None and ends[0] == ends[1]:
                return ends[0]
            if self.world.plan.is_cluster:
                await asyncio.sleep(STABLE_S)
            else:
                await self.back_off()
