"""The rows of the segment source equal those of Spark's Kafka source, byte for byte, while a broker runs and writes."""

from __future__ import annotations

import itertools
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_analytics.segments import options, plan, source
from spark_analytics.segments.report import Counters
from spark_analytics.segments.walk import Damage
from tests.spark_analytics.segments.logs import TIME_MS
from tests.support.both_brokers import running
from tests.support.broker import Target
from tests.support.clients import CODECS
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = pytest.mark.full

ISOLATIONS = ("read_uncommitted", "read_committed")
COUNT = 4000
# A segment cannot be smaller.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
# The records of some topics are years old.
FOREVER = {"retention.ms": "-1"}
PAUSE_S = 0.02
NOTED_S = 60.0  # the broker notes high watermarks every 5 s


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    settings = {"log.cleaner.backoff.ms": "100"}
    with running("broker-cy", tmp_path_factory.mktemp("official"), settings) as target:
        yield target


def official(spark: SparkSession, broker: Target, *topics: str, **given: str) -> DataFrame:
    chosen = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        **given,
    }
    return spark.read.format("kafka").options(**chosen).load()


def ours(spark: SparkSession, broker: Target, *topics: str, **given: Any) -> DataFrame:
    return source.read(spark, [broker.data_dir], topics, include_headers=True, **given)


def listed(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("topic", "partition", "offset").collect()]


def ends(broker: Target, topic: str, **given: Any) -> dict[int, int]:
    """Return where the source ends in each partition."""
    chosen = options.parse(options.as_text([broker.data_dir], [topic], **given))
    found = (plan.bounded(each, chosen, Damage(False, Counters()))[0] for each in plan.folders(chosen))
    return {each.folder.partition: each.end for each in found}


def latest(broker: Target, topic: str, partition: int) -> int:
    """Return the end of a partition that the broker reports."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        part = confluent_kafka.TopicPartition(topic, partition)
        return int(consumer.get_watermark_offsets(part, timeout=30)[1])
    finally:
        consumer.close()


def until_noted(broker: Target, topic: str) -> None:
    """Wait until the broker has noted that everything in the topic is readable."""
    until(
        lambda: all(end == latest(broker, topic, number) for number, end in ends(broker, topic).items()),
        f"the high watermarks of {topic}",
        NOTED_S,
    )


def flushed(producer: confluent_kafka.Producer) -> None:
    assert producer.flush(60) == 0


def test_codecs_nulls_and_headers(spark: SparkSession, broker: Target) -> None:
    """If this fails, a byte, null, header, time or type of a record differs from the broker's."""
    for topic, settings in (("plain", FOREVER), ("stamped", {**FOREVER, "message.timestamp.type": "LogAppendTime"})):
        create_topic(broker.bootstrap, topic, partitions=2, config=settings)
    for codec in CODECS:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
        for number in range(100):
            headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("n", None), ("ü", b"")]
            for topic in ("plain", "stamped"):
                producer.produce(
                    topic,
                    key=None if number % 5 == 0 else b"k%d" % number,
                    value=None if number % 7 == 0 else bytes(range(number)) * 2,
                    partition=number % 2,
                    timestamp=TIME_MS + number,
                    headers=headers[: number % 4],
                )
        flushed(producer)
    for topic in ("plain", "stamped"):
        until_noted(broker, topic)
    wanted = official(spark, broker, "plain", "stamped")
    found = ours(spark, broker, "plain", "stamped", range_bytes=9000)
    # The source also declares that all columns except key, value and headers are never null.
    assert found.schema.simpleString() == wanted.schema.simpleString()
    rows = listed(wanted)
    assert len(rows) == 2 * len(CODECS) * 100
    assert listed(found) == rows


