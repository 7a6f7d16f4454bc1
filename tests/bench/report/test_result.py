"""The document is the only record of a run: it must contain all measurements, and no figures of a failed run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.drivers.base import DriverResult, Sample
from bench.measuring import proc
from bench.measuring.histogram import Histogram
from bench.report import measured, result
from bench.report.result import Document, ResultError, Run, TargetInfo, WorkloadInfo
from tests.support.bench_results import document, driver_result, spent


def changed(tmp_path: Path, change: Callable[[Any], None]) -> Path:
    """Write a valid document after `change` has modified its JSON."""
    known = json.loads(document().text())
    change(known)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(known))
    return path


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """If this fails, `report` shows other figures than the measured ones."""
    path = tmp_path / "deep" / "r.json"
    written = document()
    result.write(written, path)
    found = result.read(path)
    assert found.text() == written.text()
    assert json.loads(path.read_text())["format"] == 1
    assert [each.name for each in path.parent.iterdir()] == ["r.json"]


def test_a_file_from_before_warm_ups_were_recorded_is_read(tmp_path: Path) -> None:
    """If this fails, users can no longer open reports that they have kept."""
    known = json.loads(document().text())
    del known["warm_ups"], known["notes"]
    for pair in known["pairs"]:
        del pair["a_value"], pair["b_value"]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(known))
    found = result.read(path)
    assert found.warm_ups == ()
    assert found.pairs[0].a_value is None


def test_a_file_from_before_consumers_had_a_series_is_read(tmp_path: Path) -> None:
    """Results that users have kept must stay comparable."""

    def older(known: Any) -> None:
        for run in known["runs"]:
            for name in result.LATER_COLUMNS:
                run["series"].pop(name)

    for run in result.read(changed(tmp_path, older)).runs:
        assert run.series.consumed_mb_per_s == (None,) * len(run.series.t_s)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda known: known.pop("format"), r"r\.json: not a result of broker-bench"),
        (lambda known: known.update(format=2), r"r\.json: format: 2 cannot be read \(allowed: 1\)"),
        (lambda known: known.pop("mode"), r"r\.json: mode: is missing"),
        (lambda known: known["runs"][1].update(pair="x"), r"runs\[1\]\.pair: 'x' is wrong \(allowed: a whole number"),
        (lambda known: known["runs"][0]["figures"].update(p50_ms=None), r"runs\[0\]\.figures\.p50_ms: None"),
        (lambda known: known["runs"][0]["series"]["t_s"].pop(), r"runs\[0\]\.series\.\w+: 4 values for 3 times"),
        (lambda known: known["runs"][0].update(failed="x"), r"runs\[0\]\.figures: a run that failed has no figures"),
        (lambda known: known["runs"][0].update(target="other"), r"runs\[0\]\.target: 'other' is not among the targets"),
        (lambda known: known["runs"][0]["latency"].update(hdr="AAAA"), r"runs\[0\]\.latency\.hdr: not an HdrHist"),
        (lambda known: known["pairs"][0].update(interval=[1]), r"pairs\[0\]\.interval: \[1\] is wrong"),
        (lambda known: known.update(targets=[]), r"targets: \[\] is wrong \(allowed: an object"),
    ],
)
def test_a_document_that_is_not_ours_is_refused(tmp_path: Path, change: Callable[[Any], None], words: str) -> None:
    """The error names file and key: with forty such files, the reader needs to know which one."""
    with pytest.raises(ResultError, match=words):
        result.read(changed(tmp_path, change))


@pytest.mark.parametrize("text", ["", "[1", '{"format": NaN}', "\ufeff{}", "[" * 100_000])
def test_what_is_not_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=r"r\.json: not JSON"):
        result.read(path)


def test_no_file_and_no_object_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"none\.json: cannot be read: No such file"):
        result.read(tmp_path / "none.json")
    path = tmp_path / "list.json"
    path.write_text("[]")
    with pytest.raises(ResultError, match="not a result"):
        result.read(path)


def test_a_number_that_json_has_not_is_never_written(tmp_path: Path) -> None:
    """`Infinity` in the file would make it unreadable for everything but Python."""
    broken = replace(document(), runs=(Run("ours", "now", figures={"p50_ms": float("inf")}),))
    with pytest.raises(ValueError, match="JSON compliant"):
        result.write(broken, tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            lambda: measured.run_of(replace_result(errors=3, first_error="error 6"), **WHO),
            "3 errors, the first: error 6",
        ),
        (lambda: measured.run_of(driver_result(), lost=2, **WHO), "2 acknowledged records could not be read back"),
        (
            lambda: measured.run_of(driver_result(), spent=replace(spent(), died=True), **WHO),
            "process ended during the run",
        ),
        (lambda: measured.run_of(DriverResult(seconds=2.0), **WHO), "no record was acknowledged"),
        (lambda: measured.run_of(driver_result(), failed="no answer in 30 s", **WHO), "no answer in 30 s"),
    ],
    ids=["errors", "lost", "died", "nothing", "reported"],
)
def test_a_run_that_failed_has_no_figure_at_all(made: Callable[[], Run], reason: str) -> None:
    """A rate from a run that lost records must not be quoted."""
    run = made()
    assert run.failed is not None
    assert reason in run.failed
    assert (dict(run.figures), run.series.t_s, run.latency, run.lateness, run.end_to_end) == ({}, (), None, None, None)
    assert run.verdicts == (f"failed: {run.failed}",)


WHO: dict[str, Any] = {"target": "ours", "started": "now"}


def replace_result(**changes: Any) -> DriverResult:
    return replace(driver_result(), **changes)


def test_figures_are_what_was_counted() -> None:
    """Each figure is computed here a second time, by hand."""
    run = measured.run_of(driver_result(), spent=spent(), extra={"start_s": 0.3}, **WHO)
    figures = run.figures
    assert run.failed is None
    # 4 samples of 0.25 s with 250 requests of 10 records of 100 bytes each; 0.5 CPU seconds.
    assert figures["records_per_s"] == 10_000
    assert figures["mb_per_s"] == pytest.approx(1.0)
    assert figures["requests_per_s"] == 1000
    assert figures["cpu_s_per_gb"] == pytest.approx(500)
    assert figures["cpu_s_per_m_records"] == pytest.approx(50)
    assert figures["cpu_us_per_request"] == pytest.approx(500)
    assert figures["broker_user_s"] == pytest.approx(0.375)
    assert figures["broker_system_s"] == pytest.approx(0.125)
    assert figures["rss_peak_mb"] == 64
    assert figures["start_s"] == 0.3
    assert "p999_ms" in figures
    assert "p9999_ms" not in figures  # none of 1,000 values is above it
    assert figures["max_ms"] == 4
    assert figures["avg_ms"] == pytest.approx(2.5, rel=1 / 128)
    assert figures["generator_share"] == pytest.approx(0.2)
    assert list(run.series.records_per_s) == [10_000] * 4
    assert list(run.series.broker_cores) == pytest.approx([0.5] * 4)
    assert list(run.series.rss_mb) == pytest.approx([42.5, 45, 47.5, 50])
    assert run.latency is not None
    assert run.latency.count == 1000
    assert run.latency.percentiles[-1] == (100.0, 4.0)
    assert run.verdicts == ()


def test_every_figure_has_a_name_for_people() -> None:
    """A row `cpu_s_per_m_records` in a report is not readable."""
    from bench.report.metrics import METRICS

    full = replace_result(consumed_records=10_000, consumed_bytes=1_000_000, end_to_end=driver_result().latency)
    assert measured.run_of(full, spent=spent(), **WHO).figures.keys() <= METRICS.keys()


def test_costs_count_what_went_in_and_what_went_out() -> None:
    """A broker that also serves consumers must not look twice as expensive per GB."""
    both = measured.figures(replace_result(consumed_records=10_000, consumed_bytes=1_000_000), spent())
    assert both["cpu_s_per_gb"] == pytest.approx(250)
    assert both["consumed_mb_per_s"] == pytest.approx(1.0)
    slow = measured.figures(replace_result(consumed_records=10_000, consumed_bytes=1_000_000, consumed_s=4.0), spent())
    assert slow["consumed_records_per_s"] == 2500  # all of them, divided by the time until the last one
    assert slow["consumed_mb_per_s"] == pytest.approx(0.25)


def test_consumers_beside_producers_have_a_series() -> None:
    """A consumer that falls behind must be visible when it does."""
    samples = [replace(sample, consumed_records=25, consumed_bytes=2_500) for sample in driver_result().samples]
    found = measured.series(replace_result(samples=samples), None)
    assert list(found.consumed_records_per_s) == [100] * 4
    assert list(found.consumed_mb_per_s) == pytest.approx([0.01] * 4)
    assert list(measured.series(driver_result(), None).consumed_mb_per_s) == [None] * 4


def test_generator_that_was_the_limit_is_named() -> None:
    """The generator is judged by its own CPU time, and by its own lateness."""
    assert measured.verdicts(replace_result(cpu_s=0.94), None) == []
    assert "the generator was the limit: it used 0.96" in measured.verdicts(replace_result(cpu_s=0.96), None)[0]
    late = Histogram()
    late.add(900_000)
    assert measured.verdicts(replace_result(lateness=late), None) == []
    late.add(1_100_000)
    assert "sent 1.100 ms late at p99" in measured.verdicts(replace_result(lateness=late), None)[0]


def test_cold_and_hot_reads_and_negative_latencies_are_said() -> None:
    known = spent()
    cold = replace(known, usage=known.usage._replace(read_bytes=500_000))
    assert measured.verdicts(driver_result(), known, consuming=True) == ["reads were hot"]
    assert measured.verdicts(driver_result(), cold, consuming=True) == ["reads were cold: 50.0% came from the disk"]
    assert measured.verdicts(driver_result(), cold) == []
    assert measured.verdicts(replace_result(unmatched=3), None) == [
        "the end-to-end latency of 3 batches is unknown: they were consumed too late"
    ]
    both = replace_result(consumed_records=1, consumed_bytes=1_000_000, end_to_end=Histogram())
    assert both.end_to_end is not None
    both.end_to_end.add(-1)
    assert measured.verdicts(both, cold) == ["reads were cold: 50.0% came from the disk", "negative latencies: 1"]
    reported = measured.run_of(both, spent=cold, **WHO).end_to_end
    assert reported is not None
    assert (reported.count, reported.negative, list(reported.percentiles)) == (0, 1, [])


def test_ladder_ends_at_the_highest_value_and_claims_no_percentile_beyond_the_values() -> None:
    """p99.99 of 100 requests would be a meaningless number."""
    assert measured.ladder(0) == []
    assert measured.ladder(1) == [100.0]
    hundred = measured.ladder(100)
    assert (hundred[-1], hundred[-2]) == (100.0, 99.0)
    assert {50.0, 90.0, 95.0, 99.0, 99.9} <= set(measured.ladder(10_000))
    assert measured.ladder(10_000) == sorted(set(measured.ladder(10_000)))


def test_an_interval_without_answers_is_a_gap() -> None:
    """While a target stalls there is no latency: 0 ms would be wrong."""
    samples = [*driver_result().samples, Sample(1.25, 0, 0, 0, 0, Histogram())]
    series = measured.series(replace_result(samples=samples), None)
    assert (series.p99_ms[-1], series.records_per_s[-1], series.broker_cores[-1]) == (None, 0, None)


def test_driver_without_samples_shows_the_process() -> None:
    """Kafka's own tools provide no samples; the broker's CPU and memory are still known."""
    series = measured.series(replace_result(samples=[]), spent())
    assert list(series.t_s) == [0.5, 1.0]
    assert list(series.broker_cores) == pytest.approx([0.5, 0.5])
    assert list(series.p99_ms) == [None, None]


def test_processor_time_outside_of_the_samples_is_not_known() -> None:
    """A broker must not look idle in an interval without samples."""
    samples = [Sample(end, 1, 1, 1, 0, Histogram()) for end in (0.5, 1.0, 1.5, 2.0)]
    series = measured.series(replace_result(samples=samples), spent())
    assert list(series.broker_cores) == [pytest.approx(0.5), pytest.approx(0.5), None, None]


def test_pairs_are_by_label_and_leave_out_what_failed() -> None:
    """A failed run must not shift the pairs of the other runs."""
    runs = [
        Run(target, "now", pair, label, figures={"p99_ms": value})
        for label in ("small", "large")
        for pair in range(3)
        for target, value in (("a", 1.0 + pair), ("b", 2.0))
    ]
    runs[2] = Run("a", "now", 1, "small", failed="died")
    small, large = measured.pairs_of(runs, "a", "b", ["p99_ms", "start_s"])
    assert (small.label, list(small.ratios), small.interval) == ("small", [0.5, 1.5], None)
    assert small.note is not None
    assert (large.label, list(large.ratios), large.median) == ("large", [0.5, 1.0, 1.5], 1.0)


def test_failures_of_runs_are_failures_of_the_document() -> None:
    """The exit code depends on them."""
    failed = Run("ours", "now", 1, "100 B", failed="died")
    known = Document("run", {}, WorkloadInfo("w", "w.toml"), {"ours": TargetInfo("ours", "1")}, (failed,))
    assert known.failures == ["ours 100 B, pair 2: died"]
    assert document().failures == []


def test_usage_reports_what_reaches_the_disk(tmp_path: Path) -> None:
    """Bytes written to sockets do not count as disk writes."""
    import os

    before = proc.usage(os.getpid())
    (tmp_path / "f").write_bytes(bytes(1 << 20))
    used = proc.usage(os.getpid()) - before
    assert used.written_bytes >= 1 << 20
    assert used.disk_written_bytes >= 0
