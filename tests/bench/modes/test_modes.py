"""Every mode on planned targets, and under `make test-all` for a short time on our broker: each mode runs, and its
files are complete. tests/bench/test_real_runs.py measures processes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import arguments, cli
from bench.modes import base
from bench.report import result
from bench.window import engine
from broker_cy.client.program import EXIT_INTERRUPTED
from tests.bench import planned
from tests.bench.short_runs import WORKLOAD, labels, measure, quickly, written


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return written(tmp_path)


@pytest.fixture(params=["planned", pytest.param("real", marks=pytest.mark.full)])
def files(request: pytest.FixtureRequest, plain: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workloads, for both kinds of targets."""
    if request.param == "planned":
        planned.install(monkeypatch)
    return plain


def test_run_with_a_consumer_beside_producers(files: Path) -> None:
    """End-to-end latency has a value for each produced batch, and none is negative, because all times come from one
    clock.
    """
    (run,) = measure(files, "run", "scheduled", "-t", "ours")["runs"]
    assert run["end_to_end"]["count"] > 0
    assert run["end_to_end"]["negative"] == 0
    figures, series = run["figures"], run["series"]
    assert figures["consumed_records_per_s"] == pytest.approx(figures["records_per_s"], rel=0.2)
    assert figures["consumed_mb_per_s"] > 0
    assert len(series["consumed_records_per_s"]) == len(series["t_s"])
    assert max(filter(None, series["consumed_records_per_s"])) > 0


def test_a_frozen_target_shows_it_in_the_tail(files: Path) -> None:
    """Requests that were due while the target was frozen waited for it: coordinated omission would hide 10% of the
    run.
    """
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
    plain: Path, capsys: pytest.CaptureFixture[str], fault: str, target: str, reported: str
) -> None:
    """A run without the requested fault would be taken for one with it."""
    argv = ["run", "-t", target, "-w", str(plain / "fast.toml"), "--fault", fault, "--dir", str(plain / "data")]
    assert cli.main(argv) == 2
    assert reported in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault", ["", "freeze", "freeze 1 s", "cut 1 s at 2 s", "freeze 1 at 2 s", "freeze -1 s at 2 s"]
)
def test_a_fault_that_is_none_is_refused(plain: Path, capsys: pytest.CaptureFixture[str], fault: str) -> None:
    """The message names the allowed values."""
    with pytest.raises(SystemExit):
        cli.main(["run", "-t", "ours", "-w", str(plain / "fast.toml"), "--fault", fault])
    reported = capsys.readouterr().err
    assert "allowed: " in reported or "a number and one of" in reported


@pytest.mark.parametrize(
    ("workload", "metric"),
    [("fast", "records_per_s"), ("producing", "cpu_us_per_request"), ("reading", "records_per_s")],
)
def test_each_target_is_warmed_up_once(
    files: Path, capsys: pytest.CaptureFixture[str], workload: str, metric: str
) -> None:
    """The document names the warmed-up targets, the figure, the duration, and the targets that never became steady."""
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
    # A window is never cut short: on a busy machine the warm-up is longer than its limit.
    took_s = document["warm_ups"][0]["seconds"]
    assert f"ours: warmed up for {took_s:.1f} s, not steady within the limit of 0.6 s" in capsys.readouterr().out


