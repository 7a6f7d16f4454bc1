"""Idempotent and transactional load: the stamps in batches, the contents of responses, and the resulting log."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer, TopicPartition

from bench.drivers.raw import RawDriver
from bench.drivers.transactions import StartDriver, TransactionDriver
from bench.spec.workload import Rate, Transactions, Workload
from bench.targets.brokers import BrokerCy
from bench.wire import batches, protocol, transactional
from bench.wire.raw import Driver, LoadError, crc32c
from bench.wire.sequences import sequence_after, stamped
from bench.wire.transactional import EndFrame, ProduceFrame, Producer
from broker_cy.client.payload.draws import Size
from tests.bench.drivers.test_driver import fake_broker
from tests.bench.drivers.test_raw_driver import workload

PARTITIONS = 2
numbers = itertools.count()


def transactions(**asked: object) -> Workload:
    made = Transactions(**asked)  # type: ignore[arg-type]
    return workload(partitions=PARTITIONS, producers=1, transactions=made)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCy]:
    with BrokerCy(tmp_path_factory.mktemp("transactions") / "data").running() as target:
        assert isinstance(target, BrokerCy)
        yield target


@pytest.fixture
def topic(broker: BrokerCy) -> str:
    """Create a separate topic with PARTITIONS partitions."""
    name = f"transactions-{next(numbers)}"
    with protocol.Client(broker.address) as client:
        client.create_topic(name, PARTITIONS, {})
    return name


def producer_in(batch: bytes) -> tuple[int, int, int]:
    """Return producer id, epoch and base sequence of a batch, and check its checksum."""
    assert struct.unpack_from(">I", batch, 17) == (crc32c(batch[21:]),)
    identity, epoch, sequence = struct.unpack_from(">qhi", batch, 43)
    return identity, epoch, sequence


@given(
    st.binary(min_size=0, max_size=10_000),
    st.integers(0, (1 << 63) - 1),
    st.integers(0, 0x7FFF),
    st.integers(0, 0x7FFFFFFF),
)
def test_a_stamped_batch_has_its_producer_and_the_checksum_of_the_whole(
    records: bytes, identity: int, epoch: int, sequence: int
) -> None:
    """The broker refuses a wrong checksum or sequence, and an idempotent producer would have no figure."""
    plain = protocol.batch_of(records, 1)
    made = stamped(plain, identity, epoch, sequence)
    assert producer_in(made) == (identity, epoch, sequence)
    assert (made[:17], made[21:43], made[57:]) == (plain[:17], plain[21:43], plain[57:])
    # The same, with a checksum of all bytes, and with other bytes around it.
    whole = bytearray(b"abc" + plain + b"defg")
    transactional.stamp(whole, 3, len(plain), Producer(identity, epoch), sequence)
    assert whole == b"abc" + made + b"defg"


@pytest.mark.parametrize(("sequence", "records", "after"), [(0, 25, 25), (2**31 - 1, 1, 0), (2**31 - 10, 25, 15)])
def test_sequences_begin_again_behind_the_highest(sequence: int, records: int, after: int) -> None:
    """They are counted as in Kafka: 0 follows 2147483647."""
    assert sequence_after(sequence, records) == transactional.next_sequence(sequence, records) == after


def test_a_transaction_is_one_request_with_every_partition(tmp_path: Path) -> None:
    """The batches are transactional, begin with sequence 0 in each epoch, and each has its own checksum."""
    parts = [batches.of_records(transactions(), 25, seed) for seed in range(4)]
    frame = ProduceFrame("t", "id", parts)
    assert frame.records == 100
    for producer in (Producer(7, 3), Producer(7, 4), Producer(1 << 40, 0)):
        frame.stamp(producer)
        for place, part in zip(frame.places, parts, strict=True):
            batch = bytes(frame.frame[place : place + len(part.data)])
            assert producer_in(batch) == (*producer, 0)
            assert struct.unpack_from(">h", batch, 21) == (0x10,)
            assert batch[61:] == part.data[61:]
    end = EndFrame("id")
    end.stamp(Producer(7, 3), False)
    assert end.frame.endswith(protocol.compact(b"id") + struct.pack(">qhb", 7, 3, 0) + b"\0")


def answer_of(*partitions: tuple[int, int, int], tail: bytes = b"\1\0\0") -> bytes:
    """Make a Produce v12 response after its header: index, error code and base offset of each partition."""
    body = b"\x02" + protocol.compact(b"t") + protocol.uvarint(len(partitions) + 1)
    for index, code, offset in partitions:
        body += struct.pack(">ihqqq", index, code, offset, -1, 0) + tail
    return body + b"\0" + struct.pack(">i", 0) + b"\0"


def test_an_answer_has_offsets_or_the_error_and_nothing_else() -> None:
    """A broker that is fast because its responses are invalid must not get a figure."""
    frame = ProduceFrame("t", "id", [batches.of_records(transactions(), 1, seed) for seed in range(2)])
    assert frame.offsets(answer_of((1, 0, 30), (0, 0, 20))) == (0, {0: 20, 1: 30})
    assert frame.offsets(answer_of((0, 0, 20), (1, 51, -1))) == (51, {})
    assert frame.offsets(answer_of((0, 47, -1), (1, 0, 3), tail=b"\1\6fence\0"))[0] == 47
    for wrong in (
        answer_of((0, 0, 20)),
        answer_of((0, 0, 20), (0, 0, 20)),
        answer_of((0, 0, 20), (2, 0, 20)),
        answer_of((0, 0, 20), (1, 0, 30))[:-8],
        b"",
    ):
        with pytest.raises(protocol.ProtocolError):
            frame.offsets(wrong)


def test_transactions_are_whole_and_their_aborts_invisible(broker: BrokerCy, topic: str) -> None:
    """The driver counts the records that a read_committed consumer receives, and a quarter was aborted."""
    driver = TransactionDriver(broker.address, topic, transactions(records=11, aborted=0.25, ids=3))
    driver.prepare()
    try:
        results = [driver.run(0.3), driver.run(0.3)]
    finally:
        driver.close()
    assert [result.first_error for result in results] == [None, None]
    count = sum(result.transactions for result in results)
    assert sum(result.records for result in results) == 11 * count > 0
    for result in results:
        assert result.latency.count == result.commit.count == result.transactions
        assert result.requests == 2 * result.transactions + result.retries
        assert sum(sample.latency.count for sample in result.samples) == result.latency.count
        assert sum(sample.records for sample in result.samples) == result.records
    with protocol.Client(broker.address) as client:
        ends = client.list_offsets(topic, range(PARTITIONS), protocol.LATEST)
        assert transactional.stable_offsets(client, topic, PARTITIONS) == ends
    assert sum(ends.values()) == 11 * count + PARTITIONS * count  # each transaction has a marker in each partition
    committed = count - count // 4
    assert read_committed(broker, topic, ends) == 11 * committed


def read_committed(broker: BrokerCy, topic: str, ends: dict[int, int]) -> int:
    """Return how many records another client reads."""
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed", check_crcs=True
    )
    consumer.assign([TopicPartition(topic, partition) for partition in ends])
    found = 0
    while any(consumer.position(TopicPartition(topic, partition)) < end for partition, end in ends.items()):
        found += sum(len(batch) for batch in consumer.poll(timeout_ms=1000).values())
    consumer.close()
    return found


def test_transactional_ids_are_started_new_and_known(broker: BrokerCy, topic: str) -> None:
    """Each new id has another producer id, each known id the next epoch: the driver checks each response."""
    for asked in (Transactions("new-ids"), Transactions("known-ids", ids=3)):
        driver = StartDriver(broker.address, topic, dataclasses.replace(transactions(), transactions=asked))
        driver.prepare()
        try:
            result = driver.run(0.3)
        finally:
            driver.close()
        assert result.first_error is None
        assert result.starts == result.latency.count > 3
        assert (len(driver.given), len(driver.known)) == ((result.starts, 0) if asked.ids == 1 else (0, 3))


def test_a_target_that_gives_no_new_epoch_fails_the_run(broker: BrokerCy, topic: str) -> None:
    """A broker that returns the same epoch twice has not ended a transaction of version 2."""
    driver = TransactionDriver(broker.address, topic, transactions(records=10))
    driver.prepare()
    assert driver.connection is not None
    ended = driver.connection.call

    def lazy(whole: bytearray) -> bytes:
        answer = ended(whole)
        is_end = struct.unpack_from(">h", whole, 4) == (transactional.END_TXN,)
        return answer[:6] + struct.pack(">qh", *driver.producers[0]) + answer[16:] if is_end else answer

    driver.connection.call = lazy  # type: ignore[method-assign]
    try:
        result = driver.run(0.3)
    finally:
        driver.close()
    assert result.errors == 1
    assert "needed: transaction.version 2" in str(result.first_error)


@pytest.mark.parametrize("producers", [1, 3])
def test_an_idempotent_producer_is_believed(broker: BrokerCy, topic: str, producers: int) -> None:
    """Each batch has the expected sequence: on every connection, in a second run, in a ring that grew."""
    settings = workload(
        partitions=PARTITIONS, producers=producers, idempotent=True, rate=Rate(20_000, 20_000, "requests")
    )
    driver = RawDriver(broker.address, topic, settings)
    driver.prepare()
    try:
        found = [driver.run(0.3), driver.run(0.3)]
    finally:
        driver.close()
    assert [result.first_error for result in found] == [None, None]
    with protocol.Client(broker.address) as client:
        ends = client.list_offsets(topic, range(PARTITIONS), protocol.LATEST)
    assert sum(ends.values()) == sum(result.records for result in found) > 0
    fetches = [[protocol.fetch_request(topic, partition, 1 << 20) for partition in ends]]
    reader = Driver(broker.address, fetches, fetching=True, wrap_at=ends)
    reader.run_closed(depth=1, requests=10, seconds=30, check_crc=True)
    reader.close()


def test_a_sequence_that_is_not_due_fails_the_run(broker: BrokerCy, topic: str) -> None:
    """If this fails, a broker that does not check sequences is measured like one that does."""
    payload = protocol.record_batch(10, 3) + protocol.PRODUCE_TAIL
    templates = [[protocol.produce_apart(topic, 0, payload, 3, protocol.ACKS_ALL)]]
    with protocol.Client(broker.address) as client:
        producer = transactional.init_producer(client)
    first, again = (Driver(broker.address, templates, producers=[producer]) for _ in range(2))
    first.run_closed(depth=2, requests=9, seconds=30)
    with pytest.raises(LoadError, match=r"Produce error 4[56] on partition 0"):
        again.run_closed(depth=1, requests=9, seconds=30)
    first.close()
    again.close()


def fetched(correlation_id: int, aborted: bytes, batch: bytes) -> bytes:
    """Make a Fetch v12 response of one partition."""
    body = struct.pack(">ibihi", correlation_id, 0, 0, 0, 0) + b"\x02" + protocol.compact(b"t") + b"\x02"
    body += struct.pack(">ihqqq", 0, 0, 9, 9, 0) + aborted + struct.pack(">i", -1)
    return body + protocol.uvarint(len(batch) + 1) + batch + b"\0\0\0"


def marker(kind: int) -> bytes:
    """Make a control batch."""
    body = b"\0\0\0\x08" + struct.pack(">hh", 0, kind) + b"\x0c" + struct.pack(">hi", 0, 0) + b"\0"
    batch = bytearray(protocol.batch_of(protocol.varint(len(body)) + body, 1))
    batch[22] |= 0x30
    return bytes(batch)


NONE, EMPTY, ONE = b"\0", b"\1", b"\2" + struct.pack(">qq", 1, 0) + b"\0"


@pytest.mark.parametrize(
    ("committed", "kind", "aborted", "reported"),
    [
        (True, 0, ONE, None),
        (True, 1, EMPTY, None),
        (False, 0, NONE, None),
        (True, 0, EMPTY, "1 aborts, but 0 aborted transactions are named"),
        (True, 1, NONE, r"-1 aborted transactions \(-1: no list\)"),
        (False, 0, ONE, "1 aborted transactions"),
    ],
)
def test_aborts_are_named_to_those_who_ask(committed: bool, kind: int, aborted: bytes, reported: str | None) -> None:
    """A broker that is fast with read_committed because it lists no aborted transactions delivers aborted records."""
    with fake_broker(lambda number, correlation: fetched(correlation, aborted, marker(kind))) as address:
        template = protocol.fetch_request("t", 0, 1 << 20, committed=committed)
        driver = Driver(address, [[template]], fetching=True, committed=committed, wrap_at={0: 1})
        if reported is None:
            driver.run_closed(depth=1, requests=5, seconds=30)
            assert (driver.errors, driver.records) == (0, 0)  # a marker is not a record
            assert driver.bytes > 0
        else:
            with pytest.raises(LoadError, match=reported):
                driver.run_closed(depth=1, requests=5, seconds=30)
        driver.close()


def test_sizes_of_a_transactions_records_are_those_of_the_workload() -> None:
    """The batch of a transaction has the requested number of records, however small the workload's batches are."""
    settings = dataclasses.replace(transactions(), record_size=Size(1000, 1000), batch_bytes=1)
    batch = batches.of_records(settings, 25, 1)
    assert batch.records == struct.unpack_from(">i", batch.data, 57)[0] == 25
    assert 25_000 < len(batch.data) < 26_000
