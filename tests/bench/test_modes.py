"""Every mode for a short time on our broker, and `compare` with Apache Kafka: all runs, and its files are complete."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import cli, engine, result
from bench.modes import base

WORKLOAD = """\
[records]
size = "1 KB"
[producers]
batch = "16 KiB"
[time]
warm_up = "100 ms"
steady = "0 s"
duration = "400 ms"
"""
ON_SCHEDULE = WORKLOAD.replace('"16 KiB"', '"1 B"\nrate = "2000 requests/s"').replace(
    "[time]", "[consumers]\ncount = 1\n[time]"
)
# Otherwise the deletion of each window's topic takes a second.
QUICK = 'kind = "{}"\n[settings]\n"log.segment.delete.delay.ms" = 0\n'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "fast.toml").write_text(WORKLOAD)
    (tmp_path / "scheduled.toml").write_text(ON_SCHEDULE)
    (tmp_path / "producing.toml").write_text(ON_SCHEDULE.replace("count = 1", "count = 0"))
    return tmp_path


def quickly(files: Path, arguments: Sequence[str]) -> list[str]:
    """The arguments with targets of QUICK in place of the tool's own of the same names."""
    for kind in ("ours", "kafka"):
        (files / f"{kind}.toml").write_text(QUICK.format(kind))
    return [str(files / f"{each}.toml") if each in ("ours", "kafka") else each for each in arguments]


def measure(files: Path, mode: str, workload: str, *arguments: str) -> dict[str, Any]:
    """Run a mode in this process; returns its JSON document."""
    out = files / "out.json"
    argv = [mode, *quickly(files, arguments), "-w", str(files / f"{workload}.toml")]
    argv += ["--json", str(out), "--dir", str(files / "data")]
    assert cli.main(argv) == 0
    assert result.read(out).failed is None
    assert not list((files / "data").iterdir()), "data of a broker that was started is left"
    document: dict[str, Any] = json.loads(out.read_text())
    assert all(run["failed"] is None for run in document["runs"])
    return document


def labels(document: dict[str, Any]) -> list[str]:
    return [run["label"] for run in document["runs"]]


def test_run_reports_load_and_broker(files: Path) -> None:
    """One run has the load's figures, the broker's, a series and the encoded latencies."""
    (run,) = measure(files, "run", "fast", "-t", "ours")["runs"]
    assert {"records_per_s", "p99_ms", "cpu_s_per_gb", "rss_mb", "generator_share"} <= run["figures"].keys()
    assert run["figures"]["records_per_s"] > 0
    assert len(run["series"]["t_s"]) == len(run["series"]["records_per_s"]) > 0
    assert run["latency"]["count"] > 0


def test_run_with_a_consumer_beside_producers(files: Path) -> None:
    """End-to-end latency has a value for each produced batch, and none is negative, because there is one clock."""
    (run,) = measure(files, "run", "scheduled", "-t", "ours")["runs"]
    assert run["end_to_end"]["count"] > 0
    assert run["end_to_end"]["negative"] == 0
    figures, series = run["figures"], run["series"]
    assert figures["consumed_records_per_s"] == pytest.approx(figures["records_per_s"], rel=0.2)
    assert figures["consumed_mb_per_s"] > 0
    assert len(series["consumed_records_per_s"]) == len(series["t_s"])
    assert max(filter(None, series["consumed_records_per_s"])) > 0


def test_a_frozen_target_shows_it_in_the_tail(files: Path) -> None:
    """What was due while the target was frozen waited for it: coordinated omission would hide a tenth of the run."""
    arguments = ["-t", "ours", "--duration", "2 s", "--fault", "freeze 500 ms at 500 ms"]
    (run,) = measure(files, "run", "scheduled", *arguments)["runs"]
    assert run["verdicts"][0] == "a fault was caused in the target: frozen for 0.5 s at 0.5 s"
    # A quarter of all requests was due in the freeze, and half of those waited for more than 250 ms.
    assert run["figures"]["p95_ms"] > 250
    assert run["figures"]["e2e_p95_ms"] > 250
    assert run["figures"]["p50_ms"] < 250
    assert run["latency"]["count"] == pytest.approx(4000, rel=0.01)


