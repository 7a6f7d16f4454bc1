"""Operating three nodes of ours: test_operating_kafka.py does more, with Apache Kafka."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import COMMAND, ROOT, TIMEOUT_S, Cli
from tests.broker_cy.commands.operating import bootstrap, replicas, with_cluster
from tests.support import kafka_tools, needs
from tests.support.cluster import ClusterNode, cluster
from tests.support.wait import until

# A throttle forgets copied bytes after 11 s, and one fetch takes up to 1 MB: the reassignment of this topic takes a
# minute.
LINES, LINE_BYTES = 160, 50_000
SLOW = "1000"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterNode]]:
    """Three nodes for the tests of this module; without own topics, whose three replicas would need all of them."""
    settings = {"brokercy.events.enable": "false", "brokercy.metrics.sample.interval.ms": "0"}
    with cluster(tmp_path_factory.mktemp("operating"), settings=settings) as found:
        yield found


@pytest.fixture
def where(nodes: list[ClusterNode]) -> list[str]:
    return ["--bootstrap", bootstrap(nodes), "--timeout", str(TIMEOUT_S)]


@pytest.fixture
def ours(bare: Cli, nodes: list[ClusterNode]) -> Cli:
    """Runs a command with the cluster."""
    return with_cluster(bare, nodes)


@pytest.fixture
def big(ours: Cli, name: str) -> Iterator[str]:
    """A topic with one replica, and 8 MB of records."""
    ours("topics", "create", name, "-p", "1", "-r", "1")
    drawn = random.Random(1)  # the producer compresses
    ours("produce", name, stdin="".join(f"{drawn.randbytes(LINE_BYTES // 2).hex()}\n" for _ in range(LINES)).encode())
    yield name
    ours("topics", "delete", name, "--yes")


def held(ours: Cli) -> dict[int, int]:
    return {each["broker_id"]: each["replicas"] for each in ours("brokers", "list", "--json").json}


def plan_file(ours: Cli, topic: str, directory: Path) -> tuple[Path, int, int]:
    """A plan that moves the partition to another broker; with the old and the new one."""
    ((old,),) = replicas(ours, topic).values()
    new = old % 3 + 1
    file = directory / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [new]}]}))
    return file, old, new


def test_a_broker_is_drained_and_filled_again(ours: Cli, name: str) -> None:
    """If this fails, a node of ours cannot be taken out of its cluster with our own tools."""
    assert len(ours("quorum", "show", "--json").json["voters"]) == 3
    ours("topics", "create", name, "-p", "6", "-r", "2")
    ours("produce", name, stdin=b"record\n" * 100)
    assert ours("brokers", "drain", "3", "--throttle", "50M", "--yes").out.startswith("moved ")
    until(lambda: held(ours)[3] == 0, "no replica on broker 3", TIMEOUT_S)
    assert not ours("reassign", "status", "--json").json["moving"]
    # The broker was cordoned: it gets no replica of a new topic (KIP-1066).
    states = {each["broker_id"]: each["state"] for each in ours("brokers", "list", "--json").json}
    assert states == {1: "in service", 2: "in service", 3: "cordoned"}
    ours("topics", "create", f"{name}-new", "-p", "6", "-r", "2")
    assert all(sorted(each) == [1, 2] for each in replicas(ours, f"{name}-new").values())
    assert "some brokers have all their log directories cordoned" in (
        ours("topics", "create", f"{name}-three", "-p", "1", "-r", "3", code=1).err
    )
    ours("brokers", "uncordon", "3", "--yes")
    ours("reassign", "apply", "--add", "3", "--yes")
    until(lambda: held(ours)[3] > 0, "replicas on broker 3", TIMEOUT_S)
    ours("leaders", "elect", "--preferred", "--yes")
    assert len(ours("consume", name, "-e", "-f", "%s\n").out.splitlines()) == 100


def test_a_throttled_move_that_is_interrupted_leaves_nothing_behind(
    ours: Cli, where: list[str], big: str, tmp_path: Path
) -> None:
    """If this fails, Ctrl-C leaves a throttle or half-moved partitions, or a throttle does not hold a move."""
    file, old, _ = plan_file(ours, big, tmp_path)
    options = ["--throttle", SLOW, "--yes", *where]
    process = subprocess.Popen(
        [*COMMAND, "reassign", "apply", str(file), *options], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:

        def copied() -> bool:
            moving = ours("reassign", "status", "--json").json["moving"]
            return bool(moving) and 0 < moving[0]["copied_bytes"] < moving[0]["total_bytes"]

        until(copied, "a part that is copied", TIMEOUT_S)
        assert "throttle: 1000 B/s on brokers" in ours("reassign", "status").out
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "0 of 1 move, " in err
    assert replicas(ours, big) == {0: [old]}
    status = ours("reassign", "status", "--json").json
    assert status == {
        "moving": [],
        "rate_bytes_per_s": None,
        "left_s": None,
        "throttle": {"rates": {}, "replicas": {}},
    }


# Four runs of a JVM and two of the throttle's bursts: a minute beside other tests.
@pytest.mark.soak
@needs.kafka
def test_kafkas_tool_throttles_a_move_and_removes_the_throttle(
    ours: Cli, nodes: list[ClusterNode], big: str, tmp_path: Path
) -> None:
    """If this fails, kafka-reassign-partitions.sh moves without a limit, or never says that it is done."""
    file, _, new = plan_file(ours, big, tmp_path)
    common: list[str | Path] = ["--bootstrap-server", bootstrap(nodes), "--reassignment-json-file", file]

    def tool(*arguments: str) -> str:
        return kafka_tools.run_tool(REASSIGN, *common, *arguments).stdout.decode()

    assert "Successfully started partition reassignment" in tool("--execute", "--throttle", SLOW)
    assert "is still in progress" in tool("--verify")
    assert ours("reassign", "status", "--json").json["throttle"]["replicas"]
    assert "The inter-broker throttle limit was set to 100000000 B/s" in (
        tool("--execute", "--additional", "--throttle", "100000000")
    )
    until(lambda: replicas(ours, big) == {0: [new]}, "the end of the move", TIMEOUT_S)
    said = tool("--verify")
    assert "is completed" in said
    assert "Clearing broker-level throttles" in said
    assert ours("reassign", "status", "--json").json["throttle"] == {"rates": {}, "replicas": {}}
    assert len(ours("consume", big, "-e", "-f", "%s\n").out.splitlines()) == LINES
