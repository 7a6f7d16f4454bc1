"""`broker-cy log-dirs` against a cluster in memory whose brokers have two directories."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from broker_cy.admin import move_run
from broker_cy.wire import messages
from tests.broker_cy.commands.conftest import Cli, key
from tests.support.fake_cluster import BROKER, FakeCluster

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def disks(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """t-0 to t-3 of brokers 1 to 3, 300 B each, in /data; /disk2 is empty."""
    monkeypatch.setattr(move_run, "EVERY_S", 0.01)
    cluster.paths = ["/data", "/disk2"]
    return cluster


def places(cluster: FakeCluster, broker: int) -> dict[int, str]:
    return {
        n: cluster.places.get((broker, key(n)), "/data") for n in range(4) if broker in cluster.parts[key(n)].replicas
    }


def test_the_name_of_a_command_may_be_left_out(bare: Cli, disks: FakeCluster) -> None:
    """If this fails, scripts that read the directories break."""
    disks.offline_paths.add((2, "/disk2"))
    named = bare("log-dirs", "list", "--json").json
    assert bare("log-dirs", "--json").json == named
    assert [(each["broker_id"], each["path"], each["error"]) for each in named if each["error"]] == [
        (2, "/disk2", "KAFKA_STORAGE_ERROR")
    ]
    (row,) = (line.split() for line in bare("log-dirs", "--broker", "2").out.splitlines() if "/disk2" in line)
    assert row == ["2", "/disk2", "offline", "-", "-", "-", "-"], "the broker does not know what is there"
    assert bare("log-dirs", "--broker", "1").out == bare("log-dirs", "list", "--broker", "1").out
    assert "balance" in bare("log-dirs", "--help").out


def test_replicas_move_to_a_directory(bare: Cli, disks: FakeCluster) -> None:
    """If this fails, an operator cannot relieve a disk, or moves other replicas than those that were named."""
    before = places(disks, 1)
    first, *others = before
    shown = bare("log-dirs", "move", f"t-{first}", "--broker", "1", "--to", "/disk2", "--wait", "--yes", "--json").json
    assert shown["done"] == [f"t-{first} on broker 1"]
    assert places(disks, 1) == {**before, first: "/disk2"}
    # Without --wait the broker goes on alone; the throttle would be left behind.
    bare("log-dirs", "move", f"t:{others[0]}", "--broker", "1", "--to", "/disk2", "--yes")
    assert disks.futures == {(1, key(others[0])): ("/disk2", 0)}
    assert "goes with --wait" in (
        bare("log-dirs", "move", "t", "--broker", "1", "--to", "/disk2", "--throttle", "1M", code=2).err
    )
    for options, said in (
        (["t", "--to", "/x"], "it has /data, /disk2"),
        (["u", "--to", "/disk2"], "no replica of it"),
        (["t:9", "--to", "/disk2"], "no replica of it"),
    ):
        assert said in bare("log-dirs", "move", *options, "--broker", "1", "--yes", code=2).err


def test_status_shows_moves_and_cancel_ends_them(
    bare: Cli, disks: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, moves that another tool began cannot be seen, or not be stopped."""
    monkeypatch.setattr("broker_cy.commands.log_dirs.LOOK_S", 0.01)
    assert bare("log-dirs", "status").out == "no replica moves between directories\n"
    disks.step_bytes = 50
    number = next(iter(places(disks, 2)))
    disks.futures[2, key(number)] = ("/disk2", 0)
    disks.configs[BROKER, "2"] = {RATE: "1000"}
    shown = bare("log-dirs", "status", "--json").json
    (moving,) = shown["moving"]
    assert (moving["source"], moving["target"], moving["copied_bytes"], moving["total_bytes"]) == (
        "/data", "/disk2", 100, 300,
    )  # fmt: skip
    assert shown["throttle"] == {"2": 1000}
    bare("log-dirs", "cancel", "--yes")
    assert (disks.futures, disks.configs[BROKER, "2"]) == ({}, {})
    assert "no such replica" in bare("log-dirs", "cancel", "--yes").out


def test_a_balance_is_previewed_and_carried_out(bare: Cli, disks: FakeCluster) -> None:
    """If this fails, one disk is full while the next is empty, or a preview moves something."""
    dry = bare("log-dirs", "balance", "--broker", "1", "--dry-run", "--json").json
    assert dry["dry_run"]
    assert not disks.kinds(messages.AlterReplicaLogDirsRequest)
    bare("log-dirs", "balance", "--broker", "1", "--throttle", "1M", "--yes")
    found = list(places(disks, 1).values())
    assert abs(found.count("/data") - found.count("/disk2")) <= 1
    assert set(places(disks, 2).values()) == {"/data"}, "only the broker that was named"
    assert not disks.configs.get((BROKER, "1"))
    assert "are balanced" in bare("log-dirs", "balance", "--broker", "1", "--yes").out
    bare("log-dirs", "balance", "--by", "count", "--yes")
    assert set(places(disks, 2).values()) == {"/data", "/disk2"}