def test_transactions(spark: SparkSession, broker: Target) -> None:
    """If this fails, a record of an aborted transaction is read as a committed one, or vice versa."""
    create_topic(broker.bootstrap, "transactions", partitions=2)
    writers = [
        confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name}) for name in "ab"
    ]
    for writer in writers:
        writer.init_transactions(30)
    for commits in ((True, False), (False, True), (False, False), (True, True)):
        for writer in writers:
            writer.begin_transaction()
        for number in range(30):
            writers[number % 2].produce("transactions", b"%d" % number, b"k", partition=number // 2 % 2)
            if number % 10 == 9:
                for writer in writers:
                    flushed(writer)
        for writer, commit in zip(writers, commits, strict=True):
            (writer.commit_transaction if commit else writer.abort_transaction)(30)
    plain = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce("transactions", b"outside", partition=0)
    flushed(plain)
    until_noted(broker, "transactions")
    counts = []
    for isolation in ISOLATIONS:
        wanted = listed(official(spark, broker, "transactions", **{"kafka.isolation.level": isolation}))
        found = ours(spark, broker, "transactions", isolation=isolation, range_bytes=2000)
        assert listed(found) == wanted
        counts.append(len(wanted))
    assert counts == [4 * 30 + 1, 4 * 15 + 1]


def cleaned_up_to(broker: Target, topic: str) -> int:
    """Return the offset up to which the broker has cleaned a topic's only partition."""
    path = broker.data_dir / "cleaner-offset-checkpoint"
    found = re.search(rf"^{topic} 0 (\d+)$", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) if found else 0


def test_a_topic_that_was_compacted(spark: SparkSession, broker: Target) -> None:
    """If this fails, a gap that the cleaner left counts as damage, or a record that it removed is still read."""
    create_topic(broker.bootstrap, "compacted", config=COMPACTED)
    source_of_bytes = random.Random(1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for number in range(COUNT):
        # Random bytes, which no codec makes smaller: the topic gets several segments.
        value = None if number % 97 == 0 else source_of_bytes.randbytes(1000)
        producer.produce("compacted", value, b"k%d" % (number % 150), 0)
        if number % 100 == 0:
            flushed(producer)
    flushed(producer)
    until_noted(broker, "compacted")

    def is_cleaned() -> bool:
        bases = sorted(int(each.stem) for each in (broker.data_dir / "compacted-0").glob("*.log"))
        return 0 < cleaned_up_to(broker, "compacted") == bases[-1]

    # Then nothing is left to clean: the last segment is active.
    until(is_cleaned, "the cleaner", 120)
    wanted = listed(official(spark, broker, "compacted"))
    assert len(wanted) < COUNT // 2
    assert listed(ours(spark, broker, "compacted", range_bytes=50_000)) == wanted


class Writer(threading.Thread):
    """Writes at most 50 transactions a second until it is stopped; every third one is aborted."""

    def __init__(self, broker: Target, topic: str) -> None:
        super().__init__(daemon=True)
        self._broker, self._topic = broker, topic
        self._over = threading.Event()
        self._problem: BaseException | None = None

    def run(self) -> None:
        try:
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": self._broker.bootstrap, "transactional.id": f"writer of {self._topic}"}
            )
            producer.init_transactions(30)
            for number in itertools.count():
                producer.begin_transaction()
                for each in range(20):
                    producer.produce(self._topic, b"%d" % each, b"%d" % number)
                (producer.commit_transaction if number % 3 else producer.abort_transaction)(30)
                if self._over.wait(PAUSE_S):
                    return
        except BaseException as error:
            self._problem = error

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.join(60)
        assert self._problem is None, self._problem


def test_a_range_is_the_same_while_the_broker_writes(spark: SparkSession, broker: Target) -> None:
    """If this fails, a batch that is being written, or is not replicated yet, is read or counts as damage."""
    topic = "growing"
    create_topic(broker.bootstrap, topic, config={"segment.bytes": str(1 << 20)})
    with Writer(broker, topic):
        until(lambda: ends(broker, topic)[0] > 1000, "some records", NOTED_S)
        for isolation in (*ISOLATIONS, *ISOLATIONS):
            end = ends(broker, topic, isolation=isolation)[0]
            start = end // 3
            wanted = listed(
                official(
                    spark,
                    broker,
                    topic,
                    startingOffsets=json.dumps({topic: {"0": start}}),
                    endingOffsets=json.dumps({topic: {"0": end}}),
                    **{"kafka.isolation.level": isolation},
                )
            )
            bounds = {"starting_offset": start, "ending_offset": end, "isolation": isolation}
            assert listed(ours(spark, broker, topic, range_bytes=10_000, **bounds)) == wanted
            assert len(wanted) > 300


def run_once(spark: SparkSession, broker: Target, topic: str, out: Path, limit: int) -> list[int]:
    """Run a stream with availableNow; return the rows of each of its batches."""
    query = (
        spark.readStream.format(source.NAME)
        .options(path=str(broker.data_dir), topic=topic, includeHeaders="true", maxOffsetsPerTrigger=str(limit))
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{out}/rows")
    )
    assert query.awaitTermination(120)
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]


def test_a_stream_over_a_growing_topic_has_every_row_once(spark: SparkSession, broker: Target, tmp_path: Path) -> None:
    """If this fails, a restarted stream loses or duplicates records, or ignores its limit."""
    source.register(spark)
    topic = "streamed"
    create_topic(broker.bootstrap, topic, partitions=2)
    with Writer(broker, topic):
        until(lambda: min(ends(broker, topic).values()) > 100, "some records", NOTED_S)
        limit = sum(ends(broker, topic).values()) // 3
        first = run_once(spark, broker, topic, tmp_path, limit)
    until_noted(broker, topic)
    everything = sum(ends(broker, topic).values())
    second = run_once(spark, broker, topic, tmp_path, everything)
    assert run_once(spark, broker, topic, tmp_path, everything) == []
    wanted = listed(official(spark, broker, topic))
    assert listed(spark.read.parquet(f"{tmp_path}/rows")) == wanted
    assert len(first) >= 3
    # The limit counts offsets of a batch, and markers are not rows.
    assert max(first) <= limit
    assert len(second) == 1
