"""Ingest from a broker into a lake: everything exactly once, whatever happens to the driver."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from bench.wire import protocol
from broker_cy.admin import AdminClient
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.launch.processes import Child
from broker_cy.metrics import events, sample
from spark_analytics import batch_files
from spark_analytics import ingest as reading
from spark_analytics.batch_files import BatchFiles
from spark_analytics.errors import IngestError
from spark_analytics.ingest import TOPICS
from spark_analytics.lake import Generation, Lake, LakeError
from spark_analytics.schema import TABLES
from tests.spark_analytics.own_topics import (
    CLUSTER,
    SETTINGS,
    busy,
    check_against_batch,
    check_against_spark,
    in_lake,
    ingest,
    read,
    some_samples,
    times_of,
)
from tests.support.both_brokers import running
from tests.support.broker import Target
from tests.support.wait import until

pytestmark = pytest.mark.full

ENDS_S = 240.0
ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "spark_analytics")
# An ingest completes its first batch within this time after its start.
STARTS_S = 3.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running("broker-cy", tmp_path_factory.mktemp("ingest"), SETTINGS) as target, busy(target):
        some_samples(target)
        yield target


def of(lake: Path, number: int = 1) -> Generation:
    """Return a generation of the only source of a lake."""
    (source,) = Lake(lake).sources(CLUSTER)
    return Lake(lake).generation(CLUSTER, source, number)


def test_sparks_own_source_reads_both_topics(spark: SparkSession, broker: Target) -> None:
    """If this fails, the topics are reported as internal, and Spark silently reads nothing."""
    for topic in TOPICS:
        found = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", topic)
            .load()
        )
        assert found.count() > 0


def test_no_client_writes_to_them(broker: Target) -> None:
    """If this fails, every client that can reach the broker can forge its history."""
    host, _, port = broker.bootstrap.rpartition(":")
    for topic in TOPICS:
        with (
            protocol.Client((host, int(port))) as client,
            pytest.raises(protocol.ProtocolError, match=r"INVALID_TOPIC|17"),
        ):
            client.produce(protocol.produce_request(topic, 0, protocol.record_batch(10, 1), 1))


def test_what_came_since_is_added_once(
    spark: SparkSession, broker: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an ingest duplicates records of the previous one, or leaves records out."""
    before = times_of(broker)
    monkeypatch.setattr(reading, "BATCH_RECORDS_MAX", max(10, len(before) // 2))
    monkeypatch.setattr(reading, "PIECE_RECORDS_MAX", 7)
    monkeypatch.setattr(batch_files, "GROUP_ROWS", 50)
    done, shown = ingest(broker, tmp_path)
    assert done.batches > 1
    assert [text.split(":")[0] for text in shown] == [f"batch {number}" for number in range(done.batches)]
    first = in_lake(tmp_path)
    assert len(first) >= len(before)
    monkeypatch.undo()
    monkeypatch.setattr(reading, "PROGRESS_S", 0.0)
    second, shown = ingest(broker, tmp_path)
    assert any(re.fullmatch(r"batch \d+: [\d,]+ records read so far", text) for text in shown), shown
    assert done.left_out == second.left_out == 0
    found = in_lake(tmp_path)
    assert found == times_of(broker)[: len(found)]
    assert len(found) > len(first)
    counts = check_against_batch(broker, tmp_path)
    assert all(counts.values()), counts
    check_against_spark(spark, broker, tmp_path)
    assert done.records + second.records == sum(parts[0] for parts in of(tmp_path).ends.values())
    stamped = [events.decode(each) for each in read(broker, events.TOPIC)]
    types = [each.event.TYPE for each in stamped if each is not None and each.event.TYPE != "commits"]
    whole = [row.type for row in Lake(tmp_path).read(spark, "events").orderBy("at").collect()]
    assert sorted(whole) == sorted(types[: len(whole)])


def killed(broker: Target, lake: Path, when: str, chance: random.Random, directory: Path) -> bool:
    """Start an ingest, and kill it: at a random time of its start, when it has begun to write a file, or when it has
    begun that of the commits. Returns whether it was killed in the middle of a batch.
    """
    words = [*COMMAND, "ingest", "--bootstrap", broker.bootstrap, "--lake", str(lake), "--name", CLUSTER]
    number = of(lake).complete if Lake(lake).sources(CLUSTER) else 0
    # Files that a killed ingest left say nothing about this one.
    left = files_of(lake, number, TABLES)
    until_s = time.monotonic() + chance.uniform(0, STARTS_S)
    conditions = {
        "before": lambda: time.monotonic() >= until_s,
        "begun": lambda: bool(files_of(lake, number, TABLES) - left),
        "written": lambda: bool(files_of(lake, number, ["commits"]) - left),
    }
    child = Child(words, directory, "killed", env={"PYTHONPATH": str(ROOT)})
    try:
        until(lambda: child.returncode is not None or conditions[when](), when, ENDS_S, 0.001)
    finally:
        child.kill()
    return bool(files_of(lake, number, TABLES) - left) and of(lake).complete == number


def files_of(lake: Path, number: int, tables: Iterable[str]) -> set[tuple[Path, int, int]]:
    """Return the files of a batch, with attributes that change if a file is rewritten."""
    found = set()
    for table in tables if Lake(lake).sources(CLUSTER) else ():
        # The running ingest may remove files and folders at any moment.
        with contextlib.suppress(FileNotFoundError):
            for path in of(lake).batch(table, number).glob("day=*/*.parquet"):
                with contextlib.suppress(FileNotFoundError):
                    known = path.stat()
                    found.add((path, known.st_ino, known.st_mtime_ns))
    return found


def test_an_ingest_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, broker: Target, tmp_path: Path
) -> None:
    """If this fails, a reboot during an ingest leaves wrong sums in the lake forever."""
    lake, chance = tmp_path / "lake", random.Random(10)
    times = ["written", *chance.choices(["before", "begun", "written"], k=9)]
    interrupted = [killed(broker, lake, when, chance, tmp_path) for when in times]
    print(f"killed {times}, in the middle of a batch: {interrupted}")
    # Some of the other ingests had not begun a batch, or had just noted it.
    assert sum(interrupted) >= 3
    words = [*COMMAND, "ingest", "--bootstrap", broker.bootstrap, "--lake", str(lake), "--name", CLUSTER]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{CLUSTER}: " in done.stdout
    check_all(broker, lake)


def check_all(broker: Target, lake: Path) -> None:
    """Check that a lake has everything that was ingested, exactly once."""
    found, there = in_lake(lake), times_of(broker)
    assert found == there[: len(found)]
    counts = check_against_batch(broker, lake)
    assert all(counts.values()), counts


@pytest.mark.parametrize("last", [(BatchFiles, "add"), (BatchFiles, "complete"), (Generation, "note")])
def test_a_batch_that_was_not_noted_is_written_again(
    spark: SparkSession,
    broker: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: tuple[type[Any], str],
) -> None:
    """If this fails, rows of an interrupted batch are read, or are duplicated by the next ingest."""
    owner, name = last
    real, calls = getattr(owner, name), itertools.count()

    def fails(*given: Any) -> None:
        if next(calls) == 1:
            raise OSError("the disk is full")
        real(*given)

    monkeypatch.setattr(reading, "BATCH_RECORDS_MAX", len(times_of(broker)) // 2)
    monkeypatch.setattr(owner, name, fails)
    with pytest.raises(IngestError, match=f"{tmp_path}: the disk is full"):
        ingest(broker, tmp_path)
    complete = of(tmp_path).complete
    assert complete == (0 if name == "add" else 1)
    if complete:
        found = in_lake(tmp_path)
        assert found == times_of(broker)[: len(found)]
    monkeypatch.undo()
    ingest(broker, tmp_path)
    check_all(broker, tmp_path)


def test_two_at_once_are_refused(spark: SparkSession, broker: Target, tmp_path: Path) -> None:
    """If this fails, two timers write one batch at the same time."""
    source = reading.find(broker.bootstrap, CLUSTER)
    with (
        Lake(tmp_path).locked(CLUSTER, source.source),
        pytest.raises(LakeError, match=f"another ingest of {source.source} as '{CLUSTER}' writes to {tmp_path}"),
    ):
        ingest(broker, tmp_path)


def test_an_ingest_that_waited_for_another_goes_on_where_it_ended(
    spark: SparkSession, broker: Target, tmp_path: Path
) -> None:
    """If this fails, the second of two overlapping timers wrongly reports that the broker lost records."""
    before = reading.find(broker.bootstrap, CLUSTER)
    seen = before.topics[sample.TOPIC].ends[0]
    until(lambda: reading.find(broker.bootstrap, CLUSTER).topics[sample.TOPIC].ends[0] > seen + 2, "samples", 60)
    ingest(broker, tmp_path)
    reading.ingest(Lake(tmp_path), before)
    check_all(broker, tmp_path)


@pytest.mark.parametrize("folder", ["file/lake", "/proc/lake"])
def test_a_lake_that_cannot_be_written_is_named(broker: Target, tmp_path: Path, folder: str) -> None:
    """If this fails, a wrong folder causes a traceback."""
    (tmp_path / "file").touch()
    with pytest.raises(IngestError, match=rf"{folder}: (Not a directory|No such file or directory)"):
        ingest(broker, tmp_path / folder)


def test_records_that_are_gone_are_reported(
    spark: SparkSession, make_broker: Callable[..., Target], tmp_path: Path
) -> None:
    """If this fails, a lake has an unreported gap, or can never be written to again."""
    own = make_broker({**SETTINGS, "log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"})
    some_samples(own)
    ingest(own, tmp_path)
    first = in_lake(tmp_path)
    remove_all(own, sample.TOPIC, len(first) + 1)
    gone = rf"{sample.TOPIC}-0: offsets {len(first)} to \d+ were not ingested yet and are gone: retention removed them"
    with pytest.raises(IngestError, match=rf"{gone}.*--accept-loss"):
        ingest(own, tmp_path)
    assert in_lake(tmp_path) == first
    _, shown = ingest(own, tmp_path, accept_loss=True)
    assert any(re.search(gone, text) for text in shown), shown
    found = in_lake(tmp_path)
    assert found[: len(first)] == first
    assert len(found) > len(first)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("accept_loss", [False, True])
def test_retention_that_overtakes_an_ingest_is_reported(
    make_broker: Callable[..., Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accept_loss: bool
) -> None:
    """If this fails, records that are removed between two batches leave an unreported gap in the lake."""
    own = make_broker({**SETTINGS, "log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"})
    until(lambda: len(times_of(own)) >= 30, "samples", 60, tolerate=(KafkaException,))
    before = times_of(own)
    monkeypatch.setattr(reading, "BATCH_RECORDS_MAX", len(before) // 3)
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        if text.startswith("batch 0:"):
            with ThreadPoolExecutor(1) as pool:  # this thread's event loop reads the records
                pool.submit(remove_all, own, sample.TOPIC, of(tmp_path).ends[sample.TOPIC][0] + 1).result()

    source = reading.find(own.bootstrap, CLUSTER)
    planned = source.topics[sample.TOPIC].ends[0]
    if accept_loss:
        reading.ingest(Lake(tmp_path), source, accept_loss=True, show=show)
    else:
        with pytest.raises(IngestError, match="--accept-loss continues after them") as raised:
            reading.ingest(Lake(tmp_path), source, show=show)
        shown.append(str(raised.value))
    found = [list(map(int, each)) for text in shown for each in re.findall(r"offsets (\d+) to (\d+) were not", text)]
    first, last = found[0][0], found[-1][1]
    assert 0 < first < planned
    # A lost record is reported only once.
    assert [start for start, _ in found] == [first, *(end + 1 for _, end in found[:-1])]
    there = in_lake(tmp_path)
    assert there[:first] == before[:first]
    assert len(there) == len(set(there))
    if accept_loss:
        assert of(tmp_path).complete > 1
        assert len(there) == of(tmp_path).ends[sample.TOPIC][0] - (last + 1 - first)
    else:
        assert (of(tmp_path).complete, there) == (1, before[:first])


def remove_all(broker: Target, topic: str, least: int) -> None:
    """Let retention remove the records of a topic up to offset `least` or a later one."""
    asyncio.run(keep(broker, topic, 100))
    until(lambda: asyncio.run(starts_at(broker, topic)) >= least, "retention", 60)
    asyncio.run(keep(broker, topic, 86_400_000))


def test_a_broker_without_the_topics_is_named(make_broker: Callable[..., Target]) -> None:
    """If this fails, an ingest of Apache Kafka, or of a broker that writes neither topic, ends without a message."""
    own = make_broker({"brokercy.metrics.sample.interval.ms": "0", "brokercy.events.enable": "false"})
    with pytest.raises(IngestError, match=f"{own.bootstrap} has neither {sample.TOPIC} nor {events.TOPIC}: only"):
        reading.find(own.bootstrap, None)


async def keep(broker: Target, topic: str, kept_ms: int) -> None:
    """Make retention remove older records of a topic."""
    changes = [ConfigChange(name, AlterOp.SET, str(kept_ms)) for name in ("retention.ms", "segment.ms")]
    async with AdminClient(broker.bootstrap) as client:
        (await client.configs.alter({ConfigResource(ResourceType.TOPIC, topic): changes})).whole()


async def starts_at(broker: Target, topic: str) -> int:
    part = TopicPartition(topic, 0)
    async with AdminClient(broker.bootstrap) as client:
        return (await client.offsets.earliest([part])).whole()[part]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--bootstrap", "127.0.0.1:1", "--lake", "lake"), 3, "connect, broker 127.0.0.1:1: connection refused"),
        (("--bootstrap", "127.0.0.1:1", "--lake", "lake", "--name", "a/b"), 1, "'a/b' cannot be the name"),
        (("--bootstrap", "127.0.0.1:1"), 2, "--lake"),
    ],
)
def test_bad_input(options: tuple[str, ...], code: int, text: str, tmp_path: Path) -> None:
    """If this fails, a typing error causes a stack trace of the JVM."""
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
