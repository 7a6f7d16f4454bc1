"""`broker-cy log-dirs` with a broker of ours and one of Apache Kafka 4.3.1, with two directories each."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import COMMAND, ROOT, TIMEOUT_S, Cli
from tests.broker_cy.commands.operating import with_cluster
from tests.support import needs
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer
from tests.support.wait import until

PARTITIONS = 4
# More than a step of a copy (8 MiB), after which a throttle has its effect.
LINES, LINE_BYTES = 240, 50_000
SLOW = "1000"


@pytest.fixture(params=["ours", pytest.param("kafka", marks=[pytest.mark.full, needs.kafka])])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess | KafkaPeer]:
    """A broker with the directories a and b. Ours has them relative; Kafka, too, takes cordons by the words of
    `log.dirs` only, but then ignores those of relative ones.
    """
    paths = [tmp_path / "a", tmp_path / "b"]
    if request.param == "ours":
        words = ",".join(os.path.relpath(each) for each in paths)
        made: BrokerProcess | KafkaPeer = BrokerProcess(tmp_path / "node", {"log.dirs": words}, paths[0])
    else:
        made = KafkaPeer(tmp_path / "node", {"log.dirs": ",".join(map(str, paths))}, paths[0])
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def run(bare: Cli, node: BrokerProcess | KafkaPeer) -> Cli:
    return with_cluster(bare, [node])


def held(run: Cli, topic: str) -> dict[str, set[int]]:
    """The partitions of a topic in each directory, without copies."""
    return {
        each["path"]: {
            replica["partition"]
            for replica in each["replicas"]
            if replica["topic"] == topic and not replica["is_future"]
        }
        for each in run("log-dirs", "--json").json
    }


def create(run: Cli, topic: str) -> None:
    run("topics", "create", topic, "-p", str(PARTITIONS), "-r", "1")
    until(lambda: sum(map(len, held(run, topic).values())) == PARTITIONS, "the logs", TIMEOUT_S)


def test_a_disk_is_relieved_drained_and_used_again(run: Cli) -> None:
    """If this fails, the disks of a real broker cannot be balanced or replaced from the command line."""
    create(run, "t")
    a, b = held(run, "t")
    source, target = (a, b) if 0 in held(run, "t")[a] else (b, a)
    before = held(run, "t")
    said = run("log-dirs", "move", "t:0", "--broker", "1", "--to", target, "--wait", "--yes")
    assert said.out.startswith("moved 1 replica")
    assert held(run, "t") == {source: before[source] - {0}, target: before[target] | {0}}

    preview = run("log-dirs", "drain", source, "--broker", "1", "--dry-run").err
    assert "cordoned: takes no new replicas" in preview
    run("log-dirs", "drain", source, "--broker", "1", "--yes")
    every = set(range(PARTITIONS))
    assert held(run, "t") == {source: set(), target: every}
    cordoned = {each["path"]: each["is_cordoned"] for each in run("log-dirs", "--json").json}
    assert cordoned == {source: True, target: False}
    assert "it is cordoned" in run("log-dirs", "move", "t", "--broker", "1", "--to", source, "--yes", code=1).err
    create(run, "u")
    assert held(run, "u") == {source: set(), target: every}

    run("brokers", "uncordon", "1", "--yes")
    until(lambda: not any(each["is_cordoned"] for each in run("log-dirs", "--json").json), "no cordon", TIMEOUT_S)
    run("log-dirs", "balance", "--by", "count", "--yes")
    counts = [len(each["replicas"]) for each in run("log-dirs", "--json").json]
    assert max(counts) - min(counts) <= 1
    assert run("log-dirs", "status").out == "no replica moves between directories\n"


def test_a_slow_move_is_shown_and_cancelled(run: Cli, node: BrokerProcess | KafkaPeer) -> None:
    """If this fails, a move between disks cannot be followed or ended, or its throttle stays."""
    create(run, "t")
    drawn = random.Random(1)  # the producer compresses
    lines = "".join(f"{drawn.randbytes(LINE_BYTES // 2).hex()}\n" for _ in range(LINES))
    run("produce", "t", "--partition", "0", stdin=lines.encode())
    before = held(run, "t")
    target = next(path for path, parts in before.items() if 0 not in parts)
    words = ["log-dirs", "move", "t:0", "--broker", "1", "--to", target, "--wait", "--throttle", SLOW, "--yes"]
    process = subprocess.Popen(
        [*COMMAND, *words, "--bootstrap", node.bootstrap], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        (moving,) = until(lambda: run("log-dirs", "status", "--json").json["moving"], "a move", TIMEOUT_S)
        assert moving["target"] == target
        assert moving["copied_bytes"] < moving["total_bytes"]
        assert "throttle: 1000 B/s" in run("log-dirs", "status").out
        assert "ends 1 move" in run("log-dirs", "cancel", "--dry-run").err
        run("log-dirs", "cancel", "--yes")
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert b"no longer moves it" in err
    assert held(run, "t") == before
    assert run("log-dirs", "status").out == "no replica moves between directories\n"
