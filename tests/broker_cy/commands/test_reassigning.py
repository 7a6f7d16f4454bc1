"""The commands that move replicas, against a cluster in memory: plans, wrong lists, throttles and signals."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from tests.broker_cy.commands.conftest import Cli, key
from tests.support.fake_cluster import BROKER, FakeCluster


def test_a_plan_goes_through_a_file(bare: Cli, cluster: FakeCluster, tmp_path: Path) -> None:
    """If this fails, a plan that was reviewed is not the one that is carried out."""
    shown = bare("reassign", "plan", "--drain", "2")
    assert shown.out.splitlines()[0] == "Drain broker 2: moves 4 partitions, copies 1.2 KiB"
    assert shown.out.splitlines()[2].split() == ["t-0", "2,1", "3,1", "300", "B"]
    assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)
    file = tmp_path / "moves.json"
    file.write_text(bare("reassign", "plan", "--drain", "2", "--json").out)
    dry = bare("reassign", "apply", file, "--dry-run", "--json").json
    assert (dry["dry_run"], [each["what"] for each in dry["changes"]]) == (True, ["t-0", "t-1", "t-2", "t-3"])
    done = bare("reassign", "apply", file, "--concurrent", "2", "--throttle", "1M", "--yes", "--json").json
    assert (sorted(done["done"]), done["failed"]) == (["t-0", "t-1", "t-2", "t-3"], [])
    assert {each: part.replicas for each, part in cluster.parts.items()} == {
        key(n): (1, 3) if n % 2 else (3, 1) for n in range(4)
    }
    assert cluster.moving_most == 2
    assert not any(cluster.configs.values())
    assert bare("reassign", "apply", file, "--yes").out == "every replica is where it should be\n"


def test_the_number_of_replicas_is_changed(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, operators have to write lists of replicas by hand to replicate a topic more, or less."""
    shown = bare("reassign", "plan", "--replication-factor", "3", "--topic", "t:0,1")
    assert shown.out.splitlines()[0] == "Change to 3 replicas: moves 2 partitions, copies 600 B"
    assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)
    done = bare("reassign", "apply", "--replication-factor", "3", "--topic", "t:0,1", "--yes", "--json").json
    assert (sorted(done["done"]), done["failed"]) == (["t-0", "t-1"], [])
    assert [len(cluster.parts[key(n)].replicas) for n in range(4)] == [3, 3, 2, 2]
    bare("reassign", "apply", "--replication-factor", "1", "--topic", "t", "--yes")
    assert [len(cluster.parts[key(n)].replicas) for n in range(4)] == [1, 1, 1, 1]
    again = bare("reassign", "apply", "--replication-factor", "1", "--topic", "t", "--yes")
    assert again.out == "every replica is where it should be\n"
    for options, said in (
        (["9", "--topic", "t"], "it cannot have 9 replicas"),
        (["2", "--topic", "u"], "no such partition"),
        (["2", "--topic", "t:9"], "no such partition"),
        (["2"], "go together"),
    ):
        refused = bare("reassign", "apply", "--replication-factor", *options, "--yes", code=2)
        assert said in " ".join(refused.err.split())
    assert "go together" in bare("reassign", "plan", "--balance", "--topic", "t", code=2).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_moves_and_throttle(bare: Cli, cluster: FakeCluster, number: signal.Signals) -> None:
    """If this fails, a closed terminal or a stopped service leaves a throttle behind."""
    cluster.step_bytes = 0
    before = {each: part.replicas for each, part in cluster.parts.items()}

    def interrupt() -> None:
        if cluster.moving_most and isinstance(cluster.asked[-1], messages.ListPartitionReassignmentsRequest):
            cluster.before_request = lambda: None
            signal.raise_signal(number)

    cluster.before_request = interrupt
    shown = bare("reassign", "apply", "--drain", "2", "--throttle", "1M", "--yes", code=130)
    assert "stopped after 0 of 4 moves" in shown.err
    assert shown.err.endswith("interrupted\n")
    assert {each: part.replicas for each, part in cluster.parts.items()} == before
    assert all(part.target is None for part in cluster.parts.values())
    assert not any(cluster.configs.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not JSON"),
        ('{"version": 2, "partitions": []}', '"version": 1'),
        ('{"version": 1, "partitions": []}', "one or more partitions"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, "2"]}]}', "partitions[0]"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}', "partitions[0]"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "different brokers"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 8]}]}', "no broker 8; it has 1"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 9, "replicas": [1]}]}', "no such partition"),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3], "log_dirs": ["/x"]}]}',
            "no such directory; it has /data",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3]},'
            ' {"topic": "t", "partition": 0, "replicas": [2]}]}',
            "listed twice",
        ),
    ],
)
def test_a_wrong_list_of_moves_is_refused(
    bare: Cli, cluster: FakeCluster, tmp_path: Path, text: str, said: str
) -> None:
    """If this fails, a damaged file moves something, or is refused without a reason."""
    file = tmp_path / "moves.json"
    file.write_text(text)
    assert said in bare("reassign", "apply", file, "--yes", code=2).err
    assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "exactly one of FILE, --drain, --add, --balance"),
        (["--drain", "1", "--balance"], "exactly one of"),
        (["--drain", "1", "--max-moves", "3"], "--max-moves goes with"),
        (["--balance", "--concurrent", "0"], "--concurrent"),
        (["--balance", "--throttle", "fast"], "not a size, such as 500000, 50MB (10^6), 50MiB or 50M"),
        (["--balance", "--throttle", "0"], "at least 1 byte is expected"),
        (["--drain", "8"], "no such broker; it has 1, 2, 3"),
    ],
)
def test_contradictory_options_are_refused(bare: Cli, cluster: FakeCluster, options: list[str], said: str) -> None:
    """If this fails, an option is ignored."""
    assert said in " ".join(bare("reassign", "apply", *options, "--yes", code=2).err.split())
    assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)


