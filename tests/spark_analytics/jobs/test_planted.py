"""Every anomaly planted in a made-up cluster is found, and a quiet cluster has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from spark_analytics import synthetic
from spark_analytics.jobs import end_to_end, forecast, lag, nodes, rebalances, skew, throughput, what_if
from spark_analytics.planted import Answers, Size, plant
from spark_analytics.planted_found import RECALL_LEAST, Judged, of_brokers, overlaps, utc
from spark_analytics.reassignment import Reassignment
from spark_analytics.schema import TABLES

pytestmark = pytest.mark.full

FALSE_ALARMS_MOST = 1.0  # for each broker and day
# Two weeks are the history, with which later days are also compared.
LONG = Size(days=16, commit_s=3_600)
QUIET = Size(days=4, commit_s=3_600)
SHORT = Size(days=1, commit_s=60, rebalance_s=2 * 3_600)


@dataclass
class Lake:
    answers: Answers
    tables: dict[str, DataFrame]


@pytest.fixture(scope="module")
def long(spark: SparkSession) -> Lake:
    """Two clusters: one with anomalies, of more than two weeks, and a quiet one of some days."""
    answers = plant(LONG, seed=7, slow=20)
    made = synthetic.tables(spark, LONG, 7, answers, "planted")
    quiet = synthetic.tables(spark, QUIET, 8, cluster="quiet")
    return Lake(answers, {name: made[name].unionByName(quiet[name]) for name in made})


@pytest.fixture(scope="module")
def short(spark: SparkSession) -> Iterator[Lake]:
    """A day with many commits."""
    answers = plant(SHORT, seed=3, slow=0)
    made = synthetic.tables(spark, SHORT, 3, answers, "planted")
    cached = [made[name].cache() for name in ("commits", "topic_rates")]
    yield Lake(answers, made)
    for each in cached:
        each.unpersist()


@pytest.fixture(scope="module")
def anomalies(long: Lake) -> list[Row]:
    return nodes.anomalies(long.tables["samples"], long.tables["api_phases"]).collect()


def test_anomalies_of_brokers_are_found_and_nothing_else(long: Lake, anomalies: list[Row]) -> None:
    """If this fails, a planted anomaly of a broker is missed, or more than one false alarm per broker and day is
    raised, in the quiet cluster or next to the planted ones.
    """
    both = {"planted": Judged(), "quiet": Judged()}
    for cluster, size, answers in (("planted", LONG, long.answers), ("quiet", QUIET, Answers())):
        of_brokers(both[cluster], [row for row in anomalies if row.cluster == cluster], size, answers)
    planted, quiet = both.values()
    assert (planted.planted, quiet.planted) == (20 + LONG.brokers, 0)
    assert planted.recall >= RECALL_LEAST, planted.missed
    print(f"missed: {planted.missed}; false alarms: {len(planted.false)}, in the quiet cluster {len(quiet.false)}")
    for found, size in ((planted, LONG), (quiet, QUIET)):
        assert len(found.false) <= FALSE_ALARMS_MOST * size.brokers * size.days, found.false


def test_times_of_anomalies_are_those_that_were_planted(long: Lake, anomalies: list[Row]) -> None:
    """If this fails, an anomaly is found, but its beginning, its end or its size is wrong."""
    between = [row for row in anomalies if (row.cluster, row.method) == ("planted", "brokers")]
    for each in long.answers.slow:
        (row,) = (
            row
            for row in between
            if (row.broker, row.metric) == (each.broker, "produce_total_p99_us") and overlaps(row, each)
        )
        assert abs(utc(row.start_at) - each.start) <= timedelta(minutes=2)
        assert abs(utc(row.end_at) - each.end) <= timedelta(minutes=2)
        # The peak is one of noise, which triples one p99 in a hundred; the others' are below their mean then, or above.
        assert each.times * 0.8 <= row.peak / row.normal <= each.times * 5
    for surge in long.answers.surges:
        in_time = [row for row in anomalies if row.metric == "cpu_share" and overlaps(row, surge)]
        assert len(in_time) == LONG.brokers
        for row in in_time:
            assert abs(utc(row.start_at) - surge.start) <= timedelta(minutes=5)
            assert abs(utc(row.end_at) - surge.end) <= timedelta(minutes=5)


def test_the_disk_that_fills_is_found(long: Lake) -> None:
    """If this fails, a disk that fills is missed, its day is wrong, or a disk that does not fill raises an alarm."""
    rows = forecast.disks(long.tables["samples"]).collect()
    filling = {("planted", each.broker, each.path): each.full_at for each in long.answers.filling}
    last = LONG.start + timedelta(days=LONG.days)
    assert len(rows) == 2 * 2 * LONG.brokers
    assert {(row.cluster, row.broker, row.path) for row in rows if row.full_days is not None} == set(filling)
    for row in rows:
        assert row.backtest_mape < 0.01
        if row.full_days is not None:
            expected = (filling[row.cluster, row.broker, row.path] - last) / timedelta(days=1)
            assert row.full_days == pytest.approx(expected, abs=0.5)
            assert row.full_days_low <= row.full_days <= row.full_days_high


def test_the_bytes_of_topics_are_forecast(long: Lake) -> None:
    """If this fails, a daily and weekly curve is not predicted: the error of the last quarter is above 20 %."""
    rows = forecast.topics(long.tables["topic_rates"], ahead_days=1).collect()
    assert len(rows) == 24 * 2 * LONG.topics
    assert all(row.backtest_mape < 0.2 for row in rows)
    assert all(row.reason is None and 0 < row.in_bytes_per_s_low <= row.in_bytes_per_s for row in rows)


def test_the_hot_partition_is_found(long: Lake) -> None:
    """If this fails, the planted partition is not hot, another one is, or its share is wrong."""
    rows = [row for row in skew.partitions(long.tables["commits"]).collect() if row.hot]
    assert [("planted", each.topic, each.partition) for each in long.answers.hot] == [
        (row.cluster, row.topic, row.partition) for row in rows
    ]
    assert rows[0].share == pytest.approx(long.answers.hot[0].share, abs=0.01)


def test_the_growing_lag_is_found(short: Lake) -> None:
    """If this fails, the partition that a group no longer keeps up with is not the one with the most lag."""
    (planted,) = short.answers.growing
    found = lag.lag(short.tables["commits"])
    end = SHORT.start + timedelta(seconds=SHORT.seconds)
    rows = found.where(found.minute >= end - timedelta(minutes=3)).collect()
    last = {(row.group, row.topic, row.partition): row for row in sorted(rows, key=lambda row: row.minute)}
    most, *others = sorted(last.values(), key=lambda row: -row.time_lag_ms)
    assert (most.group, most.topic, most.partition) == (planted.group, planted.topic, planted.partition)
    expected_s = (1 - planted.reads) * (end - planted.start).total_seconds()
    assert most.time_lag_ms / 1000 == pytest.approx(expected_s, rel=0.05)
    assert all(row.time_lag_ms < 120_000 for row in others)


def test_the_dear_rebalance_is_found(short: Lake) -> None:
    """If this fails, another rebalance than the planted one is the most expensive, or it has another cause."""
    (planted,) = short.answers.dear
    names = ("rebalances", "moves", "triggers", "commits", "topic_rates", "samples")
    costs = rebalances.rebalances(*(short.tables[name] for name in names))
    first = costs.first()
    assert first is not None
    assert (first.group, first.generation, first.stall_max_ms) == (planted.group, planted.generation, planted.stall_ms)
    assert (first.clients, first.hosts) == ([planted.client_id], [planted.host])


def test_the_growing_lag_delays_records(short: Lake) -> None:
    """If this fails, the records that wait hours for their commit do not stand out from those that wait a minute."""
    (planted,) = short.answers.growing
    end = SHORT.start + timedelta(seconds=SHORT.seconds)
    found = end_to_end.end_to_end(short.tables["commits"])
    rows = found.where(found.minute >= end - timedelta(minutes=3)).collect()
    slowest = {(row.group, row.topic): row.max_ms / 1000 for row in sorted(rows, key=lambda row: row.minute)}
    most = slowest.pop((planted.group, planted.topic))
    expected_s = (1 - planted.reads) * (end - planted.start).total_seconds() + SHORT.commit_s
    assert most == pytest.approx(expected_s, rel=0.05)
    assert len(slowest) == SHORT.groups * SHORT.topics - 1
    assert all(each < 180 for each in slowest.values())


def test_the_traffic_of_the_hot_partition_is_that_of_its_broker(short: Lake) -> None:
    """If this fails, records of a broker are counted twice, lost, or counted on another one."""
    (planted,) = short.answers.hot
    rates, samples = short.tables["topic_rates"], short.tables["samples"]
    rows = throughput.throughput(rates, samples, throughput.HOUR_MS).where(f"topic = '{planted.topic}'").collect()
    assert len(rows) == 24 * SHORT.brokers
    assert all(row.covered_ms == throughput.HOUR_MS for row in rows)
    others = [each for each in range(SHORT.partitions) if each != planted.partition]
    shares = [0.0] * SHORT.brokers
    for each in range(SHORT.partitions):
        share = planted.share if each == planted.partition else (1 - planted.share) / len(others)
        shares[broker_of(planted.topic, each)] += share
    total = sum(row.records for row in rows)
    for broker, share in enumerate(shares):
        assert sum(row.records for row in rows if row.broker == broker) / total == pytest.approx(share, abs=0.01)


def broker_of(topic: str, partition: int) -> int:
    """Return the broker that leads a partition of the made-up cluster."""
    return (partition + int(topic.removeprefix("topic-"))) % SHORT.brokers


def test_moving_the_hot_partition_moves_its_load(spark: SparkSession, short: Lake) -> None:
    """If this fails, a useful plan looks useless, or the load that it moves has no source."""
    (planted,) = short.answers.hot
    source = broker_of(planted.topic, planted.partition)
    target = (source + 1) % SHORT.brokers
    plan = what_if.plan_of(spark, "planted", [Reassignment(planted.topic, planted.partition, target, source)])
    shares = skew.partitions(short.tables["commits"])
    loads = what_if.load(plan, shares, short.tables["topic_rates"], short.tables["samples"]).collect()
    change = {row.broker: row.in_bytes_per_s_after - row.in_bytes_per_s for row in loads}
    of_topic = short.tables["topic_rates"].where(f"topic = '{planted.topic}'").groupBy().sum("in_bytes").first()
    assert of_topic is not None
    expected = planted.share * of_topic[0] / SHORT.seconds
    assert change[target] == pytest.approx(expected, rel=0.02)
    assert change[source] == pytest.approx(-expected, rel=0.02)
    assert {each for each, by in change.items() if by == 0} == set(range(SHORT.brokers)) - {source, target}


def test_rows_depend_on_the_seed_alone(spark: SparkSession) -> None:
    """If this fails, two runs of a figure use different data, or the rows depend on Spark's partitioning."""
    size = Size(days=1, sample_s=3_600, commit_s=7_200)
    one, again, other = (synthetic.tables(spark, size, seed) for seed in (1, 1, 2))
    assert set(one) == set(TABLES) - {"events"}
    for name, rows in one.items():
        assert rows.schema.simpleString() == TABLES[name].simpleString()
        if name in ("samples", "commits"):
            first = rows.repartition(3).select("*").collect()
            assert len(first) == size.rows[name]
            assert sorted(map(str, first)) == sorted(map(str, again[name].collect()))
            assert sorted(map(str, first)) != sorted(map(str, other[name].collect()))


