"""Ingest from a broker into a lake: everything once, whatever happens to the driver."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from bench import protocol
from bench.launch.processes import Child
from broker_cy.metrics import events, sample
from spark_analytics.ingest import TOPICS
from spark_analytics.lake import Lake, LakeError, Span
from tests.support.both_brokers import running
from tests.support.broker import BrokerProcess, Target
from tests.support.wait import until

ENDS_S = 240.0
ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "spark_analytics")
CLUSTER = "test"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running("broker-cy", tmp_path_factory.mktemp("ingest")) as target:
        until(lambda: len(read(target, sample.TOPIC)) > 3, "some samples", 60, tolerate=(KafkaException,))
        yield target


def read(broker: Target, topic: str) -> list[bytes]:
    """Return the values of a topic's only partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        part = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(part, timeout=30)
        consumer.assign([part])
        found: list[bytes] = []
        while len(found) < end:
            for message in consumer.consume(1000, timeout=10):
                assert message.error() is None
                value = message.value()
                assert value is not None
                found.append(value)
        return found
    finally:
        consumer.close()


def ingest(broker: Target, lake: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, "ingest", "--bootstrap", broker.bootstrap, "--out", str(lake), "--cluster", CLUSTER, *options]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S, check=False)


def times_of(values: list[bytes]) -> list[int]:
    found = [sample.decode(each) for each in values]
    return [each.time_ms for each in found if each is not None]


def in_lake(spark: SparkSession, lake: Path) -> list[int]:
    """Return the times of the samples of a lake, in ms."""
    found = Lake(lake).read(spark, "samples").selectExpr("unix_millis(at) AS ms").collect()
    return sorted(each.ms for each in found)


def test_sparks_own_source_reads_both_topics(spark: SparkSession, broker: Target) -> None:
    """If this fails, the topics are reported as internal, and Spark reads nothing without a word."""
    for topic in TOPICS:
        found = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", topic)
            .load()
        )
        assert found.count() > 0


def test_no_client_writes_to_them(broker: Target) -> None:
    """If this fails, whoever can reach the broker can forge its history."""
    host, _, port = broker.bootstrap.rpartition(":")
    for topic in TOPICS:
        with (
            protocol.Client((host, int(port))) as client,
            pytest.raises(protocol.ProtocolError, match=r"INVALID_TOPIC|17"),
        ):
            client.produce(protocol.produce_request(topic, 0, protocol.record_batch(10, 1), 1))


def test_what_came_since_is_added_once(spark: SparkSession, broker: Target, tmp_path: Path) -> None:
    """If this fails, an ingest doubles what the one before has read, or leaves something out."""
    lake = tmp_path / "lake"
    for _ in range(2):
        before = times_of(read(broker, sample.TOPIC))
        done = ingest(broker, lake)
        assert done.returncode == 0, done.stderr
        after = times_of(read(broker, sample.TOPIC))
        found = in_lake(spark, lake)
        assert found == after[: len(found)]
        assert len(found) >= len(before)
    whole = Lake(lake).read(spark, "events")
    stamped = [events.decode(each) for each in read(broker, events.TOPIC)]
    types = [each.event.TYPE for each in stamped if each is not None and each.event.TYPE != "commits"]
    assert sorted(each.type for each in whole.collect()) == sorted(types[: whole.count()])
    assert Lake(lake).read(spark, "samples", Span(start=_at(after[2]), end=_at(after[4]))).count() == 2


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def planned(offsets: Path) -> set[Path]:
    return set(offsets.iterdir()) if offsets.is_dir() else set()


def killed(broker: Target, lake: Path, chance: random.Random, directory: Path) -> None:
    """Start an ingest, and kill its driver at a random time in it."""
    words = [*COMMAND, "ingest", "--bootstrap", broker.bootstrap, "--out", str(lake), "--cluster", CLUSTER]
    child = Child(words, directory, "killed", env={"PYTHONPATH": str(ROOT)})
    try:
        offsets = Lake(lake).checkpoint(CLUSTER) / "offsets"
        before = planned(offsets)
        # From the planning of a batch on, somewhere in its second or two.
        until(lambda: child.returncode is not None or planned(offsets) - before, "a batch", ENDS_S)
        until_s = time.monotonic() + chance.uniform(0, 2.5)
        while child.returncode is None and time.monotonic() < until_s:
            pass
        if child.returncode is None:
            child.send_signal(signal.SIGKILL)
        child.wait(ENDS_S)
    finally:
        child.kill()


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, broker: Target, tmp_path: Path, kills: int
) -> None:
    """If this fails, a reboot in an ingest leaves wrong sums in the lake for ever."""
    lake, chance = tmp_path / "lake", random.Random(kills)
    for _ in range(kills):
        killed(broker, lake, chance, tmp_path)
    done = ingest(broker, lake)
    assert done.returncode == 0, done.stderr
    found, there = in_lake(spark, lake), times_of(read(broker, sample.TOPIC))
    assert found == there[: len(found)]
    assert len(found) > 3


def test_two_at_once_are_refused(broker: Target, tmp_path: Path) -> None:
    """If this fails, two timers write one batch at the same time."""
    with Lake(tmp_path).locked(CLUSTER):
        done = ingest(broker, tmp_path)
    assert done.returncode == 65
    assert f"another ingest of '{CLUSTER}' writes to {tmp_path}" in done.stderr
    assert "Traceback" not in done.stderr


def test_records_that_are_gone_are_reported(spark: SparkSession, own_topics: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, a lake has a hole that nobody knows of, or can never be written to again."""
    lake = tmp_path / "lake"
    assert ingest(own_topics, lake).returncode == 0
    first = in_lake(spark, lake)
    until(lambda: len(read(own_topics, sample.TOPIC)) > len(first) + 2, "further samples", 60)
    # Another broker at the same address: its topics begin again, with fewer records than were read.
    own_topics.kill()
    for each in own_topics.data_dir.iterdir():
        if each.is_dir():
            subprocess.run(["rm", "-rf", str(each)], check=True)
        else:
            each.unlink()
    own_topics.restart()
    until(lambda: read(own_topics, sample.TOPIC), "samples", 60, tolerate=(KafkaException,))
    lost = ingest(own_topics, lake)
    assert lost.returncode == 69
    assert "--accept-loss" in lost.stderr
    assert in_lake(spark, lake) == first
    done = ingest(own_topics, lake, "--accept-loss")
    assert done.returncode == 0, done.stderr
    assert in_lake(spark, lake)[: len(first)] == first


@pytest.fixture
def own_topics(make_broker: Callable[..., Target]) -> Target:
    made = make_broker()
    until(lambda: len(read(made, sample.TOPIC)) > 3, "some samples", 60, tolerate=(KafkaException,))
    return made


def test_an_empty_lake_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a mistyped folder gives an empty report."""
    with pytest.raises(LakeError, match="holds no complete batch: run `broker-analytics ingest"):
        Lake(tmp_path / "nothing").read(spark, "samples")


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--bootstrap", "127.0.0.1:1", "--out", "lake"), 69, "127.0.0.1:1"),
        (("--bootstrap", "127.0.0.1:1", "--out", "lake", "--cluster", "a/b"), 65, "'a/b' cannot be the name"),
        (("--out", "lake"), 64, "--bootstrap"),
    ],
)
def test_bad_input(options: tuple[str, ...], code: int, text: str, tmp_path: Path) -> None:
    """If this fails, a typing error ends in a stack trace of the JVM."""
    words = [sys.executable, "-m", "spark_analytics", "ingest", *options]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
