"""Runs of real processes: our broker, and Apache Kafka for comparison. test_modes.py has modes with planned targets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import cli
from broker_cy.client.program import EXIT_INTERRUPTED
from tests.bench.short_runs import ON_SCHEDULE, QUICK, WORKLOAD, labels, measure, quickly, written
from tests.support import needs


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return written(tmp_path)


def test_run_reports_load_and_broker(files: Path) -> None:
    """One run has the load's figures, the broker's, a series and the encoded latencies."""
    (run,) = measure(files, "run", "fast", "-t", "ours")["runs"]
    assert {"records_per_s", "p99_ms", "cpu_s_per_gb", "rss_mb", "generator_share"} <= run["figures"].keys()
    assert run["figures"]["records_per_s"] > 0
    assert len(run["series"]["t_s"]) == len(run["series"]["records_per_s"]) > 0
    assert run["latency"]["count"] > 0


@pytest.mark.full
def test_a_workload_may_have_any_name(tmp_path: Path) -> None:
    """The name of its file is part of a topic's name, which allows only ASCII letters."""
    path = tmp_path / "my wörkload.toml"
    path.write_text(WORKLOAD)
    assert cli.main(["run", "-t", "ours", "-w", str(path), "--dir", str(tmp_path / "data")]) == 0


def test_compare_takes_turns_and_reports_ratios(files: Path) -> None:
    """Targets run as A B A B, with one ratio per pair; the floor is a target like any other."""
    document = measure(files, "compare", "fast", "ours", "floor", "--pairs", "2")
    assert [run["target"] for run in document["runs"]] == ["ours", "floor", "floor", "ours"]
    ratios = {pair["metric"]: pair for pair in document["pairs"]}
    assert len(ratios["cpu_s_per_gb"]["ratios"]) == 2
    runs = document["runs"]
    first = runs[0]["figures"]["cpu_s_per_gb"] / runs[1]["figures"]["cpu_s_per_gb"]
    assert ratios["cpu_s_per_gb"]["ratios"][0] == pytest.approx(first)


