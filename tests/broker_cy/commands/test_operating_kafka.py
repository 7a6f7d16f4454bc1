"""Operating three real nodes of Apache Kafka 4.3.1: moves, progress and cancel; a drain, elections, a lost broker."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_cy.commands.conftest import COMMAND, ROOT, TIMEOUT_S, Cli
from tests.broker_cy.commands.operating import bootstrap, replicas, with_cluster
from tests.support import kafka_tools, needs
from tests.support.kafka_cluster import kafka_cluster
from tests.support.kafka_peer import KafkaPeer
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.kafka]

# The bytes of the topic, and a rate that needs much longer for them than a test.
LINES, LINE_BYTES = 200, 50_000
SLOW = "50k"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaPeer]]:
    """Three nodes for the tests of this module, which leave them balanced; the last one stops one."""
    with kafka_cluster(tmp_path_factory.mktemp("operating")) as found:
        yield found


@pytest.fixture
def kafka(bare: Cli, nodes: list[KafkaPeer]) -> Cli:
    """Runs a command with the cluster."""
    return with_cluster(bare, nodes)


@pytest.fixture
def topic(kafka: Cli, name: str) -> Iterator[str]:
    """A topic of six partitions with two replicas each, and 10 MB of records; deleted afterwards."""
    kafka("topics", "create", name, "-p", "6", "-r", "2")
    kafka("produce", name, stdin=b"".join(b"%05d" % n + b"x" * LINE_BYTES + b"\n" for n in range(LINES)))
    until(lambda: not kafka("topics", "list", "--under-replicated", "--json").json, "replicas in sync", TIMEOUT_S)
    yield name
    kafka("topics", "delete", name, "--yes")


def leaders(kafka: Cli, topic: str) -> dict[int, int]:
    (described,) = kafka("topics", "describe", topic, "--json").json
    return {each["partition"]: each["leader"] for each in described["partitions"]}


def rest(kafka: Cli) -> Any:
    """Wait until nothing is moving and no broker reports a throttle; return the last status."""

    def shown() -> Any:
        found = kafka("reassign", "status", "--json").json
        return found if not found["moving"] and not any(found["throttle"].values()) else None

    return until(shown, "no move and no throttle", TIMEOUT_S)


def test_the_quorum_is_shown_with_its_endpoints(kafka: Cli, nodes: list[KafkaPeer]) -> None:
    """If this fails, an operator does not see which controller leads, or how to reach the others."""
    found = kafka("quorum", "show", "--json").json
    assert found["leader_id"] in (1, 2, 3)
    ports = {each["replica_id"]: each["endpoints"][0]["port"] for each in found["voters"]}
    assert ports == {number: node.controller_port for number, node in enumerate(nodes, 1)}
    assert "leader" in kafka("quorum", "show").out
    refused = kafka("quorum", "remove", "2", "--yes", code=2)
    assert "controller.quorum.voters" in refused.err


def test_a_move_is_shown_and_ends_without_a_trace_when_it_is_interrupted(
    kafka: Cli, nodes: list[KafkaPeer], topic: str, tmp_path: Path
) -> None:
    """If this fails, Ctrl-C leaves a throttle, half-moved partitions, or other preferred leaders."""
    before = replicas(kafka, topic)
    wanted = [
        {"topic": topic, "partition": number, "replicas": [({1, 2, 3} - set(ids)).pop(), ids[0]]}
        for number, ids in before.items()
    ]
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    options = ["--throttle", SLOW, "--concurrent", "2", "--yes", "--bootstrap", bootstrap(nodes)]
    process = subprocess.Popen(
        [*COMMAND, "reassign", "apply", str(file), *options], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:
        shown = until(lambda: kafka("reassign", "status", "--json").json["moving"], "a move", TIMEOUT_S)
        assert 1 <= len(shown) <= 2
        assert all(each["total_bytes"] > each["copied_bytes"] for each in shown)
        # A second plan would count the same replicas.
        assert "under way" in kafka("reassign", "plan", "--balance", code=1).err
        status = kafka("reassign", "status")
        assert "throttle: 50.0 KiB/s on brokers 1, 2, 3, for replicas of 1 topic" in status.out
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "0 of 6 moves, 0 B of 9.5 MiB" in err
    assert "were cancelled, and the throttle was removed" in err
    rest(kafka)
    assert replicas(kafka, topic) == before


def test_moves_of_somebody_else_are_cancelled(kafka: Cli, topic: str, nodes: list[KafkaPeer], tmp_path: Path) -> None:
    """If this fails, a plan printed with --json is none that Kafka's tool reads; or its moves and its throttle, which
    it leaves behind, cannot be ended here.
    """
    before = replicas(kafka, topic)
    file = tmp_path / "moves.json"
    file.write_text(kafka("reassign", "plan", "--drain", "1", "--json").out)
    moved = {each["partition"] for each in json.loads(file.read_text())["partitions"] if each["topic"] == topic}
    assert moved == {number for number, ids in before.items() if 1 in ids}
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    arguments = ["--bootstrap-server", nodes[0].bootstrap, "--execute", "--reassignment-json-file", str(file)]
    kafka_tools.run_tool(tool, *arguments, "--throttle", "50000")
    assert kafka("reassign", "status", "--json").json["moving"]
    # The replicas that are added are new, not missing.
    listed = ["--describe", "--under-replicated-partitions", "--topic", topic]
    shown = kafka_tools.run_tool("org.apache.kafka.tools.TopicCommand", *arguments[:2], *listed)
    assert not shown.stdout.strip()
    assert not kafka("topics", "list", "--under-replicated", "--match", topic, "--json").json
    assert any(len(ids) == 3 for ids in replicas(kafka, topic).values()), "nothing moves any more"
    assert "cancelled the reassignment" in kafka("reassign", "cancel", "--yes").out
    rest(kafka)
    assert {number: sorted(ids) for number, ids in replicas(kafka, topic).items()} == {
        number: sorted(ids) for number, ids in before.items()
    }
    assert "no such partition is being moved" in kafka("reassign", "cancel", "--yes").out


def test_a_broker_is_drained_and_comes_back(kafka: Cli, topic: str, name: str) -> None:
    """If this fails, a broker cannot be taken out of the cluster, or records are lost on the way."""
    preview = kafka("brokers", "drain", "3", "--dry-run").err
    assert "Drain broker 3: moves" in preview
    assert 3 in {each for ids in replicas(kafka, topic).values() for each in ids}
    assert "--yes" in kafka("brokers", "drain", "3", code=4).err
    said = kafka("brokers", "drain", "3", "--throttle", "50M", "--concurrent", "3", "--yes")
    assert "moves, 0 B of" in said.err
    assert said.out.startswith("moved ")
    after = replicas(kafka, topic)
    assert all(sorted(ids) == [1, 2] for ids in after.values())
    rest(kafka)
    drained = until(
        lambda: next(
            (
                each
                for each in kafka("brokers", "list", "--json").json
                if each["broker_id"] == 3 and not each["replicas"]
            ),
            None,
        ),
        "no replica on broker 3",
        TIMEOUT_S,
    )
    assert drained["state"] == "cordoned"
    kafka("topics", "create", f"{name}-new", "-p", "6", "-r", "2")
    assert all(sorted(ids) == [1, 2] for ids in replicas(kafka, f"{name}-new").values())
    assert "nothing to do" in kafka("brokers", "drain", "3", "--yes").out
    kafka("brokers", "uncordon", "3", "--yes")

    def uncordoned() -> bool:
        # Another broker may answer the next command, before it has replayed the change.
        return "not cordoned" in kafka("brokers", "uncordon", "3", "--yes").out

    until(uncordoned, "nothing left to uncordon", TIMEOUT_S)
    kafka("reassign", "apply", "--add", "3", "--yes")
    assert any(3 in ids for ids in replicas(kafka, topic).values())
    records = kafka("consume", topic, "-e", "-f", "%o %S\n").out.splitlines()
    assert len(records) == LINES
    kafka("topics", "delete", f"{name}-new", "--yes")


def test_preferred_leaders_are_elected(kafka: Cli, topic: str, tmp_path: Path) -> None:
    """If this fails, one broker leads everything after a restart of the others."""
    before = replicas(kafka, topic)
    wanted = [{"topic": topic, "partition": number, "replicas": ids[::-1]} for number, ids in before.items()]
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    assert "copies 0 B" in kafka("reassign", "apply", file, "--yes").err
    assert leaders(kafka, topic) == {number: ids[0] for number, ids in before.items()}
    kafka("leaders", "elect", "--preferred", "--topic", f"{topic}:0", "--yes")
    until(lambda: leaders(kafka, topic)[0] == before[0][1], "a new leader", TIMEOUT_S)
    assert leaders(kafka, topic)[1] == before[1][0]
    assert "of 5 partitions" in kafka("leaders", "elect", "--preferred", "--topic", topic, "--yes").out
    until(lambda: leaders(kafka, topic) == {number: ids[1] for number, ids in before.items()}, "new leaders", TIMEOUT_S)


def test_a_lost_broker_is_named_drained_and_unregistered(kafka: Cli, topic: str, nodes: list[KafkaPeer]) -> None:
    """If this fails, an operator does not see what a lost broker means, or cannot replace its replicas."""
    assert "is in service" in kafka("brokers", "unregister", "3", "--yes", code=2).err
    assert kafka("cluster", "health", "--json").json["under_replicated_partitions"] == 0
    nodes[2].kill()

    def fenced() -> bool:
        state = {each["broker_id"]: each["state"] for each in kafka("brokers", "list", "--json").json}
        return state.get(3) == "fenced"

    until(fenced, "broker 3 is fenced", TIMEOUT_S)
    lacking = kafka("topics", "list", "--under-replicated", "--match", topic, "--json").json
    assert {each["partition"] for each in lacking} == {n for n, ids in replicas(kafka, topic).items() if 3 in ids}
    health = kafka("cluster", "health", "--json", code=1).json
    assert health["brokers_away"] == [3]
    assert health["under_replicated_partitions"] >= len(lacking)
    assert "drain 3" in kafka("brokers", "unregister", "3", "--yes", code=2).err
    kafka("brokers", "drain", "3", "--yes")
    assert all(sorted(ids) == [1, 2] for ids in replicas(kafka, topic).values())
    until(lambda: not kafka("topics", "list", "--under-replicated", "--json").json, "replicas in sync", TIMEOUT_S)
    kafka("brokers", "unregister", "3", "--yes")
    until(
        lambda: [each["broker_id"] for each in kafka("brokers", "list", "--json").json] == [1, 2],
        "broker 3 is forgotten",
        TIMEOUT_S,
    )