def test_a_size_has_as_many_commits_as_asked_for() -> None:
    """If this fails, a figure for 10^8 rows has another number of rows, or needs the driver to count them."""
    large = Size(days=28, commit_s=3)
    for count in (10**8, 3 * 10**6, 10**5):
        assert count <= large.with_commits(count).rows["commits"] < 1.1 * count
    assert large.with_commits(10**8).commit_s == large.commit_s
    assert Size().with_commits(1).rows["commits"] >= 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"brokers": 0}, "brokers is 0: 1 or more"),
        ({"start": datetime(2026, 1, 1)}, "without a time zone"),
        ({"days": 10**7}, "at most"),
    ],
)
def test_sizes_that_cannot_be_are_refused(values: dict[str, int], message: str) -> None:
    """If this fails, a size without rows, or with too many of them, gives empty tables or never ends."""
    with pytest.raises(ValueError, match=message):
        Size(**values)  # type: ignore[arg-type]


def test_answers_have_room() -> None:
    """If this fails, planted times are outside the lake or overlap, so that recall counts anomalies that do not
    exist.
    """
    with pytest.raises(ValueError, match="slow is 25: 0 to 24 a day"):
        plant(Size(days=1), slow=25)
    for seed in range(20):
        answers = plant(Size(days=1), seed, slow=24)
        ordered: Sequence[tuple[datetime, datetime]] = [(each.start, each.end) for each in answers.slow]
        assert all(end <= start for (_, end), (start, _) in pairwise(ordered))
        assert Size().start <= ordered[0][0]
        assert ordered[-1][1] <= Size().start + timedelta(days=1)
        assert len(answers) == sum(len(getattr(answers, each.name)) for each in fields(Answers)) == 24 + 4