@pytest.mark.parametrize(
    ("fault", "target", "reported"),
    [
        ("freeze 1 s at 3 s", "ours", "does not end within the window of 0.4 s"),
        ("freeze 100 ms at 100 ms", "127.0.0.1:1", "was not started by the tool"),
    ],
)
def test_a_fault_that_nobody_would_see_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], fault: str, target: str, reported: str
) -> None:
    """A run without the requested fault would be taken for one with it."""
    argv = ["run", "-t", target, "-w", str(files / "fast.toml"), "--fault", fault, "--dir", str(files / "data")]
    assert cli.main(argv) == 1
    assert reported in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault", ["", "freeze", "freeze 1 s", "cut 1 s at 2 s", "freeze 1 at 2 s", "freeze -1 s at 2 s"]
)
def test_a_fault_that_is_none_is_refused(files: Path, capsys: pytest.CaptureFixture[str], fault: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(SystemExit):
        cli.main(["run", "-t", "ours", "-w", str(files / "fast.toml"), "--fault", fault])
    reported = capsys.readouterr().err
    assert "allowed: " in reported or "a number and one of" in reported


def test_a_topic_of_more_partitions_than_one_call_may_create(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller accepts 10,000 metadata records at once, and a topic of 10,000 partitions has one more."""
    from bench import protocol

    monkeypatch.setattr(protocol, "PARTITIONS_A_CALL", 3)
    (run,) = measure(files, "partitions", "fast", "-t", "ours", "--counts", "8")["runs"]
    assert run["figures"]["partitions"] == 8


def test_compare_takes_turns_and_reports_ratios(files: Path) -> None:
    """A B A B, one ratio per pair; the floor is a target like any other."""
    document = measure(files, "compare", "fast", "ours", "floor", "--pairs", "2")
    assert [run["target"] for run in document["runs"]] == ["ours", "floor", "floor", "ours"]
    ratios = {pair["metric"]: pair for pair in document["pairs"]}
    assert len(ratios["cpu_s_per_gb"]["ratios"]) == 2
    runs = document["runs"]
    first = runs[0]["figures"]["cpu_s_per_gb"] / runs[1]["figures"]["cpu_s_per_gb"]
    assert ratios["cpu_s_per_gb"]["ratios"][0] == pytest.approx(first)


@pytest.mark.parametrize(
    ("workload", "metric"),
    [("fast", "records_per_s"), ("producing", "cpu_us_per_request"), ("reading", "records_per_s")],
)
def test_each_target_is_warmed_up_once(
    files: Path, capsys: pytest.CaptureFixture[str], workload: str, metric: str
) -> None:
    """The document says what was warmed up, by which figure and for how long, and what never became steady."""
    (files / "reading.toml").write_text(
        WORKLOAD.replace("[producers]", "[consumers]\ncount = 1\n[producers]\ncount = 0")
    )
    document = measure(files, "compare", workload, "ours", "floor", "--pairs", "2", "--steady", "600 ms")
    assert [(each["target"], each["metric"], each["steady"]) for each in document["warm_ups"]] == [
        ("ours", metric, False),
        ("floor", metric, False),
    ]
    for each in document["warm_ups"]:
        (value,) = each["values"]  # one window takes all of the time, and one window is not steady
        assert value > 0
        assert 0.5 < each["seconds"] < 60
    assert len(document["runs"]) == 4
    for run in document["runs"]:
        assert run["verdicts"][0].startswith("not steady after ")
    # The window takes as long as it takes: on a busy machine the warm-up is longer than its limit.
    took_s = document["warm_ups"][0]["seconds"]
    assert f"ours: warmed up for {took_s:.1f} s, not steady within the limit of 0.6 s" in capsys.readouterr().out


def test_each_target_is_measured_once_before_the_first_pair(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the first pair has a virtual machine that waited for the warm-ups of the others."""
    asked = []
    take = engine.measure

    def noted(session: Any, name: str, target: Any, workload: Any, *rest: Any, **named: Any) -> Any:
        asked.append((name, workload.duration_s))
        return take(session, name, target, workload, *rest, **named)

    monkeypatch.setattr(base, "measure", noted)
    monkeypatch.setattr(base, "REHEARSAL_MOST_S", 0.1)
    common = ("--pairs", "1", "--duration", "200 ms", "--warm-up", "0 s")
    document = measure(files, "compare", "fast", "ours", "floor", *common, "--steady", "300 ms")
    assert asked == [("ours", 0.1), ("floor", 0.1), ("ours", 0.2), ("floor", 0.2)]
    assert len(document["runs"]) == 2
    asked.clear()
    measure(files, "compare", "fast", "ours", "floor", *common, "--steady", "0 s")
    assert asked == [("ours", 0.2), ("floor", 0.2)]


def test_ceiling_ends_with_a_rate(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bound that no rate meets and one that all meet both end with a sentence."""
    document = measure(files, "ceiling", "fast", "-t", "ours", "--p99", "1us", "--start", "500")
    assert labels(document)[:2] == ["500 requests/s", "500 requests/s, again"]
    assert "sustained with p99 <= 0.001 ms" in capsys.readouterr().out


def test_backlog_reports_producers_alone_and_beside_the_drain(files: Path) -> None:
    """The cost of a drain is the difference between two runs, both of which are in the document."""
    document = measure(files, "backlog", "scheduled", "-t", "ours", "--size", "20 MB")
    assert labels(document) == ["producers alone", "producers while it drains", "the drain"]
    drain = document["runs"][2]["figures"]
    assert drain["records_per_s"] > 0
    assert drain["drain_s"] == pytest.approx(20 / drain["mb_per_s"], rel=0.01)


def test_connections_and_partitions_grow(files: Path) -> None:
    """Each count is a separate run; `partitions` also measures the next start."""
    found = measure(files, "connections", "scheduled", "-t", "ours", "--counts", "1,50")
    assert [run["figures"]["connections"] for run in found["runs"]] == [1, 50]
    found = measure(files, "partitions", "fast", "-t", "ours", "--counts", "1,20")
    assert [run["figures"]["partitions"] for run in found["runs"]] == [1, 20]
    assert all(run["figures"]["start_s"] > 0 for run in found["runs"])


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


@pytest.mark.parametrize(
    ("workload", "duration", "reported"),
    [("fast", "20 s", "a rate such as"), ("scheduled", "10 s", "too short to see the end of a session of 6 s")],
)
def test_rebalance_refuses_what_it_cannot_measure(
    files: Path, capsys: pytest.CaptureFixture[str], workload: str, duration: str, reported: str
) -> None:
    """Gaps of a load that is as fast as possible mean nothing; nor does a kill that is not noticed in the window."""
    argv = ["rebalance", "-t", "ours", "-w", str(files / f"{workload}.toml"), "--duration", duration]
    assert cli.main([*argv, "--dir", str(files / "data")]) == 1
    assert reported in capsys.readouterr().err


def test_recovery_and_floor(files: Path) -> None:
    """Kill -9 and a start, by log size and number of partitions."""
    document = measure(files, "recovery", "fast", "-t", "ours", "--sizes", "10 MB,20 MB", "--partitions", "20")
    assert [run["figures"]["log_gb"] for run in document["runs"]] == [0.01, 0.02]
    assert [run["figures"]["partitions"] for run in document["runs"]] == [20, 20]
    for run in document["runs"]:
        figures = run["figures"]
        assert 0 < figures["recovery_s"] <= figures["first_write_s"] <= figures["first_fetch_s"]
        assert figures["first_fetch_s"] <= figures["all_partitions_s"]
    assert measure(files, "floor", "fast")["runs"][0]["target"] == "floor"


def test_matrix_measures_every_cell(files: Path) -> None:
    """Sizes x codecs x acks; here two of each."""
    cells = ("--sizes", "10 B,100 KB", "--codecs", "none,lz4", "--acks", "all,0")
    document = measure(files, "matrix", "fast", "-t", "ours", "--duration", "200ms", "--warm-up", "50ms", *cells)
    assert labels(document)[:2] == ["10 B, none, acks=all", "10 B, none, acks=0"]
    assert len(document["runs"]) == 8


@pytest.mark.skipif(shutil.which("mvn") is None, reason="Apache Kafka comes by Maven, and mvn is not here")
def test_compare_with_apache_kafka(files: Path) -> None:
    """The tool fetches, formats, starts, measures and stops the other broker."""
    document = measure(files, "compare", "fast", "ours", "kafka", "--pairs", "1")
    assert document["targets"]["kafka"]["version"].startswith("Apache Kafka 4.3")
    assert {"records_per_s", "cpu_s_per_gb", "rss_mb"} <= {pair["metric"] for pair in document["pairs"]}


def test_ctrl_c_stops_and_still_writes(files: Path) -> None:
    """A user who stops a long run keeps what it measured; no broker keeps running."""
    out = files / "out.json"
    command = [sys.executable, "-m", "bench.cli", "run", "-t", "ours", "-w", str(files / "fast.toml")]
    command += ["--duration", "60 s", "--json", str(out), "--dir", str(files / "data")]
    assert stopped(command, "records/s") == cli.STOPPED
    (run,) = json.loads(out.read_text())["runs"]
    assert run["failed"] is None
    assert run["figures"]["records_per_s"] > 0
    assert not list((files / "data").iterdir())


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
    """What was measured until then is in the document and did not fail; a window that was not begun is not a run."""
    out = files / "out.json"
    workload = {"rebalance": "scheduled", "compaction": "producing"}.get(mode[0], "fast")
    command = [sys.executable, "-m", "bench.cli", *quickly(files, mode), "-w", str(files / f"{workload}.toml")]
    assert stopped([*command, "--json", str(out), "--dir", str(files / "data")], when) == cli.STOPPED
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


def test_a_workload_may_have_any_name(tmp_path: Path) -> None:
    """The name of its file is part of a topic's name, which allows only ASCII letters."""
    path = tmp_path / "my wörkload.toml"
    path.write_text(WORKLOAD)
    assert cli.main(["run", "-t", "ours", "-w", str(path), "--dir", str(tmp_path / "data")]) == 0


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["compare", "ours"], "nothing to compare (needed: two targets, or two workloads)"),
        (["compare", "ours", "ours"], "name each target once"),
        (["run", "-t", "ours", "--json", "{}/fast.toml/out.json"], "fast.toml"),
        (["run", "-t", "ours", "--html", "{}"], "Is a directory"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reported: str
) -> None:
    """If this fails, an hour is spent on a measurement whose result cannot be written."""
    argv = [each.format(files) for each in arguments]
    assert cli.main([*argv, "-w", str(files / "fast.toml"), "--dir", str(files / "data")]) == 1
    captured = capsys.readouterr().err
    assert reported in captured
    assert "starting" not in captured


@pytest.mark.parametrize("start", ["0", "-1", "nan", "inf"])
def test_a_ceiling_begins_with_a_rate(files: Path, start: str) -> None:
    """0 requests/s would be as fast as possible."""
    with pytest.raises(SystemExit):
        cli.main(["ceiling", "-t", "ours", "-w", str(files / "fast.toml"), "--start", start])


def test_the_floor_says_what_it_cannot(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A client that fails on an unknown response would report nothing."""
    argv = ["run", "-t", "floor", "-w", "client-produce-1kb", "--dir", str(files / "data")]
    assert cli.main(argv) == 1
    assert 'floor supports only the driver "raw", not "librdkafka"' in capsys.readouterr().err


def test_a_target_that_dies_fails_the_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run with failed requests has no figures; the first error's text and the exit code report it."""
    from bench.targets import BrokerCy

    with BrokerCy(files / "broker").running() as target:
        (files / "there.toml").write_text(
            f'kind = "address"\nbootstrap = "{target.address[0]}:{target.address[1]}"\npid = {target.pid}\n'
        )
        pid = target.pid
        out = files / "out.json"
        argv = ["run", "-t", str(files / "there.toml"), "-w", str(files / "fast.toml"), "--duration", "20 s"]
        command = [sys.executable, "-m", "bench.cli", *argv, "--json", str(out), "--dir", str(files / "data")]
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


@pytest.mark.parametrize("warm_up", ["0 s", "100 ms"])
def test_a_target_that_answers_with_errors_fails_the_run(
    files: Path, capsys: pytest.CaptureFixture[str], warm_up: str
) -> None:
    """The JSON has the number and the first text, the page shows it, exit code 1; also for errors in the warm-up."""
    (files / "small.toml").write_text('kind = "ours"\n[settings]\n"message.max.bytes" = 5000\n')
    argv = ["run", "-t", str(files / "small.toml"), "-w", str(files / "fast.toml"), "--warm-up", warm_up]
    argv += ["--json", str(files / "out.json"), "--html", str(files / "out.html"), "--dir", str(files / "data")]
    assert cli.main(argv) == 1
    (run,) = json.loads((files / "out.json").read_text())["runs"]
    assert run["errors"]["count"] > 0
    assert "Produce error 10" in run["errors"]["first"]
    assert run["errors"]["first"] in run["failed"]
    assert run["figures"] == {}
    assert run["failed"] in (files / "out.html").read_text()
    assert "Produce error 10" in capsys.readouterr().err


def test_a_target_that_is_not_there_is_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No process listens: a clear error, exit code 1."""
    argv = ["run", "-t", "127.0.0.1:1", "-w", str(files / "fast.toml"), "--dir", str(files / "data")]
    assert cli.main([*argv, "--json", str(files / "out.json")]) == 1
    assert "127.0.0.1:1 does not answer" in capsys.readouterr().err
    failed = result.read(files / "out.json").failed
    assert failed is not None
    assert "does not answer" in failed


def test_unknown_names_are_reported_with_the_known_ones(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo lists the workloads and targets that come with the tool."""
    assert cli.main(["run", "-t", "ours", "-w", "produce-100"]) == 1
    assert "produce-100b" in capsys.readouterr().err
    assert cli.main(["run", "-t", "redpanda", "-w", str(files / "fast.toml")]) == 1
    assert "kafka" in capsys.readouterr().err
