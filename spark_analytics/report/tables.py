"""The tables of a report. They also contain the data of the charts for users who cannot see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker_cy.admin.lag import Status
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.measures import figure, part
from broker_cy.reporting.numbers import UNKNOWN, minute, size_rate
from broker_cy.reporting.tables import Cells, html
from broker_cy.reporting.tone import Tone
from spark_analytics.report import words
from spark_analytics.report.content import (
    BAD,
    DAY_MS,
    Anomaly,
    Cluster,
    Disk,
    Forecast,
    Gap,
    Group,
    HotPartition,
    Rates,
    Rebalance,
    Report,
    Spender,
    Uneven,
)

R = TypeVar("R")

# A disk that is full in at most this many days needs attention now.
SOON_DAYS = 30.0
_BY = {"reason": "reason", "client_id": "client", "host": "host"}


def bounded(shown: int, total: int, what: str) -> str:
    """Return a sentence about the rows that are not shown; empty if all are shown."""
    if shown >= total:
        return ""
    return f'<p class="muted bound">The first {shown:,} of {total:,}: {what}.</p>'


def nothing(text: str) -> str:
    """Return the reason why a table is empty."""
    return f'<p class="card nothing">{text}</p>'


def _caption(title: str, cluster: Cluster) -> str:
    return f"{title} of {cluster.name}"


def _rates(key: str, title: str, value: Callable[[Rates], Sequence[float | None]], digits: int) -> list[Column[Rates]]:
    """Return columns of the mean and the highest rate."""
    return [
        figure(f"{key}_mean", f"{title}, mean", lambda row: _mean_and_most(value(row))[0], digits),
        figure(f"{key}_max", "highest", lambda row: _mean_and_most(value(row))[1], digits),
    ]


def _sizes(key: str, title: str, value: Callable[[Rates], Sequence[float | None]]) -> list[Column[Rates]]:
    """Return columns of the mean and the highest bytes a second."""
    return [
        _size_rate(f"{key}_mean", f"{title}, mean", lambda row: _mean_and_most(value(row))[0]),
        _size_rate(f"{key}_max", "highest", lambda row: _mean_and_most(value(row))[1]),
    ]


def _size_rate(key: str, title: str, value: Callable[[R], float | None]) -> Column[R]:
    return Column(key, title, value, Kind.BYTES, text=lambda row: size_rate(value(row)))


def _moment(key: str, title: str, value: Callable[[R], int | None]) -> Column[R]:
    """Return a column of times in UTC, to the minute."""

    def text(row: R) -> str:
        at_ms = value(row)
        return UNKNOWN if at_ms is None else minute(at_ms)

    return Column(key, title, value, Kind.TIME, text=text)


_TRAFFIC: list[Column[Rates]] = [
    *_sizes("in", "bytes in", lambda row: row.in_bytes_per_s),
    *_sizes("out", "bytes out", lambda row: row.out_bytes_per_s),
    *_rates("records", "records/s", lambda row: row.records_per_s, 1),
]


def traffic(cluster: Cluster) -> str:
    """Return the mean and highest rates of brokers and topics."""
    broker: Column[Rates] = Column("broker", "broker", lambda row: row.name)
    topic: Column[Rates] = Column("topic", "topic", lambda row: row.name)
    cpu = _rates("cpu", "CPU cores", lambda row: row.cpu_share, 2)
    return html(_caption("Traffic by broker", cluster), [broker, *_TRAFFIC, *cpu], cluster.nodes) + html(
        _caption("Traffic by topic", cluster), [topic, *_TRAFFIC], cluster.topics
    )


def _mean_and_most(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return (sum(known) / len(known), max(known)) if known else (None, None)


def gaps(cluster: Cluster) -> str:
    """Return the longest gaps of samples; empty without any."""
    if not cluster.gaps:
        return ""
    columns: list[Column[Gap]] = [
        Column("broker", "broker", lambda row: f"broker {row.broker}"),
        _moment("start", "from (UTC)", lambda row: row.start_ms),
        _moment("end", "to", lambda row: row.end_ms),
        Column("lasting", "lasting", lambda row: row.end_ms - row.start_ms, Kind.DURATION),
    ]
    return html(_caption("Gaps of samples", cluster), columns, cluster.gaps) + bounded(
        len(cluster.gaps), cluster.gaps_total, "the longest gaps"
    )


def _verdict(group: Group) -> Tone:
    return Tone.BAD if group.status in BAD else Tone.MUTED


def groups(cluster: Cluster) -> str:
    """Return the worst groups: verdicts, lags, and the time in each status."""
    columns: list[Column[Group]] = [
        Column("group", "group", lambda row: row.name),
        Column("status", "at the end", lambda row: words.status(row.status), tone=_verdict),
        Column("lag", "lag in records", lambda row: row.lag_records, Kind.COUNT),
        Column("lag_max", "highest", lambda row: row.lag_records_max, Kind.COUNT),
        Column("time_lag_max", "highest in time, at most", lambda row: row.time_lag_max_ms, Kind.DURATION),
        Column("abandoned", "abandoned partitions", lambda row: row.abandoned, Kind.COUNT),
    ]
    known = [status for status in sorted(Status) if any(each.minutes.get(status) for each in cluster.groups)]
    columns += [_minutes(status) for status in known]
    note = "those that were longest not ok, then those with the highest lag in time"
    return html(_caption("Groups", cluster), columns, cluster.groups) + bounded(
        len(cluster.groups), cluster.groups_total, note
    )


def _minutes(status: Status) -> Column[Group]:
    title = f"minutes {words.status(status)}"
    return Column(title, title, lambda row: row.minutes.get(status, 0), Kind.COUNT)


def rebalances(cluster: Cluster) -> str:
    """Return the most expensive rebalances with their causes."""
    columns: list[Column[Rebalance]] = [
        _moment("at", "ended at (UTC)", lambda row: row.at_ms),
        Column("group", "group", lambda row: row.group),
        Column("cause", "reason", lambda row: row.cause),
        Column("clients", "client", lambda row: row.clients),
        Column("hosts", "host", lambda row: row.hosts),
        Column("members", "member", lambda row: row.members),
        Column("moves", "partitions moved", lambda row: row.moves, Kind.COUNT),
        Column("stall", "longest stall", lambda row: row.stall_max_ms, Kind.DURATION),
        figure("stalled", "partition-seconds stalled", lambda row: row.stalled_s, 1),
        figure("records", "records that waited", lambda row: row.records),
    ]
    cells: Cells[Rebalance] = {
        "clients": lambda row: words.names(row.clients),
        "hosts": lambda row: words.names(row.hosts),
        "members": lambda row: words.names(row.members),
    }
    return html(_caption("Rebalances", cluster), columns, cluster.rebalances, cells) + bounded(
        len(cluster.rebalances), cluster.rebalances_total, "the most expensive by records that waited"
    )


def spenders(cluster: Cluster) -> str:
    """Return the share of each cause in the cost of all rebalances."""
    columns: list[Column[Spender]] = [
        Column("by", "by", lambda row: _BY[row.by]),
        Column("cause", "cause", lambda row: row.name),
        Column("rebalances", "rebalances", lambda row: row.rebalances, Kind.COUNT),
        figure("stalled", "partition-seconds stalled", lambda row: row.stalled_s, 1),
        figure("records", "records that waited", lambda row: row.records),
        part("share", "share", lambda row: row.share),
    ]
    return html(_caption("Causes of rebalances", cluster), columns, cluster.spenders)


def hot(cluster: Cluster) -> str:
    """Return the hot partitions, with bars of their shares."""
    columns: list[Column[HotPartition]] = [
        Column("topic", "topic", lambda row: row.topic),
        Column("partition", "partition", lambda row: f"{row.partition:,}"),
        Column("bar", "share of the topic", lambda row: ""),
        part("share", "share", lambda row: row.share),
        part("fair", "fair share", lambda row: row.fair_share),
        figure("times", "times fair", lambda row: row.share / row.fair_share, 1),
        figure("records", "records/s", lambda row: row.records_per_s, 1),
    ]
    bars: Cells[HotPartition] = {"bar": lambda row: _bar(row.share, row.fair_share)}
    return html(_caption("Hot partitions", cluster), columns, cluster.hot, bars) + bounded(
        len(cluster.hot), cluster.hot_total, "the hottest"
    )


def _bar(share: float, fair: float) -> str:
    """Return a bar of a share, with a line at the fair share. It repeats the numbers next to it."""
    return (
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="10"/><rect class="part" width="{100 * share:.1f}" height="10"/>'
        f'<rect class="fair" x="{min(99.0, 100 * fair):.1f}" width="1" height="10"/></svg>'
    )


def uneven(cluster: Cluster) -> str:
    """Return the topics with the least even partitions."""
    columns: list[Column[Uneven]] = [
        Column("topic", "topic", lambda row: row.topic),
        Column("partitions", "partitions", lambda row: row.partitions, Kind.COUNT),
        figure("gini", "Gini coefficient", lambda row: row.gini, 2),
        Column("hottest", "partition with the most", lambda row: row.hottest, Kind.COUNT),
        part("share", "its share", lambda row: row.hottest_share),
    ]
    return html(_caption("Least even topics", cluster), columns, cluster.uneven)


def anomalies(cluster: Cluster) -> str:
    """Return the anomalies, with the numbers of the marks."""
    columns: list[Column[tuple[int, Anomaly]]] = [
        Column("mark", "mark", lambda row: row[0]),
        _moment("start", "from (UTC)", lambda row: row[1].start_ms),
        Column("what", "anomaly", lambda row: row[1].words),
        Column("minutes", "minutes", lambda row: row[1].minutes, Kind.COUNT),
        figure("score", "score", lambda row: row[1].score, 1),
    ]
    return html(_caption("Anomalies", cluster), columns, enumerate(cluster.anomalies, 1)) + bounded(
        len(cluster.anomalies), cluster.anomalies_total, "those with the highest scores, in the order of time"
    )


def forecasts(cluster: Cluster) -> str:
    """Return the forecasts of topics, or the reasons why there are none."""
    columns: list[Column[Forecast]] = [
        Column("topic", "topic", lambda row: row.topic),
        Column("backtest", "backtest", lambda row: _quality(row)),
        _moment("until", "until (UTC)", _until),
        _size_rate("mean", "expected, mean", lambda row: _mean_and_most(row.expected)[0]),
        _size_rate("most", "upper end of the band, highest", lambda row: _mean_and_most(row.high)[1]),
        _size_rate("growth", "growth a day", lambda row: row.growth_per_day),
    ]
    return html(_caption("Forecasts", cluster), columns, cluster.forecasts) + bounded(
        len(cluster.forecasts), cluster.topics_total, "those with the most bytes in"
    )


def _quality(forecast: Forecast) -> str:
    return words.backtest(forecast.backtest) if forecast.start_ms is not None else forecast.reason or UNKNOWN


def _until(forecast: Forecast) -> int | None:
    return None if forecast.start_ms is None else forecast.start_ms + len(forecast.expected) * DAY_MS // 24


def disks(cluster: Cluster, made_of_ms: int) -> str:
    """Return the times when disks are full. `made_of_ms` is the time of the last sample, from which days count."""
    columns: list[Column[Disk]] = [
        Column("broker", "broker", lambda row: f"broker {row.broker}"),
        Column("path", "directory", lambda row: row.path),
        Column("full", "full at (UTC)", lambda row: row.full_days),
        Column("backtest", "backtest of the growth", lambda row: words.backtest(row.backtest)),
        Column("days", "in days", lambda row: row.full_days, Kind.COUNT, text=lambda row: words.days(row.full_days)),
        Column("band", "band in days", lambda row: row.full_days_low, Kind.COUNT, text=_band),
        part("used", "used", lambda row: row.used_bytes / row.total_bytes),
        Column("of", "of", lambda row: row.total_bytes, Kind.BYTES),
        Column("growth", "growth a day", lambda row: row.growth_per_day, Kind.BYTES),
    ]
    cells: Cells[Disk] = {
        "broker": lambda row: f'<span class="name">broker {row.broker}</span>',
        "path": lambda row: f"<code>{words.text(row.path)}</code>",
        "full": lambda row: _full(row, made_of_ms),
        "backtest": lambda row: _words(words.backtest(row.backtest)),
    }
    return html(_caption("Disks", cluster), columns, cluster.disks, cells) + bounded(
        len(cluster.disks), cluster.disks_total, "those that are full first"
    )


def _full(disk: Disk, from_ms: int) -> str:
    if disk.full_days is None:
        return f'<span class="muted">{_words(words.text(disk.reason or ""))}</span>'
    text = minute(from_ms + round(disk.full_days * DAY_MS))[:10]
    return f'<strong class="bad-text name">{text}, soon</strong>' if is_soon(disk) else text


def _words(html: str) -> str:
    """Return a sentence of a table, which gets a minimum width."""
    return f'<span class="words">{html}</span>'


def is_soon(disk: Disk) -> bool:
    """Return whether a disk needs attention now."""
    return disk.full_days is not None and disk.full_days <= SOON_DAYS


def _band(disk: Disk) -> str:
    if disk.full_days_low is None and disk.full_days_high is None:
        return UNKNOWN
    high = "open" if disk.full_days_high is None else words.days(disk.full_days_high)
    return f"{words.days(disk.full_days_low)} to {high}"


def sources(report: Report) -> str:
    """Return the number of rows of each table that the report is based on."""
    names = dict.fromkeys(name for cluster in report.clusters for name in cluster.rows)
    columns: list[Column[Cluster]] = [
        Column("cluster", "cluster", lambda row: row.name),
        _moment("first", "first (UTC)", lambda row: row.first_ms),
        _moment("last", "last", lambda row: row.last_ms),
        *(_rows_of(name) for name in names),
    ]
    return html("Rows of the lake", columns, report.clusters)


def _rows_of(name: str) -> Column[Cluster]:
    return Column(name, name.replace("_", " "), lambda row: row.rows.get(name, 0), Kind.COUNT)
