"""Producing and consuming with the admin core, against both clusters, in comparison with librdkafka."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from confluent_kafka import Producer as ConfluentProducer

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.caller import Leaders
from broker_cy.admin.fetched import Chunk, RowForm, decode_partition
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import MAX_TIMESTAMP, Isolation
from broker_cy.admin.records import Span, Start
from broker_cy.admin.topics import NewTopic
from broker_cy.client.deadline import Deadline
from broker_cy.client.partitioner import partition_of
from broker_cy.client.pool import Peer
from broker_cy.core.crc32c import value as crc32c
from broker_cy.core.errors import ErrorCode
from broker_cy.core.murmur2 import murmur2
from broker_cy.wire import messages
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.admin.conftest import TIMEOUT_S, Run
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer

BASE_MS = 1_700_000_000_000


async def read(
    client: AdminClient, spans: dict[TopicPartition, Span], isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> dict[TopicPartition, list[Record]]:
    """All records of the spans, by partition."""
    got: dict[TopicPartition, list[Record]] = {key: [] for key in spans}
    starts, ends = {key: each.start for key, each in spans.items()}, {key: each.end for key, each in spans.items()}
    async with client.records.reader(starts, ends=ends, isolation=isolation) as reader:
        async for chunk in reader:
            assert chunk.damage == ()
            got[chunk.partition] += chunk.records
        assert reader.positions == {}
    return got


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_produced_is_consumed(run: Run, name: str, codec: Codec) -> None:
    """If this fails, keys, headers, nulls or order are lost, or the broker does not support a codec."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 3, 1)])).whole()
        records = [
            Record(
                timestamp=BASE_MS + number,
                key=None if number % 5 == 0 else f"key-{number % 17}".encode(),
                value=None if number % 7 == 0 else b"v" * (number % 400),
                headers=[("trace", bytes([number % 256])), ("trace", None)] if number % 3 == 0 else [],
            )
            for number in range(2_000)
        ]
        appended = await client.records.producer(codec=codec).send(name, records)
        assert sum(each.records for each in appended) == len(records)
        partitions = await client.records.partitions(name)
        got = await read(client, await client.records.spans(partitions, Start.earliest()))
        for key, theirs in got.items():
            assert [record.offset for record in theirs] == list(range(len(theirs)))
            numbers = [record.timestamp - BASE_MS for record in theirs]
            assert numbers == sorted(numbers), "order within a partition"
            assert all(
                record.key is None or partition_of(record.key, len(partitions)) == key.partition for record in theirs
            )
        found = sorted(itertools.chain(*got.values()), key=lambda record: record.timestamp)
        assert [(each.timestamp, each.key, each.value, each.headers) for each in found] == [
            (each.timestamp, each.key, each.value, each.headers) for each in records
        ]

    run(job)


def test_keys_go_where_other_clients_put_them(run: Run, cluster: BrokerProcess | KafkaPeer, name: str) -> None:
    """If this fails, a record produced by hand gets another partition than the application's, and is out of order with
    them.
    """
    keys = [b"key-%d" % number for number in range(200)]

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 7, 1)])).whole()
        producer = ConfluentProducer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce(name, b"", key)
        assert producer.flush(TIMEOUT_S) == 0
        got = await read(client, await client.records.spans(await client.records.partitions(name), Start.earliest()))
        placed = {record.key: key.partition for key, records in got.items() for record in records}
        assert placed == {key: partition_of(key, 7) for key in keys}

    run(job)


def test_murmur2_is_kafkas() -> None:
    """If this fails, keys are assigned by another function than Kafka's (its UtilsTest has these values)."""
    expected = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) - (1 << 32) for key in expected} == expected


