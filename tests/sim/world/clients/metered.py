"""A client with a byte rate quota that is set and removed. Beyond the quota, a broker answers immediately, and delays
the next request of the connection by the throttle time of the answer (KIP-219).

The quotas in force have versions, like the warden's rules. A throttled client must have a quota in a version that is
not older than those that the broker has shown. After a change was acknowledged, a leader applies it sooner or later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from broker_cy.wire import messages as m
from broker_cy.wire.records import encode_batch
from tests.history.operations import Fate
from tests.sim.world.clients.base import GONE, RETRIABLE, Spot
from tests.sim.world.clients.producers import BY_ID, Batch, Sender, result_of
from tests.sim.world.wire import TIMEOUT_S, Channel, Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
# One second of this rate is less than a batch.
BYTES_PER_S = 300
BATCH_BYTES = 500
# No throttle time is longer: a broker forgets bytes that are older than its quota windows.
WAIT_MS_MAX = 30_000
# A broker's clock may be this much faster than the world's; one more millisecond is for rounding.
TOLERANCE = 0.999


class Metered(Sender):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        # The newest version may not be committed yet.
        self.versions: list[frozenset[str]] = [frozenset()]
        # The oldest version that a broker has shown to know.
        self.least: dict[str, int] = {}
        self.channels: dict[str, Channel] = {}

    async def step(self) -> None:
        await self._change()
        while not await self._agrees():
            await self.back_off()
        self.successes += 1

    async def _change(self) -> None:
        key = self.draw.choice(KEYS)
        newest = self.versions[-1]
        self.versions.append(newest ^ {key})
        self.world.note(f"{self.name}: quotas {sorted(self.versions[-1])}")
        request = m.AlterClientQuotasRequest
        op = request.OpData(key=key, value=float(BYTES_PER_S), remove=key in newest)
        entity = request.EntityData(entity_type="client-id", entity_name=self.name)
        entry = request.EntryData(entity=[entity], ops=[op])
        while code := (await self.ask(request(entries=[entry]), 1)).entries[0].error_code:
            assert code in RETRIABLE, f"{self.name}: the quota cannot be changed: {ErrorCode(code).name}"
            await self.back_off()

    async def _agrees(self) -> bool:
        """Whether a leader applies the newest version, as far as that is visible."""
        await self.look()
        if not self.spots:
            return False
        spot = self.draw.choice(self.spots)
        host = await self.leader_of(spot)
        if host is None:
            return False
        newest = self.versions[-1]
        try:
            if await self._produce(host, spot) is not (PRODUCER_BYTE_RATE in newest):
                return False
            for _ in range(10):
                has_to_wait = await self._fetch(host, spot)
                # Small batches of several fetches count together.
                if has_to_wait is None or has_to_wait or CONSUMER_BYTE_RATE not in newest:
                    break
            return has_to_wait is (CONSUMER_BYTE_RATE in newest)
        except Lost:
            return False

    async def _connected(self, host: str) -> Channel:
        channel = self.channels.get(host)
        if channel is None or channel.is_lost:
            channel = self.channels[host] = Channel(self.world, self.name, host)
            await channel.open()
        return channel

    async def _produce(self, host: str, spot: Spot) -> bool | None:
        """Whether the broker throttles it; None if nothing was written."""
        value = f"{self.name}-{self.count}"
        self.count += 1
        # Compacted topics need a key.
        data = encode_batch(self.records([(f"{value}:" + "." * BATCH_BYTES, "k0")]))
        batch = Batch(spot, [(value, "k0")], data)
        try:
            channel = await self._connected(host)
            began_us = self.world.time.now_us
            answer = await channel.send(batch.request(-1, timeout_ms=1_000), BY_ID)
        except Lost:
            self.settle(batch, Fate.UNKNOWN)
            raise
        code, offset = result_of(answer)
        self.settle(batch, Fate.ACKED if code is ErrorCode.NONE else Fate.UNKNOWN, offset)
        assert code is ErrorCode.NONE or code in RETRIABLE | GONE, f"{self.name}: {code.name}"
        found = await self._waits(host, channel, PRODUCER_BYTE_RATE, began_us, answer)
        return found if code is ErrorCode.NONE else None

    async def _fetch(self, host: str, spot: Spot) -> bool | None:
        part = m.FetchRequest.FetchPartition(
            partition=spot.partition, fetch_offset=0, partition_max_bytes=1 << 16, current_leader_epoch=-1
        )
        topic = m.FetchRequest.FetchTopic(topic_id=spot.topic_id, partitions=[part])
        request = m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 16, topics=[topic])
        channel = await self._connected(host)
        began_us = self.world.time.now_us
        answer = await channel.send(request, BY_ID)
        has_records = any(part.records for topic in answer.responses for part in topic.partitions)
        assert not (answer.throttle_time_ms and has_records), f"{self.name}: {host} sends records, and has it wait"
        return await self._waits(host, channel, CONSUMER_BYTE_RATE, began_us, answer)

    async def _waits(self, host: str, channel: Channel, key: str, began_us: int, answer: Any) -> bool:
        """Whether the client is throttled. If so, its next request must be answered later."""
        wait_ms = answer.throttle_time_ms
        if not wait_ms:
            return False
        assert 0 < wait_ms <= WAIT_MS_MAX, f"{self.name}: {host} wants a wait of {wait_ms} ms"
        least = self.least.get(host, 0)
        version = next((v for v in range(least, len(self.versions)) if key in self.versions[v]), None)
        assert version is not None, f"{self.name}: {host} wants a wait, and there is no {key} since version {least}"
        self.least[host] = version
        request = m.MetadataRequest(topics=[], allow_auto_topic_creation=False)
        await channel.send(request, 13, TIMEOUT_S + wait_ms / 1000)
        waited_ms = (self.world.time.now_us - began_us) / 1000
        assert waited_ms >= wait_ms * TOLERANCE - 1, f"{self.name}: {host} answers after {waited_ms} of {wait_ms} ms"
        return True
