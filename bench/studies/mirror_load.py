"""The load of `bench.studies.mirror`: a topic of the source, its copy, and records between them. That of the study of
streams too: there, the copy is what an application writes.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import decode_partition, fetch
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record

TIMEOUT_S: Final = 60.0
PARTITIONS: Final = 4
RECORD_BYTES: Final = 1_000
# Records of a batch: 1 MB.
RECORDS: Final = 1_000
# Records of the schedule are produced this often, to each partition in turn.
TICK_S: Final = 0.01
LAST_S_MAX: Final = 60.0
# The time when a record was due stands before its value, as text: an application may change it as text.
_DUE: Final = b"%020.6f"
_DUE_BYTES: Final = 20


class Topic(NamedTuple):
    """A topic of the source. Its copy in the target is A.NAME, or `copy`."""

    name: str
    source: str
    target: str
    copy: str = ""
    record_bytes: int = RECORD_BYTES
    # Different keys of the records of a schedule; none have keys with 0.
    record_keys: int = 0

    @property
    def remote(self) -> str:
        return self.copy or f"A.{self.name}"

    @property
    def keys(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(PARTITIONS)]

    @property
    def remote_keys(self) -> list[TopicPartition]:
        return [TopicPartition(self.remote, index) for index in range(PARTITIONS)]


async def create(topic: Topic) -> None:
    async with AdminClient(topic.source, timeout_s=TIMEOUT_S) as client:
        (await client.topics.create([NewTopic(topic.name, PARTITIONS, 1)])).whole()


async def copied(client: AdminClient, topic: Topic) -> int:
    """Return the sum of the ends of the copy for readers of committed records; 0 before it exists."""
    outcome = await client.offsets.latest(topic.remote_keys, isolation=Isolation.READ_COMMITTED)
    return sum(outcome.found.values())


async def fill(topic: Topic, records: int) -> None:
    """Produce this many records of 1 KB to each partition of the source, in batches of 1 MB."""
    now_ms = int(time.time() * 1000)
    payload = [Record(timestamp=now_ms, value=os.urandom(RECORD_BYTES)) for _ in range(min(RECORDS, records))]
    async with AdminClient(topic.source, timeout_s=TIMEOUT_S) as client:
        producer = client.records.producer()

        async def send(key: TopicPartition) -> None:
            for first in range(0, records, RECORDS):
                await producer.send_batch(key, payload[: records - first])

        await asyncio.gather(*map(send, topic.keys))


async def ages_ms(topic: Topic, rate: int, seconds: float) -> list[float]:
    """Produce `rate` records in a second on a schedule; return the age of each when a consumer of the target has got
    it, from the time when it was due.
    """
    found: list[float] = []
    wanted = int(rate * TICK_S) * int(seconds / TICK_S)
    async with (
        AdminClient(topic.source, timeout_s=TIMEOUT_S) as source,
        AdminClient(topic.target, timeout_s=TIMEOUT_S) as target,
    ):
        offsets = (await target.offsets.latest(topic.remote_keys, isolation=Isolation.READ_COMMITTED)).whole()
        reading = asyncio.create_task(_read(target, offsets, wanted, found))
        try:
            await _produce(source, topic, int(rate * TICK_S), int(seconds / TICK_S))
            async with asyncio.timeout(LAST_S_MAX):
                await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    return found


async def _produce(client: AdminClient, topic: Topic, records: int, ticks: int) -> None:
    producer = client.records.producer()
    filler = os.urandom(topic.record_bytes).hex().encode()[: topic.record_bytes - _DUE_BYTES]
    begun_s = time.perf_counter() + 0.1
    sends = set()
    for tick in range(ticks):
        due_s = begun_s + tick * TICK_S
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        now_ms = int(time.time() * 1000)
        batch = [
            Record(timestamp=now_ms, key=_key(topic, tick * records + number), value=_DUE % due_s + filler)
            for number in range(records)
        ]
        send = asyncio.create_task(producer.send_batch(topic.keys[tick % PARTITIONS], batch))
        sends.add(send)
        send.add_done_callback(sends.discard)
    await asyncio.gather(*sends)


def _key(topic: Topic, number: int) -> bytes | None:
    return b"key-%d" % (number % topic.record_keys) if topic.record_keys else None


async def _read(client: AdminClient, offsets: dict[TopicPartition, int], wanted: int, found: list[float]) -> None:
    caller = client.caller
    metadata, _ = await caller.metadata.topics({key.topic for key in offsets}, caller.deadline())
    (topic,) = metadata.values()
    # There is one broker.
    peer = (await caller.metadata.peer(topic.partitions[0].leader_id, caller.deadline()))._replace(lane="ages")
    while len(found) < wanted:
        answer, _ = await fetch(
            caller,
            peer,
            offsets,
            caller.deadline(),
            bytes_max=4 << 20,
            partition_bytes_max=1 << 20,
            bytes_min=1,
            wait_ms=500,
            isolation=Isolation.READ_COMMITTED,
        )
        now_s = time.perf_counter()
        for each in (part for of_topic in answer.responses for part in of_topic.partitions):
            key = TopicPartition(topic.name, each.partition_index)
            chunk = decode_partition(key, each, offsets[key], None, Isolation.READ_COMMITTED)
            offsets[key] = chunk.next_offset
            found += [(now_s - float((record.value or b"")[:_DUE_BYTES])) * 1000 for record in chunk.records]
