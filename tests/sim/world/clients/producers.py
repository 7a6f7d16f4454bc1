"""Producers: idempotent ones that send everything until it is answered, and one that never retries."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from broker_cy.wire.records import encode_batch
from tests.history.operations import Fate, Send
from tests.sim.world.clients.base import GONE, RETRIABLE, Client, Spot
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

KEYS = 5
CODECS = (0, 0, 0, 1, 2, 3, 4)
BYTES_MAX = 20_000
# How long a client of a cluster lets leaders wait for followers: the same for all its requests, which share an order.
TIMEOUTS_MS = (30_000, 100, 400)
# Batches of one step; a broker accepts five of a producer that it has not answered (max.in.flight).
BATCHES_MAX = 5
# Versions of Produce: the last one in which topics have names, and one in which they have ids.
BY_NAME, BY_ID = 12, 13
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


@dataclass
class Batch:
    """One batch that is sent until its fate is known."""

    spot: Spot
    values: list[tuple[str, str | None]]
    data: bytes
    transaction: str | None = None
    # How many processes of brokers had ended when it was made.
    ends: int = 0
    # A later one of its partition was taken first.
    is_overtaken: bool = False

    def request(self, acks: int, transactional_id: str | None = None, timeout_ms: int = 30_000) -> Any:
        part = m.ProduceRequest.PartitionProduceData(index=self.spot.partition, records=self.data)
        topic = m.ProduceRequest.TopicProduceData(
            name=self.spot.topic, topic_id=self.spot.topic_id, partition_data=[part]
        )
        return m.ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


class Sender(Client):
    """The common part of all producers."""

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.count = 0
        self.producer_id = self.epoch = -1
        self.sequences: dict[Spot, int] = {}
        waits = world.draws(f"{name} waits").choice(TIMEOUTS_MS)
        self.timeout_ms = waits if world.plan.is_cluster else TIMEOUTS_MS[0]

    def some_batch(self, spot: Spot, transaction: str | None = None) -> Batch:
        values: list[tuple[str, str | None]] = []
        for _ in range(self.draw.randint(1, 5)):
            key = f"k{self.draw.randrange(KEYS)}" if spot.topic[0] == "c" or self.draw.chance(0.5) else None
            values.append((f"{self.name}-{self.count}", key))
            self.count += 1
        sequence = self.sequences.get(spot, 0)
        if self.producer_id >= 0:
            self.sequences[spot] = sequence + len(values)
        data = encode_batch(
            self.records(values),
            codec=self.draw.choice(CODECS),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence if self.producer_id >= 0 else -1,
            transactional=transaction is not None,
        )
        return Batch(spot, values, data, transaction, self.world.sites[self.host].ends)

    def settle(self, batch: Batch, fate: Fate, base_offset: int | None = None) -> None:
        """Record the fate of each record of a batch."""
        for at, (value, key) in enumerate(batch.values):
            offset = base_offset + at if base_offset is not None else None
            self.world.recorder.add(Send(value, batch.spot.place, fate, offset, batch.transaction, key))
        self.successes += fate is not Fate.UNKNOWN
        if fate is Fate.ACKED:
            self.world.acked += len(batch.values)

    async def new_identity(self, request: Any) -> Any:
        """InitProducerId until it succeeds; the sequences begin again."""
        while True:
            answer = await self.ask(request, 5)
            if answer.error_code == ErrorCode.NONE:
                break
            assert answer.error_code in RETRIABLE, f"{self.name}: InitProducerId: {ErrorCode(answer.error_code).name}"
            await self.back_off()
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return answer


def result_of(answer: Any) -> tuple[ErrorCode, int]:
    """Error code and base offset of the only partition of a Produce answer."""
    part = answer.responses[0].partition_responses[0]
    return ErrorCode(part.error_code), part.base_offset


class PlainProducer(Sender):
    """Idempotent; several batches in flight, and all of them again, in order, after each loss of the connection."""

    takes_unclean = True

    async def begin(self) -> None:
        await self.new_identity(m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))

    async def step(self) -> None:
        if not self.spots or self.draw.chance(0.1):
            await self.look()
        if not self.spots:
            return await self.back_off()
        if self.draw.chance(0.2):
            spot = self.draw.choice(self.spots)
            if self.may_name(spot):
                return await self._by_name(spot)
        pending = [self.some_batch(self.draw.choice(self.spots)) for _ in range(self.draw.randint(1, BATCHES_MAX))]
        acks = self.draw.choice([-1, -1, 1])
        if self.world.plan.is_cluster:
            acks = -1
        while pending:
            if self.draw.chance(0.03):
                self.hang_up()
            pending, is_lost = await self._send_all(pending, acks)
            if is_lost:
                for batch in pending:
                    self.settle(batch, Fate.UNKNOWN)
                self.spots.clear()
                return await self.begin()
            if pending:
                await self.back_off()
        return None

    async def _by_name(self, spot: Spot) -> None:
        """Send a batch to the topic with this name. It must succeed if the topic stays the same. A batch that may have
        been written is not sent again: another life of the topic does not know the sequence.
        """
        while True:
            batch = self.some_batch(spot)
            code, base_offset = ErrorCode.REQUEST_TIMED_OUT, -1
            with suppress(Lost):
                code, base_offset = result_of(await self.once(batch.request(-1, timeout_ms=self.timeout_ms), BY_NAME))
            is_same = await self.is_alive(spot)
            if is_same and code is ErrorCode.NONE:
                return self.settle(batch, Fate.ACKED, base_offset)
            # Another life may have taken it.
            self.settle(batch, Fate.UNKNOWN)
            assert code in RETRIABLE | GONE | {ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}, (
                f"{self.name}: {code.name} for {batch.values} in {spot.place} by name"
            )
            await self.begin()
            if not is_same:
                return self.spots.clear()
            await self.back_off()

    async def _send_all(self, pending: list[Batch], acks: int) -> tuple[list[Batch], bool]:
        """Send all batches; returns those without a fate, and whether the sequences must begin again."""
        try:
            channel = await self.connected()
        except Lost:
            return pending, False
        answers = [channel.send(batch.request(acks, timeout_ms=self.timeout_ms), BY_ID) for batch in pending]
        left: list[Batch] = []
        is_lost = False
        for batch, waiting in zip(pending, answers, strict=True):
            try:
                code, base_offset = result_of(await waiting)
            except Lost:
                left.append(batch)
                continue
            if code is ErrorCode.NONE:
                self.settle(batch, Fate.ACKED, base_offset)
                for each in left:
                    each.is_overtaken |= each.spot == batch.spot
            elif code in RETRIABLE:
                left.append(batch)
            elif code in GONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                # An earlier attempt may have been written.
                self.settle(batch, Fate.UNKNOWN)
                is_lost |= code in GONE
            elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and any(each.spot == batch.spot for each in left):
                left.append(batch)
            elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (is_lost or self._is_forgotten(batch)):
                self.settle(batch, Fate.UNKNOWN)
                is_lost = True
            else:
                raise AssertionError(f"{self.name}: {code.name} for {batch.values} in {batch.spot.place}")
        return left, is_lost

    def _is_forgotten(self, batch: Batch) -> bool:
        """Whether the broker may have forgotten a written batch. After a restart it knows the batches before the newest
        one of a producer from the log (storage.resends), which may have been trimmed or compacted. A deposed leader
        does not know the batches of its successor. As in Kafka, a leader that rejects a batch (NOT_ENOUGH_REPLICAS) of
        an unknown producer and accepts the next one rejects the first one when it is sent again. A leader that was
        elected uncleanly may lack any batch.
        """
        spot = batch.spot
        if spot.topic[0] == "u":
            return True
        if self.world.plan.is_cluster and (
            batch.is_overtaken or self.world.cluster.has_deposed_leader(spot.topic, spot.partition)
        ):
            return True
        is_kept = batch.spot.topic[0] != "c" and not self.world.is_trimmed(batch.spot)
        return not is_kept and batch.ends != self.world.sites[self.host].ends


class RefusedProducer(Sender):
    """Without sequences, and without a second attempt; some of its records must be refused."""

    takes_unclean = True
    # Any other error means that nothing was written.
    UNSURE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR})
    # In a cluster the leader may have lost its leadership, or its followers, after it wrote.
    UNSURE_IN_CLUSTER = UNSURE | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}

    async def step(self) -> None:
        if not self.spots or self.draw.chance(0.2):
            await self.look()
        if not self.spots:
            return await self.back_off()
        spot = self.draw.choice(self.spots)
        batch = self.some_batch(spot)
        too_large = self.draw.chance(0.2)
        if too_large:
            filler = (f"{self.name}-{self.count}:" + "." * 2 * BYTES_MAX, "k0")
            self.count += 1
            batch = Batch(spot, [(filler[0].partition(":")[0], "k0")], encode_batch(self.records([filler])))
        by_name = self.draw.chance(0.3) and self.may_name(spot)
        acks = 1 if self.world.plan.is_cluster and self.draw.chance(0.3) else -1
        try:
            request = batch.request(acks, timeout_ms=self.timeout_ms)
            code, base_offset = result_of(await self.once(request, BY_NAME if by_name else BY_ID))
        except Lost:
            return self.settle(batch, Fate.UNKNOWN)
        if code is ErrorCode.NONE and by_name and not await self.is_alive(spot):
            self.spots.clear()
            return self.settle(batch, Fate.UNKNOWN)
        if code is ErrorCode.NONE:
            assert not too_large, f"{self.name}: {len(batch.data)} bytes were accepted in {spot.place}"
            if acks == 1:
                # Another replica that leads later need not have it.
                return self.settle(batch, Fate.UNKNOWN)
            return self.settle(batch, Fate.ACKED, base_offset)
        if code in GONE:
            self.spots.clear()
        unsure = self.UNSURE_IN_CLUSTER if self.world.plan.is_cluster else self.UNSURE
        return self.settle(batch, Fate.UNKNOWN if code in unsure else Fate.REFUSED)
