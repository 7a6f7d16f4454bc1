"""Ordinary use of aiokafka, which only supports the older, not flexible versions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

from tests.support.broker import Target

TIMEOUT_S = 60.0
TOPIC_ALREADY_EXISTS, INVALID_TOPIC, INVALID_CONFIG, UNKNOWN_TOPIC = 36, 17, 40, 3


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run the test's body, on a separate loop, with a time limit."""
    asyncio.run(asyncio.wait_for(coroutine, 2 * TIMEOUT_S))


class Life:
    """Clients of one test, which end with it."""

    def __init__(self, broker: Target, group: str, stack: AsyncExitStack) -> None:
        self.broker = broker
        self.group = group
        self._stack = stack

    async def admin(self) -> AIOKafkaAdminClient:
        client = AIOKafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        await client.start()
        self._stack.push_async_callback(client.close)
        return client

    async def producer(self, **settings: Any) -> AIOKafkaProducer:
        client = AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, **{"acks": "all", **settings})
        await client.start()
        self._stack.push_async_callback(client.stop)
        return client

    async def consumer(self, *topics: str, **settings: Any) -> AIOKafkaConsumer:
        common = {"group_id": self.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        common |= {"fetch_max_wait_ms": 50, "heartbeat_interval_ms": 100, "metadata_max_age_ms": 1000}
        client = AIOKafkaConsumer(*topics, bootstrap_servers=self.broker.bootstrap, **{**common, **settings})
        await client.start()
        self._stack.push_async_callback(client.stop)
        return client

    async def topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        answer = await (await self.admin()).create_topics([NewTopic(name, partitions, 1, topic_configs=configs or {})])
        assert [error[1] for error in answer.topic_errors] == [0], answer

    async def ten(self, name: str) -> None:
        """A topic with the records 0 to 9 in its one partition."""
        await self.topic(name)
        producer = await self.producer()
        for number in range(10):
            await producer.send_and_wait(name, b"%d" % number, partition=0)


@asynccontextmanager
async def life(broker: Target, group: str) -> AsyncIterator[Life]:
    async with AsyncExitStack() as stack:
        yield Life(broker, group, stack)


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records came"
        for batch in (await consumer.getmany(timeout_ms=200, max_records=count - len(records))).values():
            records += batch
    return records


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not await condition():
        assert time.monotonic() < deadline, f"{what} did not come in time"
        await asyncio.sleep(0.05)


def values(records: list[Any]) -> list[bytes | None]:
    return [record.value for record in records]


def test_admin(broker: Target, topic: str, group: str) -> None:
    """If this fails, an administrator's calls in their oldest versions do not work."""

    async def body() -> None:
        async with life(broker, group) as my:
            admin = await my.admin()
            await my.topic(topic, 2, {"retention.ms": "1000000"})
            again = await admin.create_topics([NewTopic(topic, 2, 1), NewTopic("a b", 1, 1)])
            assert [error[1] for error in again.topic_errors] == [TOPIC_ALREADY_EXISTS, INVALID_TOPIC]
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert [partition["partition"] for partition in described["partitions"]] == [0, 1]
            await admin.create_partitions({topic: NewPartitions(4)})

            async def four() -> bool:
                return len((await admin.describe_topics([topic]))[0]["partitions"]) == 4

            await eventually(four, "4 partitions")
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            shown = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert shown["retention.ms"] == "1000000"
            assert shown["cleanup.policy"] == "delete"
            (answer,) = await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": "1"})]
            )
            assert answer.resources[0][0] == 0, answer
            (answer,) = await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": "x"})]
            )
            assert answer.resources[0][0] == INVALID_CONFIG, answer
            cluster = await admin.describe_cluster()
            assert [(node["host"], node["port"]) for node in cluster["brokers"]] == [(broker.host, broker.port)]
            assert [error[1] for error in (await admin.delete_topics([topic])).topic_error_codes] == [0]

            async def gone() -> bool:
                return topic not in await admin.list_topics()

            await eventually(gone, "the topic to go")
            assert [error[1] for error in (await admin.delete_topics([topic])).topic_error_codes] == [UNKNOWN_TOPIC]

    run(body())


def test_groups(broker: Target, topic: str, group: str) -> None:
    """If this fails, a group cannot be found or described by an older client."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.ten(topic)
            consumer = await my.consumer(topic)
            await take(consumer, 5)
            await consumer.commit({TopicPartition(topic, 0): (5, "note")})
            admin = await my.admin()
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            error, name, state, kind, assignor, members = answer.groups[0][:6]
            assert (error, name, state, kind, assignor) == (0, group, "Stable", "consumer", "roundrobin")
            assert [member[2] for member in members] == ["/127.0.0.1"]
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets[TopicPartition(topic, 0)] == (5, "note")

    run(body())


def test_records(broker: Target, topic: str, group: str) -> None:
    """If this fails, parts of a record are lost or changed on their way."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.topic(topic)
            producer = await my.producer()
            now = int(time.time() * 1000)
            sent: list[dict[str, Any]] = [
                {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("a", b"2"), ("empty", b"")]},
                {"key": None, "value": b"no key", "headers": []},
                {"key": b"no value", "value": None, "headers": []},
            ]
            for index, record in enumerate(sent):
                told = await producer.send_and_wait(topic, partition=0, timestamp_ms=now - index, **record)
                assert (told.offset, told.timestamp) == (index, now - index)
            consumer = await my.consumer(topic)
            got = await take(consumer, 3)
            assert [{"key": each.key, "value": each.value, "headers": list(each.headers)} for each in got] == sent
            assert [each.timestamp for each in got] == [now - index for index in range(3)]

    run(body())