def test_where_reading_starts(run: Run, name: str) -> None:
    """If this fails, the browser starts at another record than the requested one."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 2, 1)])).whole()
        first, empty = TopicPartition(name, 0), TopicPartition(name, 1)
        producer = client.records.producer()
        for part in range(5):
            batch = [Record(timestamp=BASE_MS + part * 1000 + index, value=b"x") for index in range(10)]
            assert (await producer.send_batch(first, batch)).base_offset == part * 10
        (await client.topics.delete_records({first: 4})).whole()
        expected = {
            Start.earliest(): 4,
            Start.latest(): 50,
            Start.offset(17): 17,
            Start.offset(2): 4,
            Start.offset(999): 50,
            Start.last(8): 42,
            Start.last(1000): 4,
            Start.time(BASE_MS + 3001): 31,
            Start.time(BASE_MS + 99_999): 50,
            Start.time(0): 4,
        }
        for start, offset in expected.items():
            spans = await client.records.spans([first, empty], start)
            assert spans == {first: Span(offset, 50, 4), empty: Span(0, 0, 0)}, start
        got = await read(client, await client.records.spans([first, empty], Start.last(8)))
        assert [record.offset for record in got[first]] == list(range(42, 50))
        newest = (await client.offsets.at({first: MAX_TIMESTAMP, empty: MAX_TIMESTAMP})).whole()
        assert (newest[first].offset, newest[first].timestamp_ms) == (49, BASE_MS + 4009)
        assert newest[empty].offset is None
        stamps = (await client.records.timestamps({first: 20, empty: 0})).whole()
        assert stamps == {first: BASE_MS + 2000, empty: None}

    run(job)


def test_a_reader_that_waits_holds_up_no_other(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a search becomes slow while another task follows a topic."""
    # Longer than the calls of a test may take.
    monkeypatch.setattr("broker_cy.admin.reader.WAIT_MS", int(TIMEOUT_S * 3_000))

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 2, 1)])).whole()
        quiet, busy = (TopicPartition(name, index) for index in range(2))
        for key in (quiet, busy):
            await client.records.producer().send_batch(key, [Record(value=b"x")] * 3)
        async with client.records.reader({quiet: 0}) as follower:
            chunks = aiter(follower)
            await anext(chunks)
            waiting = asyncio.ensure_future(anext(chunks))
            for _ in range(3):
                async with client.records.reader({busy: 0}, ends={busy: 3}) as found:
                    assert [len(chunk.records) async for chunk in found] == [3]
            assert not waiting.done()
            waiting.cancel()

    run(job)


def test_a_reader_follows_what_arrives_and_skips_what_was_deleted(run: Run, name: str) -> None:
    """If this fails, a live view stops, or hides that records were deleted before it read them."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1, 1)])).whole()
        key = TopicPartition(name, 0)
        producer = client.records.producer()
        await producer.send_batch(key, [Record(value=b"%d" % number) for number in range(10)])
        (await client.topics.delete_records({key: 6})).whole()
        async with client.records.reader({key: 2}) as reader:
            chunks = aiter(reader)
            chunk = await anext(chunks)
            assert (chunk.lost_from, [record.offset for record in chunk.records]) == (2, [6, 7, 8, 9])
            assert (chunk.high_watermark, chunk.log_start_offset) == (10, 6)
            coming = asyncio.ensure_future(anext(chunks))
            await producer.send_batch(key, [Record(value=b"new")])
            assert [record.value for record in (await coming).records] == [b"new"]
        async with client.records.reader({key: 999}) as reader:
            with pytest.raises(ClientError, match="beyond the end: the log has 6 to 11"):
                await anext(aiter(reader))
        async with client.records.reader({TopicPartition("no-such-topic", 0): 0}) as reader:
            with pytest.raises(ClientError) as raised:
                await anext(aiter(reader))
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(job)


def test_a_partition_without_a_leader_is_looked_for_while_others_are_read(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a reader stands still in a partition whose leader was gone for a moment, as long as another leader
    answers.
    """
    first, second = TopicPartition(name, 0), TopicPartition(f"{name}-2", 0)
    looks = 0

    class WithoutLeader(Leaders):
        async def locate(
            self, keys: list[TopicPartition], deadline: Deadline
        ) -> tuple[dict[Peer, list[TopicPartition]], dict[TopicPartition, ClientError]]:
            nonlocal looks
            looks += 1
            gone = [key for key in keys if key == second and looks <= 2]
            places, failed = await super().locate([key for key in keys if key not in gone], deadline)
            error = ClientError(Failure.REFUSED, "LEADER_NOT_AVAILABLE", code=ErrorCode.LEADER_NOT_AVAILABLE)
            return places, {**failed, **dict.fromkeys(gone, error)}

    monkeypatch.setattr("broker_cy.admin.reader.Leaders", WithoutLeader)

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(key.topic, 1, 1) for key in (first, second)])).whole()
        for key in (first, second):
            await client.records.producer().send_batch(key, [Record(value=b"x")])
        async with client.records.reader({first: 0, second: 0}) as reader, asyncio.timeout(TIMEOUT_S):
            chunks = aiter(reader)
            assert [(await anext(chunks)).partition for _ in range(2)] == [first, second]
        assert looks == 3

    run(job)


