"""Several brokers as the nodes of one cluster in a lake, and recreated topics."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from broker_cy.admin import AdminClient
from broker_cy.metrics import events, sample
from spark_analytics.jobs import nodes
from spark_analytics.lake import Lake, LakeError
from spark_analytics.sources import Source, Topic, current, enter
from tests.spark_analytics.lakes import complete
from tests.spark_analytics.own_topics import CLUSTER, SETTINGS, in_lake, ingest, read, some_samples, times_of
from tests.support.both_brokers import running
from tests.support.broker import Target
from tests.support.wait import until

pytestmark = pytest.mark.full

NODES = (1, 2, 3)
ROOT = Path(__file__).resolve().parents[2]
# The load of each broker in the soak test, and the load of one of them for some minutes.
RECORDS_PER_S, TURN_S = 300, 0.05
SURGED, SURGE = 2, 10
QUIET_MINUTES, SURGE_MINUTES = 3, 5


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Target]]:
    """Three brokers, each a separate Kafka cluster."""
    with contextlib.ExitStack() as stack:
        made = [
            stack.enter_context(
                running("broker-cy", tmp_path_factory.mktemp("node"), {**SETTINGS, "node.id": str(node)})
            )
            for node in NODES
        ]
        for each in made:
            some_samples(each)
        yield made


def test_three_brokers_are_the_nodes_of_one_cluster(spark: SparkSession, brokers: list[Target], tmp_path: Path) -> None:
    """If this fails, brokers that are separate clusters cannot be compared, or their rows are mixed up."""
    for each in brokers:
        ingest(each, tmp_path)
    lake = Lake(tmp_path)
    assert lake.clusters == [CLUSTER]
    assert len(lake.sources(CLUSTER)) == len(NODES)
    for node, each in zip(NODES, brokers, strict=True):
        rows = lake.read(spark, "samples").where(f"broker = {node}").selectExpr("unix_millis(at) AS ms").collect()
        found = sorted(row.ms for row in rows)
        assert len(found) > 3
        assert found == times_of(each)[: len(found)]
    made = nodes.minutes(lake.read(spark, "samples"), lake.read(spark, "api_phases"))
    assert {(row.cluster, row.broker) for row in made.collect()} == {(CLUSTER, node) for node in NODES}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_broker_with_more_traffic_is_found(spark: SparkSession, brokers: list[Target], tmp_path: Path) -> None:
    """If this fails, brokers that differ from the others for minutes are not found, or other brokers are reported."""
    loads = [Load(each) for each in brokers]
    for load in loads:
        load.start()
    try:
        for minutes, factor in ((QUIET_MINUTES, 1), (SURGE_MINUTES, SURGE), (1, 1)):
            loads[NODES.index(SURGED)].factor = factor
            end_s = time.monotonic() + 60 * minutes
            until(lambda end_s=end_s: time.monotonic() >= end_s, f"{minutes} minutes", 60 * minutes + 60, 1)  # type: ignore[misc]
    finally:
        for load in loads:
            load.stop()
    for each in brokers:
        command("ingest", "--bootstrap", each.bootstrap, "--lake", "lake", "--name", CLUSTER, cwd=tmp_path)
    print(command("run", "nodes", "--lake", "lake", "--out", "out", cwd=tmp_path))
    found = spark.read.parquet(str(tmp_path / "out" / "nodes" / "anomalies")).collect()
    assert {row.broker for row in found} == {SURGED}, found
    (row,) = (each for each in found if each.metric == "in_bytes_per_s")
    assert SURGE_MINUTES - 1 <= row.minutes <= SURGE_MINUTES + 1
    assert row.peak > row.normal * SURGE / 2


class Load(threading.Thread):
    """Writes RECORDS_PER_S times `factor` records of 100 bytes each second to a broker, until `stop`."""

    def __init__(self, broker: Target) -> None:
        super().__init__(daemon=True)
        self.factor = 1
        self._ended = threading.Event()
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})

    def run(self) -> None:
        while not self._ended.wait(TURN_S):
            for _ in range(round(RECORDS_PER_S * self.factor * TURN_S)):
                self._producer.produce("load", b"x" * 100)
            self._producer.poll(0)

    def stop(self) -> None:
        self._ended.set()
        self.join(60)
        assert self._producer.flush(60) == 0


def command(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "spark_analytics", *words],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_topic_that_was_created_again_is_read_from_its_start(
    spark: SparkSession, make_broker: Callable[..., Target], tmp_path: Path
) -> None:
    """If this fails, the offsets of a deleted topic are used for its successor: its first records are never read, or
    every ingest fails.
    """
    own = make_broker(SETTINGS)
    some_samples(own)
    ingest(own, tmp_path)
    first = in_lake(tmp_path)
    before = asyncio.run(delete(own, sample.TOPIC))
    until(lambda: asyncio.run(topic_ids(own)).get(sample.TOPIC) not in (None, before), "another topic", 60)
    some_samples(own)
    _, shown = ingest(own, tmp_path)
    assert any(f"{sample.TOPIC} was created again since the last ingest" in text for text in shown)
    assert not any(events.TOPIC in text for text in shown)
    found, there = in_lake(tmp_path), times_of(own)
    assert found == [*first, *there[: len(found) - len(first)]]
    assert len(found) > len(first)
    # The other topic continues at its offset.
    created = [events.decode(each) for each in read(own, events.TOPIC)]
    types = [each.event.TYPE for each in created if each is not None]
    assert sorted(row.type for row in Lake(tmp_path).read(spark, "events").collect()) == sorted(types)


async def delete(broker: Target, topic: str) -> str:
    """Delete a topic; return its id."""
    before = (await topic_ids(broker))[topic]
    async with AdminClient(broker.bootstrap) as client:
        (await client.topics.delete([topic])).whole()
    return before


async def topic_ids(broker: Target) -> dict[str, str]:
    async with AdminClient(broker.bootstrap) as client:
        return {each.name: str(each.topic_id) for each in await client.topics.list_all()}


def source(name: str, nodes: set[int], **ids: str) -> Source:
    """Return a source whose topics have these ids, and offsets from 7 to 99."""
    topics = {topic: Topic(topic_id, {0: 7}, {0: 100}) for topic, topic_id in ids.items()}
    return Source(f"{name}:9092", CLUSTER, name, frozenset(nodes), topics)


def test_a_node_of_another_source_is_refused(tmp_path: Path) -> None:
    """If this fails, two brokers with the default node id become one broker with twice the load."""
    lake = Lake(tmp_path)
    enter(lake, source("a", {1, 2}))
    enter(lake, source("a", {1}))
    enter(lake, source("b", {3}))
    with pytest.raises(LakeError, match=r"c:9092 \(cluster id c\) has node 2, and so has a:9092 \(cluster id a\)"):
        enter(lake, source("c", {2, 4}))
    assert lake.sources(CLUSTER) == ["a", "b"]
    with pytest.raises(LakeError, match=r"d: no other source of 'test' \(there: a, b\)"):
        enter(lake, source("c", {2, 4}), replaces="d")
    enter(lake, source("c", {2, 4}), replaces="a")
    enter(lake, source("c", {2, 4}))
    with pytest.raises(LakeError, match=r"a:9092 .* has node 2, and so has c:9092"):
        enter(lake, source("a", {1, 2}))
    enter(lake, replace(source("e", {1}), cluster="elsewhere"))


def test_topics_go_on_or_begin(tmp_path: Path) -> None:
    """If this fails, a topic starts over because another one was deleted, or a deleted topic ends every ingest."""
    lake = Lake(tmp_path)
    first, starts, notes = current(lake, source("a", {1}, t="1", u="1"))
    assert (first.number, starts, notes) == (1, {}, [])
    # Without a complete batch, nothing has been read.
    second, starts, notes = current(lake, source("a", {1}, t="2", u="1"))
    assert (second.number, starts) == (2, {})
    assert len(notes) == 1
    assert "t was created again" in notes[0]
    assert "(none were)" in notes[0]
    assert (second.complete, second.ends) == (0, {})
    complete(lake, 0, second, {"t": {0: 20}, "u": {0: 30}})
    assert (second.complete, second.ends) == (1, {"t": {0: 20}, "u": {0: 30}})
    assert current(lake, source("a", {1}, t="2", u="1"))[0] == second
    third, starts, notes = current(lake, source("a", {1}, u="1"))
    assert (third.number, starts) == (3, {"u": {0: 30}})
    assert "t was deleted" in notes[0]
    assert "(after offset 19)" in notes[0]
    # The topic was only temporarily invisible: the same topic continues.
    fourth, starts, notes = current(lake, source("a", {1}, t="2", u="1"))
    assert (fourth.number, starts, notes) == (4, {"t": {0: 20}, "u": {0: 30}}, [])
    fifth, starts, _ = current(lake, source("a", {1}, t="3", u="1"))
    assert (fifth.number, starts) == (5, {"u": {0: 30}})