def test_large_and_too_large(broker: Target, topic: str, group: str) -> None:
    """If this fails, a large record is refused, or one that is too large is accepted."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.topic(topic, 1, {"max.message.bytes": "5000000"})
            await my.topic(topic + "-small", 1, {"max.message.bytes": "1000"})
            producer = await my.producer(max_request_size=5_000_000)
            value = bytes(range(256)) * 16_000
            await producer.send_and_wait(topic, value)
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic + "-small", bytes(2000))
            consumer = await my.consumer(topic, max_partition_fetch_bytes=100_000)
            assert values(await take(consumer, 1)) == [value]

    run(body())


@pytest.mark.parametrize(("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)])
def test_acks(broker: Target, topic: str, group: str, acks: Any, idempotent: bool) -> None:
    """If this fails, one of the ways to produce loses records."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.topic(topic)
            producer = await my.producer(acks=acks, enable_idempotence=idempotent, max_batch_size=500)
            futures = [await producer.send(topic, b"%d" % number, partition=0) for number in range(500)]
            await asyncio.gather(*futures)
            consumer = await my.consumer(topic)
            assert values(await take(consumer, 500)) == [b"%d" % number for number in range(500)]

    run(body())


def test_seek_times_pause(broker: Target, topic: str, group: str) -> None:
    """If this fails, a consumer reads from another position than requested, or reads while it is paused."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.topic(topic)
            producer = await my.producer()
            base = int(time.time() * 1000) - 100_000
            for index in range(10):
                await producer.send_and_wait(topic, b"%d" % index, partition=0, timestamp_ms=base + 100 * index)
            consumer, partition = await my.consumer(), TopicPartition(topic, 0)
            consumer.assign([partition])
            for target in (7, 0, 9):
                consumer.seek(partition, target)
                assert values(await take(consumer, 1)) == [b"%d" % target]
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 10
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            found = (await consumer.offsets_for_times({partition: base + 101}))[partition]
            assert (found.offset, found.timestamp) == (2, base + 200)
            assert await consumer.offsets_for_times({partition: base + 901}) == {partition: None}
            consumer.pause(partition)
            await consumer.seek_to_beginning(partition)
            assert await consumer.getmany(timeout_ms=300) == {}
            consumer.resume(partition)
            assert len(await take(consumer, 10)) == 10

    run(body())


def test_delete_records(broker: Target, topic: str, group: str) -> None:
    """If this fails, deleted records come back, or a consumer does not notice that its position was deleted."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.ten(topic)
            partition = TopicPartition(topic, 0)
            assert await (await my.admin()).delete_records({partition: RecordsToDelete(6)}) == {partition: 6}
            consumer = await my.consumer(auto_offset_reset="none")
            consumer.assign([partition])
            consumer.seek(partition, 2)
            with pytest.raises(OffsetOutOfRangeError):
                await take(consumer, 1)
            consumer.seek(partition, 6)
            assert values(await take(consumer, 4)) == [b"6", b"7", b"8", b"9"]

    run(body())


def test_commit_and_go_on(broker: Target, topic: str, group: str) -> None:
    """If this fails, a restarted consumer does not continue where it stopped."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.ten(topic)
            first = await my.consumer(topic)
            await take(first, 4)
            assert await first.committed(TopicPartition(topic, 0)) is None
            await first.commit()
            assert await first.committed(TopicPartition(topic, 0)) == 4
            await first.stop()
            second = await my.consumer(topic)
            assert values(await take(second, 6)) == [b"%d" % number for number in range(4, 10)]

    run(body())


@pytest.mark.parametrize("static", [False, True])
def test_members_share_and_take_over(broker: Target, topic: str, group: str, static: bool) -> None:
    """If this fails, partitions are read twice or by no member while members join and leave."""

    async def body() -> None:
        async with life(broker, group) as my:
            await my.topic(topic, 4)
            names = ["one", "two", "three"] if static else [None, None, None]
            # A static member does not leave: its session has to expire, but not while the test is delayed.
            members = [await my.consumer(topic, group_instance_id=name, session_timeout_ms=10_000) for name in names]

            async def shared() -> bool:
                parts = [sorted(at.partition for at in member.assignment()) for member in members]
                return sorted(each for part in parts for each in part) == [0, 1, 2, 3] and all(parts)

            await eventually(shared, "3 members to share 4 partitions")
            producer = await my.producer()
            for partition in range(4):
                await producer.send_and_wait(topic, b"%d" % partition, partition=partition)
            got: list[bytes | None] = []
            while len(got) < 4:
                for member in members:
                    got += values([each for batch in (await member.getmany(timeout_ms=50)).values() for each in batch])
            assert sorted(map(str, got)) == sorted(str(b"%d" % partition) for partition in range(4))
            await members.pop().stop()
            await eventually(shared, "2 members to take over")

    run(body())