def test_a_directory_is_cordoned_by_its_word_in_log_dirs(bare: Cli, disks: FakeCluster) -> None:
    """If this fails, a broker with a relative `log.dirs` refuses the cordon and fills a drained disk."""
    disks.configs[BROKER, "1"] = {"log.dirs": "data,./disk2"}
    bare("log-dirs", "drain", "/disk2", "--broker", "1", "--yes")
    assert disks.configs[BROKER, "1"]["cordoned.log.dirs"] == "./disk2"


def test_a_drained_directory_stays_empty(bare: Cli, disks: FakeCluster) -> None:
    """If this fails, a disk is replaced while replicas are on it, or it gets new ones meanwhile."""
    bare("log-dirs", "drain", "/data", "--broker", "1", "--yes")
    assert set(places(disks, 1).values()) == {"/disk2"}
    assert disks.configs[BROKER, "1"] == {"cordoned.log.dirs": "/data"}
    assert "nothing to do" in bare("log-dirs", "drain", "/data", "--broker", "1", "--yes").out
    disks.offline_paths.add((2, "/disk2"))
    assert "no other directory that takes" in bare("log-dirs", "drain", "/data", "--broker", "2", code=1).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_moves_and_throttle(bare: Cli, disks: FakeCluster, number: signal.Signals) -> None:
    """If this fails, a closed terminal leaves a throttle behind, or moves without supervision."""
    disks.step_bytes = 0

    def interrupt() -> None:
        if disks.futures and isinstance(disks.asked[-1], messages.AlterReplicaLogDirsRequest):
            assert disks.configs[BROKER, "1"] == {RATE: "1048576"}
            disks.before_request = lambda: None
            signal.raise_signal(number)

    disks.before_request = interrupt
    shown = bare("log-dirs", "balance", "--broker", "1", "--throttle", "1M", "--yes", code=130)
    assert "stopped after 0 of" in shown.err
    assert (disks.futures, disks.configs[BROKER, "1"]) == ({}, {})


def test_a_disk_that_fails_meanwhile_is_reported(
    bare: Cli, disks: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a move to a dead disk is waited for without an end."""
    monkeypatch.setattr(move_run, "MISSING_MAX", 2)

    def fail() -> None:
        if disks.futures:
            disks.offline_paths.add((1, "/disk2"))
            disks.futures.clear()

    disks.before_request = fail
    shown = bare("log-dirs", "move", "t", "--broker", "1", "--to", "/disk2", "--wait", "--yes", code=1)
    assert "no longer moves it to /disk2; it is in /data" in shown.err


def test_a_list_of_moves_names_directories(bare: Cli, disks: FakeCluster, tmp_path: Path) -> None:
    """If this fails, a plan of kafka-reassign-partitions with log_dirs puts replicas on disks that it did not name."""
    file = tmp_path / "moves.json"

    def write(replicas: list[int], log_dirs: list[str]) -> None:
        part = {"topic": "t", "partition": 1, "replicas": replicas, "log_dirs": log_dirs}
        file.write_text(json.dumps({"version": 1, "partitions": [part]}))

    assert disks.parts[key(1)].replicas == (1, 2)
    # A replica that exists moves; a new one is created in its directory.
    write([1, 3], ["/disk2", "/disk2"])
    planned = bare("reassign", "plan", file, "--json").json["partitions"]
    assert planned[0]["log_dirs"] == ["/disk2", "/disk2"]
    done = bare("reassign", "apply", file, "--yes", "--json").json
    assert (done["done"], done["failed"]) == (["t-1", "t-1 on broker 1"], [])
    assert (disks.places[1, key(1)], disks.places[3, key(1)]) == ("/disk2", "/disk2")
    assert bare("reassign", "apply", file, "--yes").out == "every replica is where it should be\n"
    write([1, 3], ["/data", "any"])
    assert bare("reassign", "apply", file, "--yes", "--json").json["done"] == ["t-1 on broker 1"]
    for log_dirs, said in ((["/x", "any"], "it has /data, /disk2"), (["/data"], "for each replica is expected")):
        write([1, 3], log_dirs)
        assert said in bare("reassign", "apply", file, "--yes", code=2).err
