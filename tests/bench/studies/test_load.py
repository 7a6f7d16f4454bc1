"""The measurements of the load generator: their parts run, and fill the recorded table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.launch import kafka_user
from bench.launch.kafka_user import Sent
from bench.record import plan as plans
from bench.record import runner, tables
from bench.report.result import Document
from bench.studies import load, load_children, load_parts
from bench.studies.goals import Figures
from bench.studies.load_children import Loaded
from broker_cy.launch.processes import ProcessError

SMALL = [
    "--seconds", "1", "--pairs", "1", "--first-rate", "20", "--most-rate", "20", "--rate", "100", "--users", "5",
    "--connections", "40",
]  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rates and short times, and a KafkaUser that needs no package from PyPI."""
    monkeypatch.setattr(load_children, "WARM_UP_S", 0.1)
    monkeypatch.setattr(load_parts, "GRACE_S", 0.5)
    monkeypatch.setattr(load_parts, "FROZEN_RATE", 200.0)
    # A busy machine does not reach the rate of an idle one; the search has separate tests.
    monkeypatch.setattr(load_parts, "REACHED", 0.1)
    monkeypatch.setattr(
        load_parts, "VERIFIED", {name: (*each[:3], 100.0) for name, each in load_parts.VERIFIED.items()}
    )
    monkeypatch.setattr(kafka_user, "send", lambda *_, **__: Sent(1.0, 0.5, 170, 0))


@pytest.mark.full
@pytest.mark.usefixtures("small")
def test_every_part_is_measured_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the recorded table has rows without figures, or a 15-minute measurement ends with an exception."""
    path = tmp_path / "load.json"
    assert load.main([*SMALL, "--json-file", str(path)]) == 0
    found = json.loads(path.read_text())
    (table,) = [each for each in plans.load().tables if each.name == "load"]
    assert {row.metric for row in table.rows if not row.text} <= found.keys()
    assert load.GOALS.at_least.keys() | load.GOALS.at_most.keys() <= found.keys()
    assert found["load_idle_connections"] == 40
    assert found["kafka_user_plain_per_s"] == [170.0]
    assert found["kafka_user_plain_core_per_s"] == [340.0]
    # A stopped broker does not answer: the latency is at least the time for which it was stopped.
    assert min(found["load_gevent_frozen_max_ms"], found["load_raw_frozen_max_ms"]) >= 950
    shown = capsys.readouterr().out
    assert "missed: at least 25,000" in shown
    assert "reached: at most 250" in shown
    (measurement,) = [each for each in plans.load().measurements if each.name == "load"]
    text = tables.markdown(table, {"load": runner.slim(kept(measurement, path))}, "measurements")
    assert "| injected losses, duplicates and reorderings that are found | all: " in text
    assert tables.NOT_MEASURED not in text
    assert "**missed** ≥ 25,000" in text


def kept(measurement: plans.Measurement, path: Path) -> Document:
    """Return the document of a measurement as the recorder keeps it."""
    found = runner.figures(measurement, path)
    return replace(found, provenance={**found.provenance, "command": measurement.text})


def test_figures_of_repeats_become_runs(tmp_path: Path) -> None:
    """If this fails, the table shows the first repeat as if it were all of them."""
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"load_idle_mb": 100, "load_lateness_p99_ms": [1, 3, 2]}))
    (measurement,) = [each for each in plans.load().measurements if each.name == "load"]
    document = runner.figures(measurement, path)
    assert [dict(run.figures) for run in document.runs] == [
        {"load_idle_mb": 100.0, "load_lateness_p99_ms": 1.0},
        {"load_lateness_p99_ms": 3.0},
        {"load_lateness_p99_ms": 2.0},
    ]


def loaded(rates: list[float], seconds: float = 1.0) -> Loaded:
    """Return a run with these requests in each of its seconds, and in those after its end."""
    column = {"requests_per_s": rates, "records_per_s": rates}
    series = {"t_s": list(range(len(rates))), "operations": {"Produce": column}}
    return Loaded({"operations": {"Produce": {"requests": sum(rates)}}, "series": series, "seconds": seconds})


def test_what_is_performed_after_the_measured_time_is_no_rate() -> None:
    """If this fails, a generator seems to reach every rate, because it sends overdue requests after the run."""
    assert loaded([30_000.0, 28_000.0, 31_000.0, 167_000.0], 2.0).requests_per_s == 29_000


@pytest.mark.parametrize(
    ("limit", "first", "most", "expected"),
    [(10_000, 1_000, 64_000, 10_000), (999_999, 1_000, 5_000, 5_000), (1_000, 1_000, 64_000, 1_000)],
)
def test_the_highest_rate_is_found(limit: int, first: int, most: int, expected: int) -> None:
    """If this fails, the rate is far below the generator's limit, or one that it never reached."""

    def measure(rate: float) -> Loaded:
        return loaded([min(rate, limit), rate])

    found = load_parts.highest_rate(measure, first, most)
    assert expected / 1.2 <= found <= expected * 1.04


def test_a_generator_that_is_too_slow_for_the_first_rate_is_named() -> None:
    """If this fails, a figure is shown for a schedule that was never kept."""
    slow = loaded([3.0])
    with pytest.raises(ProcessError, match="the generator does not reach 4,000/s"):
        load_parts.highest_rate(lambda _: slow, 4_000, 8_000)


def test_requests_for_a_second_of_cpu_are_those_of_that_cpu() -> None:
    """If this fails, waiting for the last answers makes the generator look cheaper than it is."""
    result = {
        "operations": {"Produce": {"requests": 6_000}},
        "workers": [{"cpu_s": 0.2}, {"cpu_s": 0.1}],
    }
    assert Loaded(result).per_core_s == pytest.approx(20_000)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--only", "raw,ra"], "--only ra: unknown (allowed: kafka-user, raw,"),
        (["--pairs", "0"], "--pairs 0: a number from 1 on is expected"),
        (["--seconds", "0.5"], "--seconds 0.5: a number from 1 on is expected"),
        (["--first-rate", "10", "--most-rate", "9"], "--most-rate 9: at least --first-rate 10 is expected"),
    ],
)
def test_wrong_options_are_refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a mistyped part is left out silently."""
    with pytest.raises(SystemExit) as ended:
        load.main(argv)
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_what_fails_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a measurement that ended early prints a traceback, or looks successful."""

    def fail(*_: object) -> Figures:
        raise ProcessError("broker-load ended with exit code 3: data wrong")

    monkeypatch.setitem(load_parts.PARTS, "raw", fail)
    monkeypatch.setitem(load_parts.PARTS, "idle", lambda *_: {"load_idle_mb": 300.0})
    assert load.main(["--only", "raw,idle"]) == 1
    said = capsys.readouterr()
    assert "bench.studies.load: raw: broker-load ended with exit code 3: data wrong" in said.err
    assert "missed: at most 250" in said.out