def test_a_topic_of_more_partitions_than_one_call_may_create(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller accepts 10,000 metadata records at once, and a topic of 10,000 partitions has one more."""
    from bench.wire import protocol

    monkeypatch.setattr(protocol, "PARTITIONS_A_CALL", 3)
    (run,) = measure(files, "partitions", "fast", "-t", "ours", "--counts", "8")["runs"]
    assert run["figures"]["partitions"] == 8


@pytest.mark.full
def test_rebalance_reports_how_long_each_partition_stalled(files: Path) -> None:
    """A kill is noticed when the session ends, so the killed member's partitions stall for about that long."""
    (files / "steady.toml").write_text(ON_SCHEDULE)
    target = QUICK.format("ours") + '"group.min.session.timeout.ms" = 500\n'
    (files / "quick.toml").write_text(target + '"group.initial.rebalance.delay.ms" = 100\n')
    arguments = ["-t", str(files / "quick.toml"), "--session-timeout", "1 s", "--duration", "5 s"]
    document = measure(files, "rebalance", "steady", *arguments)
    assert labels(document) == ["producers", "steady", "a member joins", "a member leaves", "a member is killed"]
    _, steady, _, _, killed = (run["figures"] for run in document["runs"])
    assert steady["stall_p50_ms"] < killed["stall_max_ms"]
    # The killed member's last heartbeat was at most a third of the session before.
    assert killed["stall_max_ms"] > 500
    assert sum(f"stall_ms_partition_{partition}" in killed for partition in range(5)) == 4


@pytest.mark.full
@needs.kafka
def test_compare_with_apache_kafka(files: Path) -> None:
    """The tool fetches, formats, starts, measures and stops the other broker."""
    document = measure(files, "compare", "fast", "ours", "kafka", "--pairs", "1")
    assert document["targets"]["kafka"]["version"].startswith("Apache Kafka 4.3")
    assert {"records_per_s", "cpu_s_per_gb", "rss_mb"} <= {pair["metric"] for pair in document["pairs"]}


def test_ctrl_c_stops_and_still_writes(files: Path) -> None:
    """A user who stops a long run keeps what it measured; no broker keeps running."""
    out = files / "out.json"
    command = [sys.executable, "-m", "bench.cli", "run", "-t", "ours", "-w", str(files / "fast.toml")]
    command += ["--duration", "60 s", "--json-file", str(out), "--dir", str(files / "data")]
    assert stopped(command, "records/s") == EXIT_INTERRUPTED
    (run,) = json.loads(out.read_text())["runs"]
    assert run["failed"] is None
    assert run["figures"]["records_per_s"] > 0
    assert not list((files / "data").iterdir())


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "when", "measured"),
    [
        (["compare", "ours", "floor", "--duration", "60 s", "--warm-up", "60 s"], "ours: warm-up", 0),
        (["matrix", "-t", "ours", "--duration", "60 s"], "records/s", 1),
        (["ceiling", "-t", "ours", "--duration", "60 s"], "records/s", 1),
        (["backlog", "-t", "ours", "--size", "2 MB", "--duration", "60 s"], "records/s", 1),
        (["backlog", "-t", "ours", "--size", "10000 GB"], "filling", 0),
        (["connections", "-t", "ours", "--counts", "3,4", "--duration", "60 s"], "records/s", 1),
        (["partitions", "-t", "ours", "--counts", "3,4", "--duration", "60 s"], "records/s", 1),
        (["recovery", "-t", "ours", "--sizes", "1 GB"], "filling", 0),
        (["floor", "--duration", "60 s"], "records/s", 1),
        (["flush", "-t", "ours", "--duration", "60 s"], "records/s", 1),
        (["compaction", "-t", "ours", "--records", "5000000"], "filling", 0),
        (["compaction", "-t", "ours", "--records", "50000", "--keys", "10", "--duration", "60 s"], "records/s", 2),
        (["rebalance", "-t", "ours", "--duration", "60 s"], "steady", 1),
        (["rebalance", "-t", "ours", "--duration", "60 s"], "members join", 0),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_ctrl_c_in_each_mode(files: Path, mode: list[str], when: str, measured: int) -> None:
    """The document contains the finished measurements, without a failure; a window that was not begun is not a run."""
    out = files / "out.json"
    workload = {"rebalance": "scheduled", "compaction": "producing"}.get(mode[0], "fast")
    command = [sys.executable, "-m", "bench.cli", *quickly(files, mode), "-w", str(files / f"{workload}.toml")]
    assert stopped([*command, "--json-file", str(out), "--dir", str(files / "data")], when) == EXIT_INTERRUPTED
    runs = json.loads(out.read_text())["runs"]
    assert [run["failed"] for run in runs] == [None] * measured
    for figures in (run["figures"] for run in runs):
        assert figures.get("records_per_s") or figures["compaction_s"]
    assert not list((files / "data").iterdir())


def stopped(command: list[str], when: str) -> int:
    """Send Ctrl-C as a terminal does, to every process of the group, once stderr contains `when`; returns the exit
    code.
    """
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    reported = ""
    while when not in reported:
        reported = process.stderr.readline()
        assert reported, "it ended by itself"
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    return process.returncode


@pytest.mark.full
def test_a_target_that_dies_fails_the_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run with failed requests has no figures; the first error's text and the exit code report it."""
    from bench.targets.brokers import BrokerCy

    with BrokerCy(files / "broker").running() as target:
        (files / "there.toml").write_text(
            f'kind = "address"\nbootstrap = "{target.address[0]}:{target.address[1]}"\npid = {target.pid}\n'
        )
        pid = target.pid
        out = files / "out.json"
        argv = ["run", "-t", str(files / "there.toml"), "-w", str(files / "fast.toml"), "--duration", "20 s"]
        command = [sys.executable, "-m", "bench.cli", *argv, "--json-file", str(out), "--dir", str(files / "data")]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "records/s" not in process.stderr.readline():
            assert process.poll() is None
        os.kill(pid, signal.SIGKILL)
        _, reported = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "failed" in reported
    (run,) = json.loads(out.read_text())["runs"]
    assert run["failed"]
    assert run["figures"] == {}


@pytest.mark.parametrize("warm_up", ["0 s", pytest.param("100 ms", marks=pytest.mark.full)])
def test_a_target_that_answers_with_errors_fails_the_run(
    files: Path, capsys: pytest.CaptureFixture[str], warm_up: str
) -> None:
    """The JSON has the number and the first text, the page shows it, exit code 1; also for errors in the warm-up."""
    (files / "small.toml").write_text('kind = "ours"\n[settings]\n"message.max.bytes" = 5000\n')
    argv = ["run", "-t", str(files / "small.toml"), "-w", str(files / "fast.toml"), "--warm-up", warm_up]
    argv += ["--json-file", str(files / "out.json"), "--html", str(files / "out.html"), "--dir", str(files / "data")]
    assert cli.main(argv) == 1
    (run,) = json.loads((files / "out.json").read_text())["runs"]
    assert run["errors"]["count"] > 0
    assert "Produce error 10" in run["errors"]["first"]
    assert run["errors"]["first"] in run["failed"]
    assert run["figures"] == {}
    assert run["failed"] in (files / "out.html").read_text()
    assert "Produce error 10" in capsys.readouterr().err
