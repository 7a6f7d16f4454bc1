"""Clusters as targets, and the modes `failover` and `reassign`: their figures, and the options they refuse."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench import cli
from bench.failover.timeline import logged_ms
from bench.failover.writers import first_us, gap_ms, latencies_ms, silence_ms
from bench.launch import networks
from bench.modes import reassign
from bench.modes.copy_limit import copy_mb_per_s
from bench.steady_clients.programs import Acked, acked, missing
from bench.targets.brokers import Attached
from bench.targets.cluster import Cluster
from tests.support import needs

SCHEDULED = """\
partitions = 3
[records]
size = "1 KB"
[producers]
batch = "1 B"
rate = "300 requests/s"
[time]
warm_up = "100 ms"
steady = "0 s"
duration = "1 s"
"""
S = 1_000_000


def measure(directory: Path, *arguments: str) -> dict[str, Any]:
    """Run a mode, check that no run failed, and return its document."""
    out = directory / "out.json"
    assert cli.main([*arguments, "--json-file", str(out), "--dir", str(directory / "data")]) == 0
    assert not list((directory / "data").iterdir()), "data of a node is left"
    document: dict[str, Any] = json.loads(out.read_text())
    assert all(run["failed"] is None for run in document["runs"])
    return document


def refusal(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """Return the error message of a refused command."""
    with suppress(SystemExit):
        assert cli.main([*arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_cluster_is_measured_like_a_node(tmp_path: Path) -> None:
    """If this fails, the rate of a cluster is that of one node, or its CPU and memory leave nodes out."""
    (tmp_path / "w.toml").write_text(SCHEDULED + "[consumers]\ncount = 1\n")
    (run,) = measure(tmp_path, "run", "-w", str(tmp_path / "w.toml"), "-t", "ours-3")["runs"]
    figures = run["figures"]
    assert run["latency"]["count"] == pytest.approx(300, rel=0.05)
    assert run["end_to_end"]["count"] > 0
    # Each of the three processes has its own interpreter.
    assert figures["rss_mb"] > 60
    assert figures["broker_cpu_s"] > 0


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_running_cluster_is_measured_at_its_leaders(tmp_path: Path) -> None:
    """If this fails, only clusters that the tool starts can be measured: not all leaders are on the node named."""
    (tmp_path / "w.toml").write_text(SCHEDULED + "[consumers]\ncount = 1\n")
    spec = cli.find_target("ours-3")
    with Cluster(tmp_path / "cluster", spec).running() as cluster:
        host, port = cluster.address
        target = Attached(cluster.address, None)
        target.create_topic("spread", 3)
        assert len(set(target.leaders("spread", 3).values())) == 3
        assert len(cluster.seen(0, "spread").partitions[0].replicas) == 3
        (run,) = measure(tmp_path, "run", "-w", str(tmp_path / "w.toml"), "-t", f"{host}:{port}")["runs"]
    assert run["latency"]["count"] == pytest.approx(300, rel=0.05)
    assert run["end_to_end"]["count"] > 0


@pytest.mark.full
@pytest.mark.timeout(300)
def test_partitions_are_moved_beside_producers(tmp_path: Path) -> None:
    """If this fails, the cost of a reassignment is unknown: its duration, and its effect on producers."""
    (tmp_path / "w.toml").write_text(SCHEDULED)
    arguments = ["reassign", "-w", str(tmp_path / "w.toml"), "-t", "ours-3", "--size", "100 MB"]
    alone, beside, move = measure(tmp_path, *arguments)["runs"]
    assert [run["label"] for run in (alone, beside, move)] == [reassign.ALONE, reassign.BESIDE, reassign.MOVE]
    assert alone["figures"]["p99_ms"] > 0
    # A fast move ends before the 100 requests that the figure p99_ms needs.
    assert beside["latency"]["count"] > 0
    assert beside["figures"]["p99_to_alone"] > 0
    found = move["figures"]
    assert found["moved_gb"] == 0.1
    assert found["move_mb_per_s"] == pytest.approx(100 / found["move_s"])
    assert found["share_of_limit"] == pytest.approx(found["move_mb_per_s"] / found["limit_mb_per_s"])


@pytest.mark.full
@pytest.mark.timeout(300)
def test_each_client_and_kind_has_its_gap(tmp_path: Path) -> None:
    """If this fails, a cluster whose clients wait a minute after a crash looks like one whose clients do not notice."""
    arguments = ["failover", "-t", "ours-3", "--clients", "librdkafka", "--kinds", "leader,rolling", "--rounds", "1"]
    killed, rolled = measure(tmp_path, *arguments)["runs"]
    assert killed["label"] == "kill -9 of a leader, librdkafka"
    assert rolled["label"] == "rolling restart, librdkafka"
    for run in (killed, rolled):
        assert run["figures"]["errors"] == 0
        assert 0 < run["figures"]["gap_p50_ms"] <= run["figures"]["gap_max_ms"]
        assert run["figures"]["before_p99_ms"] > 0
    # The remaining nodes have to elect another leader before any client can be served.
    assert 0 < killed["figures"]["leaders_shown_ms"] <= killed["figures"]["gap_max_ms"] + 1000


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_shard_that_stands_still_is_measured(tmp_path: Path) -> None:
    """If this fails, no figure includes the parent's work for the clients of its shards, or processes are left
    running.
    """
    arguments = ["failover", "-t", "ours-3-shards", "--clients", "librdkafka", "--kinds", "freeze", "--rounds", "1"]
    (frozen,) = measure(tmp_path, *arguments)["runs"]
    assert frozen["label"] == "a leader that stands still, librdkafka"
    assert frozen["figures"]["errors"] == 0
    # It does not continue, and its clients do not wait for it.
    assert 0 < frozen["figures"]["gap_p50_ms"] < 12_000
    assert not re.findall(rf"{re.escape(str(tmp_path))}.*--shards", "\n".join(command_lines()))


def command_lines() -> list[str]:
    """The command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text(errors="replace").replace("\0", " "))
    return found