def test_each_target_is_measured_once_before_the_first_pair(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the first pair measures a virtual machine that was idle during the warm-ups of the others."""
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
    """Both a bound that no rate meets and a bound that every rate meets end with a sentence."""
    document = measure(files, "ceiling", "fast", "-t", "ours", "--p99", "1us", "--start", "500")
    assert labels(document)[:2] == ["500 requests/s", "500 requests/s, again"]
    assert "sustained with p99 <= 0.001 ms" in capsys.readouterr().out


def test_backlog_reports_producers_alone_and_beside_the_drain(files: Path) -> None:
    """The cost of a drain is the difference between two runs; the document contains both."""
    document = measure(files, "backlog", "scheduled", "-t", "ours", "--size", "20 MB")
    assert labels(document) == ["producers alone", "producers while it drains", "the drain"]
    drain = document["runs"][2]["figures"]
    assert drain["records_per_s"] > 0
    assert drain["drain_s"] == pytest.approx(20 / drain["mb_per_s"], rel=0.01)


def test_a_drain_from_memory_fails_the_run(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing could be evicted, the figure would be that of the page cache."""
    planned.install(monkeypatch)
    monkeypatch.setattr(planned, "FROM_DISK_BYTES", 0)
    out = plain / "out.json"
    argv = ["backlog", "-t", "ours", "--size", "20 MB", "-w", str(plain / "scheduled.toml"), "--json-file", str(out)]
    assert cli.main([*argv, "--dir", str(plain / "data")]) == 1
    assert "0% of the drained bytes came from the disk" in json.loads(out.read_text())["runs"][-1]["failed"]


def test_connections_and_partitions_grow(files: Path) -> None:
    """Each count is a separate run; `partitions` also measures the next start."""
    found = measure(files, "connections", "scheduled", "-t", "ours", "--counts", "1,50")
    assert [run["figures"]["connections"] for run in found["runs"]] == [1, 50]
    found = measure(files, "partitions", "fast", "-t", "ours", "--counts", "1,20")
    assert [run["figures"]["partitions"] for run in found["runs"]] == [1, 20]
    assert all(run["figures"]["start_s"] > 0 for run in found["runs"])


@pytest.mark.parametrize(
    ("workload", "duration", "reported"),
    [("fast", "20 s", "a rate such as"), ("scheduled", "10 s", "too short to see the end of a session of 6 s")],
)
def test_rebalance_refuses_what_it_cannot_measure(
    plain: Path, capsys: pytest.CaptureFixture[str], workload: str, duration: str, reported: str
) -> None:
    """Neither gaps of an unlimited load nor a kill that is not noticed in the window mean anything."""
    argv = ["rebalance", "-t", "ours", "-w", str(plain / f"{workload}.toml"), "--duration", duration]
    assert cli.main([*argv, "--dir", str(plain / "data")]) == 2
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


@pytest.mark.parametrize(
    ("mode", "when", "measured"),
    [
        (["compare", "ours", "floor", "--warm-up", "60 s"], "ours: warm-up", 0),
        (["matrix", "-t", "ours"], "records/s", 1),
        (["ceiling", "-t", "ours"], "records/s", 1),
        (["backlog", "-t", "ours", "--size", "2 MB"], "records/s", 1),
        (["backlog", "-t", "ours", "--size", "10000 GB"], "filling", 0),
        (["connections", "-t", "ours", "--counts", "3,4"], "records/s", 1),
        (["partitions", "-t", "ours", "--counts", "3,4"], "records/s", 1),
        (["recovery", "-t", "ours", "--sizes", "1 GB"], "filling", 0),
        (["floor"], "records/s", 1),
        (["flush", "-t", "ours"], "records/s", 1),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_ctrl_c_in_each_mode(
    plain: Path, monkeypatch: pytest.MonkeyPatch, mode: list[str], when: str, measured: int
) -> None:
    """The document contains the finished measurements, without a failure; a window that was not begun is not a run."""
    planned.install(monkeypatch)
    shown = planned.Interrupting(when)
    monkeypatch.setattr(sys, "stderr", shown)
    argv = [*quickly(plain, mode), "-w", str(plain / "fast.toml"), "--json-file", str(plain / "out.json")]
    assert cli.main([*argv, "--duration", "60 s", "--dir", str(plain / "data")]) == EXIT_INTERRUPTED, shown.getvalue()
    runs = json.loads((plain / "out.json").read_text())["runs"]
    assert [run["failed"] for run in runs] == [None] * measured
    assert all(run["figures"]["records_per_s"] for run in runs)
    assert not list((plain / "data").iterdir())


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["compare", "ours"], "nothing to compare (needed: two targets, or two workloads)"),
        (["compare", "ours", "ours"], "name each target once"),
        (["run", "-t", "ours", "--json-file", "{}/fast.toml/out.json"], "fast.toml"),
        (["run", "-t", "ours", "--html", "{}"], "Is a directory"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    plain: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reported: str
) -> None:
    """If this fails, an hour is spent on a measurement whose result cannot be written."""
    argv = [each.format(plain) for each in arguments]
    # 1 for a file that cannot be written, 2 for a wrong option.
    code = 2 if arguments[0] == "compare" else 1
    assert cli.main([*argv, "-w", str(plain / "fast.toml"), "--dir", str(plain / "data")]) == code
    captured = capsys.readouterr().err
    assert reported in captured
    assert "starting" not in captured


@pytest.mark.parametrize("start", ["0", "-1", "nan", "inf"])
def test_a_ceiling_begins_with_a_rate(plain: Path, start: str) -> None:
    """0 requests/s would be as fast as possible."""
    with pytest.raises(SystemExit):
        cli.main(["ceiling", "-t", "ours", "-w", str(plain / "fast.toml"), "--start", start])


def test_the_floor_says_what_it_cannot(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A client that fails on an unknown response could not report the unsupported request."""
    argv = ["run", "-t", "floor", "-w", "client-produce-1kb", "--dir", str(plain / "data")]
    assert cli.main(argv) == 1
    assert 'floor supports only the driver "raw", not "librdkafka"' in capsys.readouterr().err


def test_a_target_that_is_not_there_is_one_line(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No process listens: a clear error, exit code 3."""
    argv = ["run", "-t", "127.0.0.1:1", "-w", str(plain / "fast.toml"), "--dir", str(plain / "data")]
    assert cli.main([*argv, "--json-file", str(plain / "out.json")]) == 3
    assert "connect, broker 127.0.0.1:1: connection refused: no process listens there" in capsys.readouterr().err
    failed = result.read(plain / "out.json").failed
    assert failed is not None
    assert "connection refused" in failed
    assert cli.main([*argv, "--json"]) == 3
    error = json.loads(capsys.readouterr().err.splitlines()[-1])["error"]
    assert (error["failure"], error["api"], error["broker"]) == ("unreachable", "connect", "127.0.0.1:1")
    assert error["reason"] == "connection refused: no process listens there"


def test_json_is_a_flag(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, --json takes the target behind it for a file, or a file of earlier releases for a target."""
    found = arguments.parse(["compare", "--json", "ours", "kafka", "-w", "fast"])
    assert (found.as_json, found.targets) == (True, ["ours", "kafka"])
    with pytest.raises(SystemExit):
        arguments.parse(["run", "-w", "fast", "--json", "out.json"])
    assert "to write a file, use --json-file out.json" in json.loads(capsys.readouterr().err)["error"]["reason"]
    with pytest.raises(SystemExit):
        arguments.parse(["run", "-w", "fast", "--jsn"])
    assert "unrecognized arguments: --jsn" in capsys.readouterr().err


def test_unknown_names_are_reported_with_the_known_ones(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo lists the workloads and targets that come with the tool."""
    assert cli.main(["run", "-t", "ours", "-w", "produce-100"]) == 2
    assert "produce-100b" in capsys.readouterr().err
    assert cli.main(["run", "-t", "redpanda", "-w", str(plain / "fast.toml")]) == 2
    assert "kafka" in capsys.readouterr().err