def test_large_records_and_refused_ones(run: Run, name: str) -> None:
    """If this fails, a record larger than a fetch stops the reader forever, or one that is refused is not named."""

    async def job(client: AdminClient) -> None:
        large = NewTopic(name, 1, 1, {"max.message.bytes": "21000000"})
        small = NewTopic(f"{name}-small", 1, 1)
        (await client.topics.create([large, small])).whole()
        producer = client.records.producer()
        values = [b"a", b"L" * 20_000_000, b"z"]
        await producer.send(name, [Record(value=value) for value in values])
        got = await read(client, await client.records.spans([TopicPartition(name, 0)], Start.earliest()))
        assert [record.value for record in got[TopicPartition(name, 0)]] == values
        with pytest.raises(ClientError) as raised:
            await producer.send(small.name, [Record(value=b"L" * 2_000_000)])
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert raised.value.what == f"partition {small.name}-0"
        # Records after a refused batch are delivered.
        (again,) = await producer.send(small.name, [Record(value=b"fits")])
        assert again.base_offset == 0
        with pytest.raises(ClientError, match="partition 3 does not exist; the topic has 0 to 0"):
            await producer.send(name, [Record()], partition=3)

    run(job)


def test_a_producer_creates_a_missing_topic_only_where_it_may(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, records for a new topic are refused although every other client creates it, or a misspelt name
    creates a topic.
    """

    # How long a topic may take to be created; the machine may be busy.
    monkeypatch.setattr("broker_cy.admin.produce.CREATE_WAIT_S", TIMEOUT_S)

    async def job(client: AdminClient) -> None:
        with pytest.raises(ClientError) as raised:
            await client.records.producer().send(name, [Record(value=b"v")])
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert name not in [topic.name for topic in await client.topics.list_all()]
        (appended,) = await client.records.producer(creates_topics=True).send(name, [Record(value=b"v")])
        assert appended.base_offset == 0

    run(job)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(run: Run, name: str, acks: int) -> None:
    """If this fails, a level of acknowledgement loses records, or waits for a response that never comes."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1, 1)])).whole()
        key = TopicPartition(name, 0)
        # Kafka names a leader before it has the log, and loses earlier records that need no acknowledgement.
        (await client.offsets.latest([key])).whole()
        producer = client.records.producer(acks=acks)
        for number in range(3):
            (appended,) = await producer.send(name, [Record(value=b"%d" % number)])
            assert appended.base_offset == (None if acks == 0 else number)
        values: list[bytes | None] = []
        async with client.records.reader({key: 0}, ends={key: 3}) as reader:
            async for chunk in reader:
                values += [record.value for record in chunk.records]
        assert values == [b"0", b"1", b"2"]

    run(job)


def test_an_unknown_number_of_acks_is_refused(run: Run) -> None:
    """If this fails, acks=2 is treated as another number."""

    async def job(client: AdminClient) -> None:
        with pytest.raises(ClientError) as raised:
            client.records.producer(acks=2)
        assert raised.value.failure is Failure.INVALID

    run(job)


def decoded(
    data: bytes,
    start: int = 0,
    end: int | None = None,
    containing: bytes | None = None,
    form: RowForm | None = None,
    **fields: object,
) -> Chunk:
    part = messages.FetchResponse.PartitionData(records=data, high_watermark=100, **fields)  # type: ignore[arg-type]
    key = TopicPartition("t", 0)
    return decode_partition(key, part, start, end, Isolation.READ_COMMITTED, containing=containing, form=form)


def test_batches_that_cannot_have_what_is_looked_for_are_passed_over_and_counted() -> None:
    """If this fails, a search reports fewer or more records than it scanned."""
    batches = b"".join(encode_batch([Record(value=b"v%d" % n)] * 5, base_offset=n * 5) for n in range(3))
    chunk = decoded(batches, containing=b"v1")
    assert [record.offset for record in chunk.records] == [5, 6, 7, 8, 9]
    assert (chunk.passed, chunk.next_offset) == (10, 15)
    chunk = decoded(batches, start=2, end=12, containing=b"v1")
    assert (len(chunk.records), chunk.passed) == (5, 3 + 2)
    assert decoded(batches, start=7, end=9, containing=b"v3").passed == 2


def test_a_chunk_ends_where_its_reader_ends() -> None:
    """If this fails, a reader that goes on from a chunk passes over records of a batch across its end."""
    batches = b"".join(encode_batch([Record(value=b"v")] * 5, base_offset=n * 5) for n in range(3))
    chunk = decoded(batches, end=7)
    assert ([record.offset for record in chunk.records][-1], chunk.next_offset) == (6, 7)
    assert decoded(batches, end=10).next_offset == 10
    assert decoded(batches, end=100).next_offset == 15
    # The end was passed before.
    assert decoded(batches, start=8, end=7).next_offset == 8


def test_damaged_batches_are_reported_and_skipped() -> None:
    """If this fails, one damaged batch ends the message browser, or is silently left out."""
    batches = [encode_batch([Record(value=b"v%d" % n)] * 5, base_offset=n * 5) for n in range(3)]
    broken = bytearray(batches[1])
    broken[-1] ^= 1
    chunk = decoded(batches[0] + bytes(broken) + batches[2])
    assert [record.offset for record in chunk.records] == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert chunk.damage == ("offsets 5 to 9: the checksum is wrong",)
    assert chunk.next_offset == 15
    # An impossible length: nothing after it can be read.
    nonsense = bytes(8) + b"\0\0\0\x01" + bytes(60)
    chunk = decoded(batches[0] + nonsense)
    assert len(chunk.records) == 5
    assert chunk.damage[0].startswith("offset 5: ")
    assert chunk.next_offset == 100


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("form", RowForm)
@pytest.mark.parametrize("append_time_ms", [None, 77])
def test_rows_are_the_last_records_of_their_keys(codec: Codec, form: RowForm, append_time_ms: int | None) -> None:
    """If this fails, a restored store has another row than the changelog."""
    draw = random.Random(f"{codec} {form} {append_time_ms}")
    data = b""
    for base in range(0, 90, 9):
        records = [
            Record(
                timestamp=draw.randrange(1 << 41),
                key=draw.choice([None, b"", b"a", b"b" * 70, b"c%d" % draw.randrange(30)]),
                value=draw.choice([None, b"", b"v" * draw.randrange(200)]),
                headers=draw.choice([(), (("h", b"x"), ("n", None))]),
            )
            for _ in range(9)
        ]
        data += encode_batch(records, base_offset=base, codec=codec, log_append_time_ms=append_time_ms)
    for start, end in ((0, None), (4, 83), (9, 10), (30, 30)):
        whole, rows = decoded(data, start, end), {}
        for record in whole.records:
            if record.key is not None:
                value = record.value
                if value is not None and form is RowForm.TIMESTAMPED:
                    value = record.timestamp.to_bytes(8, "big") + value
                rows[record.key] = value
        chunk = decoded(data, start, end, form=form)
        assert (chunk.rows, chunk.row_records, chunk.records) == (rows, len(whole.records), [])
        assert chunk.next_offset == whole.next_offset


def test_damaged_batches_are_reported_where_rows_are_read() -> None:
    """If this fails, a store is restored without some of its rows, and nobody hears of it."""
    batches = [encode_batch([Record(key=b"k%d" % n, value=b"v")] * 5, base_offset=n * 5) for n in range(2)]
    broken = bytearray(batches[0])
    broken[-1] ^= 1
    chunk = decoded(bytes(broken) + batches[1], form=RowForm.PLAIN)
    assert (chunk.rows, chunk.damage) == ({b"k1": b"v"}, ("offsets 0 to 4: the checksum is wrong",))
    # A length that does not fit, with a right checksum.
    broken = bytearray(batches[0])
    broken[61] = 0x7E
    broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
    assert "length" in decoded(bytes(broken), form=RowForm.PLAIN).damage[0]


def test_a_torn_batch_is_asked_for_again() -> None:
    """If this fails, records that a fetch limit cut off are lost."""
    batches = [encode_batch([Record(value=b"v")], base_offset=n) for n in range(2)]
    chunk = decoded(batches[0] + batches[1][:-1])
    assert (len(chunk.records), chunk.next_offset, chunk.damage) == (1, 1, ())
