"""The contents of a report: it contains the planted anomalies of a small lake, and its size is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_cy.admin.lag import Status
from spark_analytics.lake import Lake, LakeError, Span
from spark_analytics.report import collect, content, page
from spark_analytics.report.content import HOUR_MS, MINUTE_MS, Cluster, Gap, Report
from tests.spark_analytics.jobs.job_frames import START_MS, sample, table
from tests.spark_analytics.planted_lake import ANSWERS, PLANTED, SIZE, SMALL

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def lake(shared_lake: Lake) -> Lake:
    return shared_lake


@pytest.fixture(scope="module")
def made(spark: SparkSession, lake: Lake) -> Report:
    return collect.collect(spark, lake, Span(), ())


@pytest.fixture(scope="module")
def planted(made: Report) -> Cluster:
    (found,) = [each for each in made.clusters if each.name == PLANTED]
    return found


def test_everything_planted_is_in_the_report(planted: Cluster) -> None:
    """If this fails, the page does not show a job's findings, or shows a wrong cause."""
    dear, hot, growing, filling = ANSWERS.dear[0], ANSWERS.hot[0], ANSWERS.growing[0], ANSWERS.filling[0]
    dearest = planted.rebalances[0]
    assert (dearest.group, dearest.clients, dearest.hosts) == (dear.group, (dear.client_id,), (dear.host,))
    assert dearest.stall_max_ms == dear.stall_ms
    costs = {each.by: each.name for each in reversed(planted.spenders)}
    assert (costs["client_id"], costs["host"]) == (dear.client_id, dear.host)
    assert [(each.topic, each.partition) for each in planted.hot] == [(hot.topic, hot.partition)]
    assert planted.hot[0].share == pytest.approx(hot.share, abs=0.02)
    assert planted.groups[0].name == growing.group
    assert planted.groups[0].status in content.BAD
    disk = planted.disks[0]
    assert (disk.broker, disk.path, disk.backtest is not None) == (filling.broker, filling.path, True)
    days = (filling.full_at.timestamp() * 1000 - planted.last_ms) / (24 * HOUR_MS)
    assert disk.full_days == pytest.approx(days, rel=0.2)
    slow = ANSWERS.slow[0]
    assert {each.broker for each in planted.anomalies} == {slow.broker}
    assert min(each.start_ms for each in planted.anomalies) <= slow.start.timestamp() * 1000 + 5 * MINUTE_MS


def test_lines_have_a_point_for_each_period_and_the_whole_traffic(
    spark: SparkSession, lake: Lake, made: Report, planted: Cluster
) -> None:
    """If this fails, a chart is shifted against its axis, or does not show all of the traffic."""
    assert made.period_ms == 15 * MINUTE_MS
    points = 4 * 24 * 4
    lines = [line for each in (*planted.nodes, *planted.topics) for line in (each.in_bytes_per_s, each.records_per_s)]
    assert {len(line) for line in lines} == {points}
    total = lake.read(spark, "topic_rates", clusters=[PLANTED]).groupBy().sum("in_bytes").collect()[0][0]
    for of in (planted.nodes, planted.topics):
        summed = sum(value or 0.0 for each in of for value in each.in_bytes_per_s) * made.period_ms / 1000
        assert summed == pytest.approx(total, rel=0.001)
    assert all(0 < value < 2 for each in planted.nodes for value in each.cpu_share if value is not None)
    assert planted.rows["samples"] == SIZE.rows["samples"]
    assert (planted.start_ms, planted.nodes_total, planted.topics_total) == (int(SIZE.start.timestamp()) * 1000, 3, 2)


def test_forecasts_have_a_backtest_or_a_reason(made: Report, planted: Cluster) -> None:
    """If this fails, a forecast looks certain, or a missing forecast has no reason."""
    assert [each.topic for each in planted.forecasts] == [each.name for each in planted.topics]
    for each in planted.forecasts:
        assert len(each.expected) == len(each.low) == len(each.high) == 7 * 24
        assert each.backtest is not None
    (small,) = [each for each in made.clusters if each.name == SMALL]
    reasons = [*(each.reason for each in small.forecasts), *(each.reason for each in small.disks)]
    assert reasons
    assert all("too little history" in (each or "") for each in reasons)
    assert (small.anomalies, small.hot) == ((), ())


def test_what_is_beyond_the_bounds_is_summed_and_counted(
    spark: SparkSession, lake: Lake, planted: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the traffic of all topics except a few is silently missing."""
    from spark_analytics.report import traffic

    monkeypatch.setattr(traffic, "LINES_MAX", 1)
    rates, samples = (lake.read(spark, name, clusters=[PLANTED]) for name in ("topic_rates", "samples"))
    found = traffic.traffic(rates, samples, {PLANTED: planted}, 15 * MINUTE_MS)[PLANTED]
    assert [each.name for each in found["topics"]] == ["topic-0", "1 other topic"]
    assert found["topics"][0].in_bytes_per_s == planted.topics[0].in_bytes_per_s
    others = [sum(pair) for pair in zip(*(each.in_bytes_per_s for each in planted.topics[1:]), strict=True)]
    assert found["topics"][1].in_bytes_per_s == pytest.approx(others)
    assert [each.name for each in found["nodes"]][1:] == ["2 other brokers"]


def test_the_whole_report_is_a_page(made: Report, tmp_path: Path) -> None:
    """If this fails, a value from Spark cannot be shown as text or JSON."""
    out = tmp_path / "report.html"
    page.write(made, out)
    text = out.read_text()
    assert "deploy-bot" in text
    assert "Cluster small" in text
    assert len(text) < 4_000_000


def test_gaps_are_between_samples_of_a_broker(spark: SparkSession) -> None:
    """If this fails, a broker that was down for an hour looks as if it had been idle, or each late sample is a gap."""
    rows = [sample(at, 1_000) for at in (1, 2, 62, 200, 201)]
    rows += [sample(at, 1_000, broker=2) for at in (1, 400)]
    found = collect.gaps(table(spark, "samples", rows))["c"]
    # 199 s: the sample at 200 s covers the second before it.
    assert found["gaps"] == (
        Gap(2, START_MS + 1_000, START_MS + 399_000), Gap(1, START_MS + 62_000, START_MS + 199_000),
    )  # fmt: skip
    assert (found["gaps_total"], found["gaps_ms"]) == (2, 398_000 + 137_000)


def test_an_empty_span_is_refused(spark: SparkSession, lake: Lake) -> None:
    """If this fails, a mistyped --from makes an empty page."""
    with pytest.raises(LakeError, match="holds nothing from the beginning to 2020-01-01"):
        collect.collect(spark, lake, Span(end=SIZE.start.replace(year=2020, day=1)), ())


def test_a_status_counts_if_it_lasts(planted: Cluster) -> None:
    """If this fails, one minute of growing lag marks a whole hour, or the hours of a lasting growth look healthy."""
    worst = planted.groups[0]
    last = [each.status for each in worst.points[-4:]]
    assert all(each in content.BAD for each in last)
    sound = [each.status for each in planted.groups[-1].points]
    assert sound.count(Status.OK) > len(sound) / 2
