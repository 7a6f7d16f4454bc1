"""The tables of a report. They also contain the data of the charts for users who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.admin.lag import Status
from broker_cy.reporting.numbers import UNKNOWN, duration, fixed, minute, share, size, size_rate
from broker_cy.reporting.tables import table
from spark_analytics.report import words
from spark_analytics.report.content import BAD, DAY_MS, Cluster, Disk, Rates, Report

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


def traffic(cluster: Cluster) -> str:
    """Return the mean and highest rates of brokers and topics."""
    heads = ["bytes in, mean", "highest", "bytes out, mean", "highest", "records/s, mean", "highest"]
    nodes = [
        [words.name(each.name), *_figures(each), *(fixed(part, 2) for part in _mean_and_most(each.cpu_share))]
        for each in cluster.nodes
    ]
    topics = [[words.name(each.name), *_figures(each)] for each in cluster.topics]
    return table(
        f"Traffic by broker of {cluster.name}", ["broker", *heads, "CPU cores, mean", "highest"], nodes
    ) + table(f"Traffic by topic of {cluster.name}", ["topic", *heads], topics)


def _figures(of: Rates) -> list[str]:
    sizes = [*_mean_and_most(of.in_bytes_per_s), *_mean_and_most(of.out_bytes_per_s)]
    return [
        *(size_rate(each) for each in sizes),
        *(fixed(each, 1) for each in _mean_and_most(of.records_per_s)),
    ]


def _mean_and_most(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return (sum(known) / len(known), max(known)) if known else (None, None)


def gaps(cluster: Cluster) -> str:
    """Return the longest gaps of samples; empty without any."""
    if not cluster.gaps:
        return ""
    rows = [
        [f"broker {each.broker}", words.moment(each.start_ms), words.moment(each.end_ms),
         duration(each.end_ms - each.start_ms)]
        for each in cluster.gaps
    ]  # fmt: skip
    heads = ["broker", "from (UTC)", "to", "lasting"]
    return table(f"Gaps of samples of {cluster.name}", heads, rows, texts=3) + bounded(
        len(rows), cluster.gaps_total, "the longest gaps"
    )


def groups(cluster: Cluster) -> str:
    """Return the worst groups: verdicts, lags, and the time in each status."""
    there = [status for status in sorted(Status) if any(each.minutes.get(status) for each in cluster.groups)]
    rows = [
        [
            words.name(each.name), _verdict(each.status), fixed(each.lag_records),
            fixed(each.lag_records_max), duration(each.time_lag_max_ms), fixed(each.abandoned),
            *(fixed(each.minutes.get(status, 0)) for status in there),
        ]
        for each in cluster.groups
    ]  # fmt: skip
    heads = [
        "group", "at the end", "lag in records", "highest", "highest in time, at most", "abandoned partitions",
        *(f"minutes {words.status(status)}" for status in there),
    ]  # fmt: skip
    note = "those that were longest not ok, then those with the highest lag in time"
    return table(f"Groups of {cluster.name}", heads, rows, texts=2) + bounded(len(rows), cluster.groups_total, note)


def _verdict(status: Status) -> str:
    style = "bad-text" if status in BAD else "muted"
    return f'<span class="{style}">{words.status(status)}</span>'


def rebalances(cluster: Cluster) -> str:
    """Return the most expensive rebalances with their causes."""
    rows = [
        [
            words.moment(each.at_ms), words.name(each.group), words.text(each.cause), words.names(each.clients),
            words.names(each.hosts), words.names(each.members), fixed(each.moves),
            duration(each.stall_max_ms), fixed(each.stalled_s, 1), fixed(each.records),
        ]
        for each in cluster.rebalances
    ]  # fmt: skip
    heads = [
        "ended at (UTC)", "group", "reason", "client", "host", "member", "partitions moved", "longest stall",
        "partition-seconds stalled", "records that waited",
    ]  # fmt: skip
    return table(f"Rebalances of {cluster.name}", heads, rows, texts=6) + bounded(
        len(rows), cluster.rebalances_total, "the most expensive by records that waited"
    )


def spenders(cluster: Cluster) -> str:
    """Return the share of each cause in the cost of all rebalances."""
    rows = [
        [_BY[each.by], words.name(each.name), fixed(each.rebalances), fixed(each.stalled_s, 1),
         fixed(each.records), share(each.share)]
        for each in cluster.spenders
    ]  # fmt: skip
    heads = ["by", "cause", "rebalances", "partition-seconds stalled", "records that waited", "share"]
    return table(f"Causes of rebalances of {cluster.name}", heads, rows, texts=2)


def hot(cluster: Cluster) -> str:
    """Return the hot partitions, with bars of their shares."""
    rows = [
        [words.name(each.topic), f"{each.partition:,}", _bar(each.share, each.fair_share), share(each.share),
         share(each.fair_share), f"{each.share / each.fair_share:.1f}", fixed(each.records_per_s, 1)]
        for each in cluster.hot
    ]  # fmt: skip
    heads = ["topic", "partition", "share of the topic", "share", "fair share", "times fair", "records/s"]
    return table(f"Hot partitions of {cluster.name}", heads, rows, texts=3) + bounded(
        len(rows), cluster.hot_total, "the hottest"
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
    rows = [
        [words.name(each.topic), fixed(each.partitions), fixed(each.gini, 2), fixed(each.hottest),
         share(each.hottest_share)]
        for each in cluster.uneven
    ]  # fmt: skip
    heads = ["topic", "partitions", "Gini coefficient", "partition with the most", "its share"]
    return table(f"Least even topics of {cluster.name}", heads, rows)


def anomalies(cluster: Cluster) -> str:
    """Return the anomalies, with the numbers of the marks."""
    rows = [
        [f"{number}", words.moment(each.start_ms), words.text(each.words), fixed(each.minutes),
         fixed(each.score, 1)]
        for number, each in enumerate(cluster.anomalies, 1)
    ]  # fmt: skip
    heads = ["mark", "from (UTC)", "what", "minutes of it", "score"]
    return table(f"Anomalies of {cluster.name}", heads, rows, texts=3) + bounded(
        len(rows), cluster.anomalies_total, "those with the highest scores, in the order of time"
    )


def forecasts(cluster: Cluster) -> str:
    """Return the forecasts of topics, or the reasons why there are none."""
    rows = []
    for each in cluster.forecasts:
        if each.start_ms is None:
            rows.append([words.name(each.topic), words.text(each.reason or ""), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN])
            continue
        mean, most = sum(each.expected) / len(each.expected), max(each.high)
        until = each.start_ms + len(each.expected) * DAY_MS // 24
        rows.append([
            words.name(each.topic), words.backtest(each.backtest), words.moment(until), size_rate(mean),
            size_rate(most), size_rate(each.growth_per_day),
        ])  # fmt: skip
    heads = ["topic", "backtest", "until (UTC)", "expected, mean", "upper end of the band, highest", "growth a day"]
    note = "those with the most bytes in"
    return table(f"Forecasts of {cluster.name}", heads, rows, texts=3) + bounded(len(rows), cluster.topics_total, note)


def disks(cluster: Cluster, made_of_ms: int) -> str:
    """Return the times when disks are full. `made_of_ms` is the time of the last sample, from which days count."""
    rows = [
        [
            f'<span class="name">broker {each.broker}</span>', f"<code>{words.text(each.path)}</code>",
            _full(each, made_of_ms), _words(words.backtest(each.backtest)), words.days(each.full_days), _band(each),
            share(each.used_bytes / each.total_bytes), size(each.total_bytes),
            size(each.growth_per_day),
        ]
        for each in cluster.disks
    ]  # fmt: skip
    heads = [
        "broker", "directory", "full at (UTC)", "backtest of the growth", "in days", "band in days", "used", "of",
        "growth a day",
    ]  # fmt: skip
    return table(f"Disks of {cluster.name}", heads, rows, texts=4) + bounded(
        len(rows), cluster.disks_total, "those that are full first"
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
    names = list(dict.fromkeys(name for cluster in report.clusters for name in cluster.rows))
    rows = [
        [words.name(each.name), words.moment(each.first_ms), words.moment(each.last_ms),
         *(fixed(each.rows.get(name, 0)) for name in names)]
        for each in report.clusters
    ]  # fmt: skip
    heads = ["cluster", "first (UTC)", "last", *(name.replace("_", " ") for name in names)]
    return table("Rows of the lake", heads, rows, texts=3)
