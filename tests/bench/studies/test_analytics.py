"""The measurements of the analytics: their parts run, and fill the recorded table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.measuring.process_tree import TreeWatch
from bench.record import plan as plans
from bench.record import runner, tables
from bench.studies import analytics, analytics_parts, own_topics
from bench.studies.analytics_children import Ran, records_of
from bench.studies.goals import Figures
from broker_cy.launch.processes import ProcessError
from broker_cy.metrics import events, sample
from tests.support import needs
from tests.support.wait import until

SMALL = [
    "--records", "20000", "--pairs", "2", "--warm-up", "1", "--range-gb", "0.05", "--events", "500",
    "--commits", "3000000", "--memory", "1g",
]  # fmt: skip
PARTS = list(analytics_parts.PARTS)


@pytest.fixture
def with_spark() -> None:
    needs.require(needs.spark())


@pytest.mark.usefixtures("with_spark")
@pytest.mark.soak
@pytest.mark.parametrize("parts", ["sources,range", "ingest,jobs"])
def test_the_parts_are_measured_and_shown(parts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the recorded table has rows without figures, or an hour-long run ends with an exception."""
    path = tmp_path / "analytics.json"
    assert analytics.main([*SMALL, "--only", parts, "--dir", str(tmp_path), "--json-file", str(path)]) == 0
    found = json.loads(path.read_text())
    of_parts = tuple(
        f"analytics_{each}" for each in (*parts.split(","), *(("segments", "official") if "sources" in parts else ()))
    )
    (table,) = [each for each in plans.load().tables if each.name == "analytics"]
    wanted = {row.metric for row in table.rows if row.metric.startswith(of_parts)}
    assert wanted
    assert wanted <= found.keys()
    goals = analytics.GOALS.at_least.keys() | analytics.GOALS.at_most.keys()
    assert {each for each in goals if each.startswith(of_parts)} <= found.keys()
    if "sources" in parts:
        assert len(found["analytics_segments_to_official_ratio"]) == 2
        # A small topic has few index entries, and the bounds lie in the middle of its batches.
        assert 0 < found["analytics_range_records_percent"] < 50
        assert 0 < found["analytics_range_read_percent"] < found["analytics_range_io_percent"]
    shown = capsys.readouterr().out
    assert "at least" in shown
    if "jobs" in parts:
        # Lag is sampled every 10 s: with a longer interval, a group that falls behind would not do so in each sample.
        assert found["analytics_jobs_commits"] >= 3_000_000
        assert found["analytics_jobs_recall_percent"] >= 95
        assert found["analytics_jobs_found_jobs"] == 7
        assert found["analytics_jobs_false_alarms_per_broker_day"] <= 1
    documents = {}
    for measurement in plans.load().measurements:
        if measurement.name in {row.measurement for row in table.rows}:
            document = runner.figures(measurement, path)
            document = replace(document, provenance={**document.provenance, "command": measurement.text})
            documents[measurement.name] = runner.slim(document)
    text = tables.markdown(table, documents, "measurements")
    assert tables.NOT_MEASURED not in text
    assert not any(tmp_path.glob("bench-analytics-*"))


def test_every_row_of_the_table_is_a_figure_of_a_part() -> None:
    """If this fails, a mistyped row of the table stays empty forever."""
    source = Path(analytics_parts.__file__).read_text()
    (table,) = [each for each in plans.load().tables if each.name == "analytics"]
    goals = analytics.GOALS.at_least.keys() | analytics.GOALS.at_most.keys()
    assert [each for each in [*(row.metric for row in table.rows), *goals] if f'"{each}":' not in source] == []


def test_the_measurements_of_the_table_have_all_parts() -> None:
    """If this fails, a row of the table refers to a measurement that does not include its part."""
    plan = plans.load()
    (table,) = [each for each in plan.tables if each.name == "analytics"]
    parts = {
        each.name: analytics.arguments([*each.command[3:]]).only
        for each in plan.measurements
        if each.command[:3] == ("python", "-m", "bench.studies.analytics")
    }
    assert sorted(part for each in parts.values() for part in each) == sorted(PARTS)
    of = {"segments": "sources", "official": "sources"}
    for row in table.rows:
        part = row.metric.split("_")[1]
        assert of.get(part, part) in parts[row.measurement]


