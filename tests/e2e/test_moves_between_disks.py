"""Moves of replicas between the disks of a broker, with Kafka's own tools and a client of Kafka."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import kafka_tools, needs
from tests.support.broker import BrokerProcess
from tests.support.confluent import read_all, send
from tests.support.topics import create_topic
from tests.support.wait import until

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
WAIT_S = 60.0
PARTITIONS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    paths = tmp_path / "a", tmp_path / "b"
    process = BrokerProcess(tmp_path / "ours", {"log.dirs": ",".join(map(str, paths))}, paths[0])
    try:
        process.start()
        yield process
    finally:
        process.close()


def places(tmp_path: Path) -> dict[int, str]:
    """The directory of each partition of t."""
    found: dict[int, str] = {}
    for name in ("a", "b"):
        for each in os.listdir(tmp_path / name):
            if each.startswith("t-") and "." not in each:
                found[int(each[2:])] = str(tmp_path / name)
    return found


def tool(name: str, *words: str) -> str:
    """The output of one of Kafka's tools."""
    return kafka_tools.run_tool(name, *words, timeout_s=WAIT_S).stdout.decode()


def plan(targets: dict[int, str]) -> str:
    partitions = [
        {"topic": "t", "partition": index, "replicas": [1], "log_dirs": [path]} for index, path in targets.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})


@pytest.mark.full
@needs.kafka
def test_kafkas_tool_moves_every_replica_to_the_other_disk(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, users of kafka-reassign-partitions cannot balance the disks of a broker, or lose records."""
    create_topic(broker.bootstrap, "t", PARTITIONS)
    expected = {index: [b"%d" % number for number in range(100)] for index in range(PARTITIONS)}
    for index, values in expected.items():
        send(broker, "t", values, index)
    before = places(tmp_path)
    targets = {index: str(tmp_path / ("b" if path.endswith("a") else "a")) for index, path in before.items()}
    file = tmp_path / "plan.json"
    file.write_text(plan(targets))
    where = ["--bootstrap-server", broker.bootstrap]
    words = [*where, "--reassignment-json-file", str(file)]
    is_over = threading.Event()

    def write() -> None:
        number = 100
        while not is_over.is_set():
            for index in range(PARTITIONS):
                send(broker, "t", [b"%d" % number], index)
                expected[index].append(b"%d" % number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = tool(REASSIGN, *words, "--execute", "--replica-alter-log-dirs-throttle", "100000000")
        assert done.count("Successfully started moving log directory to") == PARTITIONS, done
        verified: list[str] = []

        def is_complete() -> bool:
            verified[:] = [tool(REASSIGN, *words, "--verify")]
            return verified[0].count("completed successfully") == PARTITIONS

        until(is_complete, "the moves", WAIT_S)
    finally:
        is_over.set()
        writer.join()
    until(lambda: places(tmp_path) == targets, "one directory for each partition", WAIT_S)
    assert [read_all(broker.bootstrap, "t", index) for index in range(PARTITIONS)] == list(expected.values())
    described = tool(LOG_DIRS, *where, "--describe", "--topic-list", "t")
    found = json.loads(next(line for line in described.splitlines() if line.startswith("{")))
    assert {
        int(part["partition"].removeprefix("t-")): each["logDir"]
        for each in found["brokers"][0]["logDirs"]
        for part in each["partitions"]
        if not part["isFuture"]
    } == targets
    assert broker.stop() == 0
    broker.restart()
    assert [read_all(broker.bootstrap, "t", index) for index in range(PARTITIONS)] == list(expected.values())
