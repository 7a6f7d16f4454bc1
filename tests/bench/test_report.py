"""The verdict is what people read: it must compare the right way round, and never say `met` without a measurement."""

import json
from typing import Any

import pytest

from bench import report
from bench.figures import FIGURES, Figure, Row


def row(figure: Figure, ours: float | None, floor: float | None = None) -> Row:
    return Row(figure, ours, None, floor)


AT_MOST = Figure("w", "m", "cost", "us", 20)
AT_LEAST = Figure("w", "m", "rate", "/s", 100_000, at_least=True)
PER_FLOOR = Figure("w", "m", "consume", "CPU-s/GB", 1.2, per_floor=True)
SHOWN = Figure("w", "m", "shown", "us")


@pytest.mark.parametrize(
    ("line", "verdict", "missed"),
    [
        (row(AT_MOST, 20), "met", False),
        (row(AT_MOST, 25), "missed by 25.0 %", True),
        (row(AT_LEAST, 100_000), "met", False),
        (row(AT_LEAST, 80_000), "missed by 20.0 %", True),
        (row(PER_FLOOR, 0.24, 0.2), "1.20x floor, met", False),
        (row(PER_FLOOR, 0.30, 0.2), "1.50x floor, missed by 25.0 %", True),
        (row(PER_FLOOR, 0.30), "no floor in this run", False),
        (row(AT_MOST, 25, 10), "missed by 25.0 %", True),
        (row(AT_MOST, 25, 22), "missed by 25.0 %; the floor missed it, too", True),
        (row(AT_MOST, None), "", False),
        (row(SHOWN, 5), "", False),
    ],
)
def test_verdict(line: Row, verdict: str, missed: bool) -> None:
    assert (line.verdict(), line.missed) == (verdict, missed)


def test_medians_and_pair_ratios_come_from_the_repeats() -> None:
    """One noisy repeat must not decide, and each of ours is held against the peer's run beside it."""
    runs = {"ours": [{"m": 1.0}, {"m": 9.0}, {"m": 2.0}], "peer": [{"m": 2.0}, {"m": 3.0}, {"m": 8.0}]}
    assert report.median_of(runs, "ours", "m") == 2.0
    assert report.median_of(runs, "floor", "m") is None
    assert report.pair_ratios(runs, "m", "peer") == [0.5, 3.0, 0.25]


def test_rows_name_a_generator_that_was_the_limit_and_cold_reads() -> None:
    """A rate that the load could not exceed must not pass for the broker's."""
    busy = {"per_second": 1e5, "cpu_us": 8.0, "generator_share": 0.99}
    cold = {"cpu_s_per_gb": 0.3, "mb_per_s": 900.0, "disk_read_share": 0.5}
    lines = report.rows({"onerecord": {"ours": [busy]}, "consume": {"ours": [cold]}}, {})
    notes = {(line.figure.workload, line.figure.metric): line.note for line in lines}
    assert "ours: the generator was the limit" in notes["onerecord", "per_second"]
    assert "generator" not in notes["onerecord", "cpu_us"]
    assert "ours: reads were cold" in notes["consume", "cpu_s_per_gb"]


def test_every_promised_figure_has_a_line_and_its_bound() -> None:
    """A figure that is not printed is a promise nobody checks."""
    words = {"cold": "20 GB", "through": "10 GB", "connections": "10,000", "offsets": "100,000"}
    results: dict[str, Any] = {figure.workload: {} for figure in FIGURES}
    for figure in FIGURES:
        results[figure.workload].setdefault("ours", [{}])[0][figure.metric] = 1.0
    lines = report.rows(results, words)
    assert [line.figure.metric for line in lines] == [figure.metric for figure in FIGURES]
    text = report.table(lines)
    for bound in ("≤ 20 us", "≥ 100,000 /s", "≤ 9 us", "≤ 0.75 CPU-s/GB", "≤ 1.2 x floor", "≤ 0.4 ms", "≤ 1 ms",
                  "≤ 0.3 s", "≤ 45 MB", "≤ 90 MB", "≤ 6 KB each", "≤ 1 s"):  # fmt: skip
        assert bound in text
    assert "10,000 idle connections" in text
    assert "{" not in text


def test_document_is_json_with_every_repeat_and_the_provenance() -> None:
    """Whoever doubts a median must find the runs, the command and the revision it came from."""
    results = {"onerecord": {"ours": [{"cpu_us": 8.0}, {"cpu_us": 10.0}]}}
    origin = report.provenance({"ours": "broker-cy 1"})
    read = json.loads(report.document(origin, results, report.rows(results, {})))
    assert read["runs"] == results
    assert read["table"][0]["ours"] == 9.0
    assert {"kernel", "cpu", "revision", "command", "ours"} <= read["provenance"].keys()
