"""A broker's own topics: a workload that fills them, their contents, and the tables that a batch makes from them."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_cy.metrics import events, sample
from spark_analytics import batch_files
from spark_analytics import ingest as reading
from spark_analytics.ingest import TOPICS, Ingested
from spark_analytics.lake import Lake
from spark_analytics.rows import events_of, samples_of
from spark_analytics.schema import TABLES
from tests.spark_analytics import rows_by_spark as rows
from tests.support.broker import Target
from tests.support.topics import create_topic
from tests.support.wait import until

# A sample every 100 ms: tests need many samples soon.
SETTINGS = {"brokercy.metrics.sample.interval.ms": "100"}
CLUSTER = "test"
TOPIC, GROUP, PARTITIONS = "orders", "readers", 4
ROUNDS, RECORDS = 8, 20


def ingest(
    broker: Target, lake: Path, cluster: str = CLUSTER, *, accept_loss: bool = False, replaces: str | None = None
) -> tuple[Ingested, list[str]]:
    """Ingest in this process, with its Spark session; return also the output for the user."""
    shown: list[str] = []
    source = reading.find(broker.bootstrap, cluster)
    done = reading.ingest(Lake(lake), source, accept_loss=accept_loss, replaces=replaces, show=shown.append)
    return done, shown


def read(broker: Target, topic: str) -> list[bytes]:
    """Return the values of a topic's only partition."""
    return [value for _, value in read_with_keys(broker, topic)]


def read_with_keys(broker: Target, topic: str) -> list[tuple[bytes | None, bytes]]:
    """Return the keys and values of a topic's only partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[bytes | None, bytes]] = []
        while len(found) < end:
            # Exactly the existing number: it would wait for more, up to the time limit.
            for message in consumer.consume(min(1000, end - len(found)), timeout=10):
                assert message.error() is None
                key, value = message.key(), message.value()
                assert value is not None
                found.append((key, value))
        return found
    finally:
        consumer.close()


def times_of(broker: Target) -> list[int]:
    """Return the times of a broker's samples in ms, in their order, without Spark."""
    found = [sample.decode(each) for each in read(broker, sample.TOPIC)]
    return [each.time_ms for each in found if each is not None]


def in_lake(lake: Path) -> list[int]:
    """Return the times of the samples of a lake, in ms."""
    return sorted(pc.cast(rows_in(lake, "samples")["at"], pa.int64()).to_numpy() // 1000)


def rows_in(lake: Path, table: str) -> pa.Table:
    """Return the rows of the complete batches of a table, without Spark."""
    there = Lake(lake)
    batches = [
        path
        for cluster in there.clusters
        for source in there.sources(cluster)
        for generation in there.generations(cluster, source)
        for folder in generation.batches(table)
        for path in sorted(folder.rglob(batch_files.FILE))
    ]
    return pa.concat_tables(pq.read_table(each, partitioning=None) for each in batches)


def some_samples(broker: Target) -> None:
    """Wait until the broker has written a few samples."""
    until(lambda: len(read(broker, sample.TOPIC)) > 3, "some samples", 60, tolerate=(KafkaException,))


def check_against_batch(broker: Target, lake: Path) -> dict[str, int]:
    """Compare all tables of a lake with those that are computed in memory from all records of the same range of offsets
    in one step. Returns the number of rows by table.
    """
    (source,) = Lake(lake).sources(CLUSTER)
    (generation,) = Lake(lake).generations(CLUSTER, source)
    expected: dict[str, pa.Table] = {}
    for topic in TOPICS:
        keys, values = zip(*read_with_keys(broker, topic)[: generation.ends[topic][0]], strict=True)
        of_values = pa.array(values, pa.binary())
        made = samples_of(of_values) if topic == sample.TOPIC else events_of(pa.array(keys, pa.binary()), of_values)
        expected |= made.tables
    counts = {}
    for name, table in expected.items():
        found = rows_in(lake, name)
        of_days = table.drop_columns("day")  # which are folders
        _check_equal(name, *(Counter(map(repr, each.to_pylist())) for each in (of_days, found)))
        counts[name] = found.num_rows
    assert counts.keys() == TABLES.keys()
    return counts


def check_against_spark(spark: SparkSession, broker: Target, lake: Path) -> None:
    """Compare all tables of a lake, as jobs read it, with those that Spark's own source and JSON parser make of the
    same range of offsets.
    """
    there = Lake(lake)
    (source,) = there.sources(CLUSTER)
    (generation,) = there.generations(CLUSTER, source)
    whole = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", ",".join(TOPICS))
        .option("startingOffsets", json.dumps({topic: {"0": 0} for topic in TOPICS}))
        .option("endingOffsets", json.dumps(generation.ends))
        .load()
        .persist()
    )
    try:
        for topic, tables, parsed in (
            (sample.TOPIC, rows.SAMPLE_TABLES, rows.samples_of),
            (events.TOPIC, rows.EVENT_TABLES, rows.events_of),
        ):
            records = parsed(whole.where(F.col("topic") == topic))
            for name in tables:
                _check_equal(name, _counted(rows.table_of(name, records, CLUSTER)), _counted(there.read(spark, name)))
    finally:
        whole.unpersist()


def _check_equal(name: str, expected: Counter[str], found: Counter[str]) -> None:
    """Raise AssertionError, which names the first difference, unless both have the same rows."""
    lacks, has = (sorted((a - b).elements())[:2] for a, b in ((expected, found), (found, expected)))
    assert not lacks, f"{name} lacks {lacks} and has {has} instead"
    assert not has, f"{name} has too much: {has}"


def _counted(frame: DataFrame) -> Counter[str]:
    return Counter(row[0] for row in frame.select(F.to_json(F.struct("*"))).collect())


@contextlib.contextmanager
def busy(broker: Target) -> Iterator[None]:
    """Write records, and read them in a group whose second member joins and leaves, which makes commits and rebalances,
    from before the block until after it.
    """
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    ended, went_round = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            _work(broker, ended, went_round)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        until(lambda: went_round.is_set() or failures, "a rebalance", 60)
        yield
    finally:
        ended.set()
        thread.join(60)
    assert not failures, failures


def _work(broker: Target, ended: threading.Event, went_round: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": GROUP,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        # Members learn of a rebalance from their heartbeats.
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 6000,
    }
    members: list[Consumer] = []
    rounds = 0
    try:
        while not ended.is_set():
            if len(members) < 2:
                members.append(Consumer(settings))
                members[-1].subscribe([TOPIC])
            elif rounds >= ROUNDS and all(each.assignment() for each in members):
                members.pop().close()
                went_round.set()
                rounds = 0
            rounds += 1
            for number in range(RECORDS):
                producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
            producer.flush(10)
            for each in members:
                if each.consume(1000, timeout=0.1):
                    # A rebalance between the poll and the commit makes the commit fail; the next one covers the same
                    # records.
                    with contextlib.suppress(KafkaException):
                        each.commit(asynchronous=False)
    finally:
        for each in members:
            each.close()