def test_made_up_events_are_those_of_a_broker() -> None:
    """If this fails, the ingest is measured with records that no broker writes."""
    counts = {events.TOPIC: 0, sample.TOPIC: 0}
    types: dict[str, int] = {}
    for topic, records in own_topics.batches(1000, 1_790_000_000_000):
        counts[topic] += len(records)
        for record in records:
            assert record.value is not None
            if topic == sample.TOPIC:
                one = sample.decode(record.value)
                assert one is not None
                assert sample.encode(one) == record.value
                assert (len(one.apis), len(one.topics)) == (len(own_topics.APIS), 10)
                continue
            stamped = events.decode(record.value)
            assert stamped is not None
            assert events.encode(stamped) == (record.key, record.value)
            assert stamped.time_ms == record.timestamp
            types[stamped.event.TYPE] = types.get(stamped.event.TYPE, 0) + 1
            if isinstance(stamped.event, events.Commits):
                assert len(stamped.event.offsets) == own_topics.OFFSETS
    assert counts == {events.TOPIC: 1000, sample.TOPIC: 1000 // own_topics.SAMPLE_EVENTS}
    assert types == {"commits": 980, "rebalance": 10, "topic_created": 10}


def test_events_are_the_same_each_time() -> None:
    """If this fails, two revisions are measured with different events."""
    both = [[each for _, records in own_topics.batches(200, 10**12) for each in records] for _ in range(2)]
    assert both[0] == both[1]
    assert own_topics.rare_event(98, 10**12, random.Random(1)) is not None
    assert own_topics.rare_event(97, 10**12, random.Random(1)) is None


GRANDCHILD = """
import subprocess, sys, time
block = bytearray(80 << 20)
until_s = time.process_time() + 0.5
while time.process_time() < until_s:
    pass
print("done", flush=True)
sys.stdin.read()
"""
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"


def test_the_memory_and_cpu_of_descendants_are_counted() -> None:
    """If this fails, a figure counts the Python driver only, and the JVM seems to cost nothing."""
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        with TreeWatch(child.pid) as watch:
            assert child.stdout is not None
            assert child.stdout.readline() == b"done\n"
            until(lambda: watch.cpu_s >= 0.5, "the CPU of the grandchild")
        assert watch.peak_bytes > 80 << 20
        assert 0.5 <= watch.cpu_s < 5
    finally:
        child.communicate()
    assert child.returncode == 0


def test_an_ingest_that_reads_less_is_no_figure() -> None:
    """If this fails, an ingest that leaves out half of its records seems to be twice as fast."""
    assert records_of(Ran("bench: 1,525,005 records in 3 batches, 149 s\n", 1, 1, 1)) == 1_525_005
    assert records_of(Ran("bench: 408,005 records in 1 batch, 8 s\n", 1, 1, 1)) == 408_005
    with pytest.raises(ProcessError, match="printed no count"):
        records_of(Ran("nothing", 1, 1, 1))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--only", "jobs,job"], "--only job: unknown (allowed: sources, range, ingest, jobs)"),
        (["--pairs", "0"], "--pairs 0: a number from 1 on is expected"),
        (["--warm-up", "-1"], "--warm-up -1: a number from 0 to 3600 is expected"),
        (["--range-gb", "0"], "--range-gb 0: a number from 0.01 to 1000 is expected"),
    ],
)
def test_wrong_options_are_refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a mistyped part is left out silently."""
    with pytest.raises(SystemExit) as ended:
        analytics.main(argv)
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_what_fails_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a measurement that ended early prints a traceback, or looks successful."""

    def fail(*_: object) -> Figures:
        raise ProcessError("broker-analytics ended with exit code 69: no Java")

    # Fetching the jars has a separate test (tests/spark_analytics/test_jars.py).
    monkeypatch.setattr(analytics, "analytics", lambda *_, **__: None)
    monkeypatch.setitem(analytics_parts.PARTS, "sources", fail)
    monkeypatch.setitem(analytics_parts.PARTS, "jobs", lambda *_: {"analytics_jobs_s": 901.0})
    assert analytics.main(["--only", "sources,jobs"]) == 1
    said = capsys.readouterr()
    assert "bench.studies.analytics: sources: broker-analytics ended with exit code 69: no Java" in said.err
    assert "missed: at most 900" in said.out