def test_moves_under_way_have_a_rate(bare: Cli, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator who did not start the reassignments cannot see when they will be complete."""
    monkeypatch.setattr("broker_cy.commands.reassign.LOOK_S", 0.01)
    assert bare("reassign", "status", "--json").json["rate_bytes_per_s"] is None
    cluster.step_bytes = 30
    for part in cluster.parts.values():
        part.target, part.copied = (3, part.replicas[1]), {3: 0}
    shown = bare("reassign", "status", "--json").json
    copied = sum(each["copied_bytes"] for each in shown["moving"])
    left = sum(each["total_bytes"] for each in shown["moving"]) - copied
    assert shown["rate_bytes_per_s"] > 0
    assert shown["left_s"] * shown["rate_bytes_per_s"] == pytest.approx(left)
    line = bare("reassign", "status").out.splitlines()[-1]
    assert re.fullmatch(r"\S+( \w+)? of 1\.2 KiB, .*/s, .* left", line), line


def test_replicas_that_a_move_adds_are_not_missing(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, each move of replicas looks like a failure, and raises an alert."""
    cluster.step_bytes = 0
    part = cluster.parts[key(0)]
    bare("topics", "list", "--json")
    assert not cluster.kinds(messages.ListPartitionReassignmentsRequest), "nothing is missing"
    part.target, part.copied = (3, part.replicas[1]), {3: 0}
    assert bare("cluster", "health", "--json").json["under_replicated_partitions"] == 0
    assert bare("topics", "list", "--under-replicated", "--json").json == []
    # One of those that it had has left the in-sync set.
    part.isr = part.replicas[:1]
    assert bare("cluster", "health", "--json").json["under_replicated_partitions"] == 1
    # A cluster that cannot list its reassignments.
    part.isr = part.replicas
    cluster.refuse[ApiKey.LIST_PARTITION_REASSIGNMENTS] = ErrorCode.REQUEST_TIMED_OUT
    assert [each["partition"] for each in bare("topics", "list", "--under-replicated", "--json").json] == [0]


def test_a_throttle_that_was_left_behind_is_shown_and_removed(bare: Cli, cluster: FakeCluster) -> None:
    """If this fails, the throttle of a killed tool slows replication down, and the operator cannot find the cause."""
    cluster.configs[BROKER, "1"] = {"leader.replication.throttled.rate": "1048576"}
    shown = bare("reassign", "status").out
    assert "throttle: 1.0 MiB/s on broker 1, for replicas of 0 topics" in shown
    assert "broker-cy reassign cancel" in shown
    assert bare("cluster", "health", "--json").json["throttled"] is True
    assert json.loads(bare("reassign", "cancel", "--dry-run", "--json").out)["changes"][0]["what"] == "throttle"
    bare("reassign", "cancel", "--yes")
    assert not any(cluster.configs.values())
