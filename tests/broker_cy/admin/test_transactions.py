"""Producers, transactions and log directories as the admin core describes them, against both clusters."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer as ConfluentProducer

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.log_dirs import LogDir
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Span, Start
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import TIMEOUT_S, Run
from tests.broker_cy.admin.test_records import read
from tests.support.broker import BrokerProcess
from tests.support.hanging import leave_hanging
from tests.support.kafka_peer import KafkaPeer


def transactional(bootstrap: str, name: str) -> ConfluentProducer:
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def test_aborted_records_are_left_out(run: Run, cluster: BrokerProcess | KafkaPeer, name: str) -> None:
    """If this fails, a reader of committed records is shown aborted ones, or misses those that follow them."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1, 1)])).whole()
        key = TopicPartition(name, 0)
        first, second = (transactional(cluster.bootstrap, f"{name}-{n}") for n in range(2))
        # Two producers with overlapping transactions; the first aborts, commits and aborts again.
        first.begin_transaction()
        second.begin_transaction()
        for producer, value in ((first, b"aborted"), (second, b"kept-1"), (first, b"aborted")):
            producer.produce(name, value)
            assert producer.flush(TIMEOUT_S) == 0
        first.abort_transaction(TIMEOUT_S)
        first.begin_transaction()
        first.produce(name, b"kept-2")
        first.commit_transaction(TIMEOUT_S)
        second.commit_transaction(TIMEOUT_S)
        first.begin_transaction()
        first.produce(name, b"aborted")
        assert first.flush(TIMEOUT_S) == 0
        first.abort_transaction(TIMEOUT_S)
        await client.records.producer().send(name, [Record(value=b"plain")])
        spans = await client.records.spans([key], Start.earliest())
        everything = (await read(client, spans))[key]
        assert [record.value for record in everything].count(b"aborted") == 3
        committed = (await read(client, spans, Isolation.READ_COMMITTED))[key]
        assert [record.value for record in committed] == [b"kept-1", b"kept-2", b"plain"]
        # From between an aborted record and its marker.
        later = {key: Span(everything[2].offset, spans[key].end, 0)}
        assert b"aborted" not in {r.value for r in (await read(client, later, Isolation.READ_COMMITTED))[key]}

    run(job)


def test_an_open_transaction_is_listed_and_described(run: Run, cluster: BrokerProcess | KafkaPeer, name: str) -> None:
    """If this fails, users cannot see which producer keeps readers waiting."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 2, 1)])).whole()
        key = TopicPartition(name, 1)
        producer = transactional(cluster.bootstrap, name)
        producer.begin_transaction()
        producer.produce(name, b"open", partition=1)
        assert producer.flush(TIMEOUT_S) == 0
        try:
            by_broker = (await client.transactions.list_all(states=["Ongoing"], pattern=f"{name}.*")).whole()
            (listed,) = by_broker[1]
            assert (listed.transactional_id, listed.state, listed.coordinator_id) == (name, "Ongoing", 1)
            assert (await client.transactions.list_all(longer_than_ms=3_600_000, pattern=name)).whole() == {1: ()}
            outcome = await client.transactions.describe([name, "no-such-id"])
            described = outcome.found[name]
            assert (described.producer_id, described.partitions) == (listed.producer_id, (key,))
            assert described.start_ms is not None
            assert described.timeout_ms == 60_000
            assert outcome.failed["no-such-id"].code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            states = (await client.transactions.producers([key])).whole()[key]
            assert [(each.producer_id, each.txn_start_offset) for each in states] == [(listed.producer_id, 0)]
            # Its coordinator knows it: however long it is idle, it is not a hanging transaction.
            now_ms = int(time.time() * 1000) + 10**9
            assert await client.transactions.find_hanging([key], now_ms) == ()
            with pytest.raises(ClientError, match="NoSuchState"):
                (await client.transactions.list_all(states=["NoSuchState"])).whole()
        finally:
            producer.abort_transaction(TIMEOUT_S)
        # The coordinator answers before the leader has its marker.
        deadline = client.caller.deadline()
        (state,) = (await client.transactions.producers([key])).whole()[key]
        while state.txn_start_offset is not None:
            assert await deadline.back_off(1), "the transaction stays open"
            (state,) = (await client.transactions.producers([key])).whole()[key]
        with pytest.raises(ClientError, match="no open transaction"):
            await client.transactions.abort(key, state)

    run(job)


def test_a_hanging_transaction_is_found_and_ended(run: Run, name: str) -> None:
    """If this fails, a transaction that its coordinator forgot keeps readers of committed records waiting forever."""

    async def job(client: AdminClient) -> None:
        key = TopicPartition(name, 0)
        producer_id = await leave_hanging(client, name)
        assert (await client.offsets.latest([key], isolation=Isolation.READ_COMMITTED)).found == {key: 0}
        now_ms = int(time.time() * 1000)
        # Not yet: it may still belong to a producer.
        assert await client.transactions.find_hanging([key], now_ms, max_timeout_ms=now_ms * 2) == ()
        (hanging,) = await client.transactions.find_hanging([key], now_ms + 900_001)
        assert (hanging.partition, hanging.producer.producer_id) == (key, producer_id)
        assert hanging.transactional_id is None
        await client.transactions.abort(hanging.partition, hanging.producer)
        assert (await client.offsets.latest([key], isolation=Isolation.READ_COMMITTED)).found == {key: 2}
        assert await client.transactions.find_hanging([key], now_ms + 900_001) == ()

    run(job)


async def directory_once(client: AdminClient, name: str, partitions: int) -> LogDir:
    """The directory of a topic, once it has a log of each partition: Kafka creates logs after it answers CreateTopics,
    and one partition may take records before another has its log.
    """
    deadline = client.caller.deadline()
    attempt = 1
    while True:
        (directory,) = (await client.log_dirs.describe(topics=[name])).whole()[1]
        if len(directory.replicas) == partitions:
            return directory
        assert await deadline.back_off(attempt), f"the topic never had its {partitions} logs: {directory}"
        attempt += 1


def test_log_directories(run: Run, cluster: BrokerProcess | KafkaPeer, name: str) -> None:
    """If this fails, the disk fills up, and the console shows wrong sizes."""
    other = f"{name}-other"

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 2, 1), NewTopic(other, 1, 1)])).whole()
        producer = client.records.producer()
        await producer.send_batch(TopicPartition(name, 1), [Record(value=bytes(50_000))])
        await directory_once(client, other, 1)
        directory = await directory_once(client, name, 2)
        assert (directory.path, directory.error) == (str(cluster.data_dir), "")
        sizes = {replica.partition: replica.size_bytes for replica in directory.replicas}
        assert sizes[0] == 0
        assert 50_000 < sizes[1] < 51_000
        assert directory.size_bytes == sizes[1]
        assert directory.total_bytes is not None
        assert directory.usable_bytes is not None
        assert directory.total_bytes > directory.usable_bytes > 0
        everything = (await client.log_dirs.describe()).whole()
        assert {replica.topic for replica in everything[1][0].replicas} >= {name, other}
        outcome = await client.log_dirs.describe([1, 77])
        assert list(outcome.found) == [1]
        assert "no broker 77" in outcome.failed[77].reason

    run(job)