@pytest.mark.soak
@pytest.mark.timeout(900)
@needs.kafka
def test_kafka_is_measured_in_the_same_way(tmp_path: Path) -> None:
    """If this fails, there is no baseline to compare with. All clients that can run here take part."""
    document = measure(tmp_path, "failover", "-t", "ours-3", "-t", "kafka-3", "--kinds", "leader", "--rounds", "1")
    clients = [client for client in ("librdkafka", "franz-go", "java") if missing(client) is None]
    assert len(document["runs"]) == 2 * len(clients)
    assert {pair["label"] for pair in document["pairs"]} == {f"kill -9 of a leader, {client}" for client in clients}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["failover", "-t", "ours"], "target ours is no cluster of the tool's own (allowed: ours-3, kafka-3"),
        (["failover", "-t", "127.0.0.1:1"], "allowed: ours-3, kafka-3"),
        (["failover", "-t", "ours-3", "--kinds", "earthquake"], "'earthquake' is not allowed (allowed: leader,"),
        (["failover", "-t", "ours-3", "--clients", "sarama"], "'sarama' is not allowed (allowed: librdkafka,"),
        (["failover", "-t", "ours-3", "--rounds", "0"], "0"),
        (["failover", "-t", "ours-3", "--freeze", "2 h"], "'2 h' is out of range (allowed: 0.5 s to 85 s)"),
        (["reassign", "-w", "latency-1kb", "-t", "ours"], "target ours is no cluster of the tool's own"),
        (["reassign", "-w", "produce-1kb", "-t", "ours-3"], "on a schedule"),
        (["start", "-t", "ours-3"], "target ours-3: start measures one node (modes of clusters: run, compare,"),
        (["run", "-w", "latency-1kb", "-t", "ours-3", "--fault", "freeze 1 s at 1 s"], "--fault is of one node"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """If this fails, an engineer waits for figures that do not mean what the options asked for."""
    assert said in refusal(capsys, [*arguments, "--dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "ours"\nnodes = 2\n', "2 (allowed: 1, and 3 to 9: two nodes stop if one fails)"),
        ('kind = "ours"\nnodes = 10\n', "10"),
        ('kind = "floor"\nnodes = 3\n', 'only for kind = "ours" and kind = "kafka"'),
        ('kind = "ours"\nnodes = 3\nshards = 9\n', "9"),
        ('kind = "ours"\nshards = 2\n', 'only for kind = "ours" with `nodes`'),
        ('kind = "kafka"\nnodes = 3\nshards = 2\n', 'only for kind = "ours" with `nodes`'),
    ],
)
def test_a_cluster_has_a_sensible_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """If this fails, a target file that cannot describe a cluster is accepted."""
    (tmp_path / "t.toml").write_text(text)
    assert said in refusal(capsys, ["check", "-t", str(tmp_path / "t.toml")])


def test_the_gap_is_that_of_the_last_partition() -> None:
    """If this fails, an acknowledgement sent before the failure ends a gap, or one partition hides another."""
    records = [
        Acked(1, 0, 0, 9 * S, 10 * S + 5),  # sent before the failure
        Acked(2, 1, 0, 10 * S + 1, 11 * S),
        Acked(3, 0, 1, 10 * S + 2, 12 * S),
        Acked(4, 0, 2, 13 * S, 13 * S + 4000),
    ]
    assert gap_ms(records, {0, 1}, 10 * S, 10 * S) == 2000
    assert gap_ms(records, {1}, 10 * S, 10 * S) == 1000
    assert gap_ms(records, {0}, 10 * S, 13 * S) == 3004
    assert first_us(records, 10 * S) == {1: 11 * S, 0: 12 * S}
    assert silence_ms(records, {0, 1}) == pytest.approx(1999.995)
    assert latencies_ms(records, 13 * S, 14 * S) == [4]
    assert acked("acked 1 0 0 9000000 10000005") == records[0]
    assert acked("failed 1 no leader") is None


def test_phases_are_found_in_a_log() -> None:
    """If this fails, an engineer cannot see which phase of a failover takes long."""
    lines = [
        'time=2026-01-01T00:00:00.500Z level=info logger=a event="a broker is gone"',
        'time=2026-01-01T00:00:01.200Z level=info logger=a event="a broker is gone" broker=1',
        'time=2026-01-01T00:00:01.250Z level=info logger=a event="fencing brokers"',
        "something else",
    ]
    began_us = 1_767_225_601 * S
    assert logged_ms("\n".join(lines), began_us) == {"broker_dead": 200, "fencing": 250}


def test_a_copy_has_a_rate(tmp_path: Path) -> None:
    """If this fails, the figure for the share of the limit is meaningless."""
    assert copy_mb_per_s(tmp_path, 8 << 20) > 1
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_a_cut_loses_one_direction_only() -> None:
    """If this fails, a one-way cut has no effect, or cuts both ways, and the measured failover did not happen."""
    needs.require(needs.cut_network())

    def hears(sender: int, receiver: int) -> bool:
        host = network.hosts[receiver]
        listener = subprocess.Popen(
            [*network.wrapper(receiver), "python3", "-c", LISTEN, host], stdout=subprocess.PIPE, text=True
        )
        with listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "ready\n"
            subprocess.run([*network.wrapper(sender), "python3", "-c", SEND, host], check=True, timeout=30)
            return listener.stdout.readline() == "heard\n"

    with networks.made(2) as network:
        assert hears(0, 1)
        network.cut(0, 1)
        assert not hears(0, 1)
        assert hears(1, 0)
        network.heal(0, 1)
        assert hears(0, 1)


# UDP, so that no reply is needed.
LISTEN = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as it:
    it.bind((sys.argv[1], 9000))
    it.settimeout(3)
    print("ready", flush=True)
    try:
        it.recv(10)
        print("heard", flush=True)
    except TimeoutError:
        print("silence", flush=True)
"""
SEND = """
import socket, sys, time
with socket.socket(type=socket.SOCK_DGRAM) as it:
    for _ in range(10):
        it.sendto(b"x", (sys.argv[1], 9000))
        time.sleep(0.1)
"""
