"""Reports of a made-up cluster for tests of the page: small, with data in every section."""

from __future__ import annotations

from dataclasses import replace

from broker_cy.admin.lag import Status
from spark_analytics.report.content import (
    HOUR_MS,
    MINUTE_MS,
    Anomaly,
    Backtest,
    Cluster,
    Disk,
    Forecast,
    Gap,
    Group,
    GroupPoint,
    HotPartition,
    Rates,
    Rebalance,
    Report,
    Spender,
    Uneven,
)

START_MS = 1_767_571_200_000  # 2026-01-05 00:00 UTC
HOURS = 24
END_MS = START_MS + HOURS * HOUR_MS
BACKTEST = Backtest(0.042, 0.91, 120)


def report(*clusters: Cluster, left_out: tuple[str, ...] = ()) -> Report:
    """Return a report on clusters, by default on the one of `cluster`."""
    return Report("lake", "the beginning to the end", END_MS, "0.1.0", HOUR_MS, clusters or (cluster(),), left_out)


def empty(name: str = "main") -> Cluster:
    """Return a cluster with only one event."""
    return Cluster(name, {"events": 1}, START_MS, START_MS, START_MS)


def cluster(name: str = "main") -> Cluster:
    """Return a cluster with data in every section. Broker 2 has no samples in hours 5 and 6."""
    hours = range(HOURS)
    nodes = [_rates(f"broker {each}", each, gap=each == 2) for each in (1, 2)]
    topics = [replace(_rates(f"topic-{each}", each), cpu_share=()) for each in (1, 2, 3)]
    points = [
        GroupPoint(START_MS + hour * HOUR_MS, 10 * hour, 1_000 * hour, Status.STALLED if hour > 15 else Status.OK)
        for hour in hours
        if hour != 3
    ]
    minutes = {Status.OK: 900, Status.STALLED: 480}
    return replace(
        empty(name),
        rows={"samples": 86_400, "commits": 7, "rebalances": 2},
        last_ms=END_MS - 1,
        nodes=tuple(nodes),
        nodes_total=2,
        topics=tuple(topics),
        topics_total=3,
        gaps=(Gap(2, START_MS + 5 * HOUR_MS, START_MS + 7 * HOUR_MS),),
        gaps_total=1,
        gaps_ms=2 * HOUR_MS,
        groups=(
            Group("billing", Status.STALLED, 230, 230, 23_000, 1, minutes, tuple(points)),
            Group("audit", Status.OK, 0, 3, None, 0, {Status.OK: 1_380}, tuple(_ok(each) for each in points)),
        ),
        groups_total=9,
        groups_bad=1,
        rebalances=(
            Rebalance(START_MS + MINUTE_MS, "billing", 7, "session_timeout", ("m-1",), ("app",), ("10.0.0.1",), 3,
                      4_000, 12.0, 1_200.0),
        ),
        rebalances_total=1,
        spenders=(Spender("client_id", "app", 1, 12.0, 1_200.0, 1.0),),
        hot=(HotPartition("topic-1", 3, 0.7, 0.25, 140.0),),
        hot_total=1,
        partitions_total=12,
        uneven=(Uneven("topic-1", 4, 0.45, 3, 0.7),),
        anomalies=(
            Anomaly(1, "produce_total_p99_us", START_MS + 3 * HOUR_MS, START_MS + 4 * HOUR_MS, 60, 33.5,
                    "broker 1: Produce p99 8.1 times that of the others for 60 min"),
            Anomaly(2, "cpu_share", START_MS + 12 * HOUR_MS, START_MS + 13 * HOUR_MS, 60, 10.1,
                    "broker 2: CPU 2.0 times what is usual at this hour for 60 min"),
        ),
        anomalies_total=2,
        forecasts=(
            Forecast("topic-1", END_MS, tuple(1_000.0 + hour for hour in hours), (900.0,) * HOURS, (1_200.0,) * HOURS,
                     5.0, BACKTEST),
            Forecast("topic-2", reason="too little history: 24 hours in 24 (needed: 48 in 72)"),
        ),
        disks=(
            Disk(1, "/data/a", 900, 1_000, 10.0, 7.5, 6.5, 9.0, BACKTEST, None),
            Disk(2, "/data/a", 100, 1_000, -1.0, None, None, None, BACKTEST, "not full within 365 days"),
        ),
        disks_total=2,
    )  # fmt: skip


def _ok(point: GroupPoint) -> GroupPoint:
    return replace(point, lag_records=0, time_lag_ms=None, status=Status.OK)


def _rates(name: str, number: int, gap: bool = False) -> Rates:
    values = tuple(None if gap and hour in (5, 6) else 1_000.0 * number + hour for hour in range(HOURS))
    return Rates(name, values, values, values, tuple(None if each is None else each / 10_000 for each in values))
