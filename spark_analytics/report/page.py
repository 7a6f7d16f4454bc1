"""One HTML page of a report that needs no network: findings first, then charts with their tables, cluster by cluster.

The dashboard shows the page, and reads the policy from its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from broker_cy.admin.lag import Status
from broker_cy.reporting import document
from broker_cy.reporting.charts import Chart
from broker_cy.reporting.document import details, section, state, swatch
from broker_cy.reporting.files import replace_file
from broker_cy.reporting.numbers import duration, minute, plural, share
from spark_analytics.report import tables, words
from spark_analytics.report.charts import GROUPS, NODES, STATUS_COLOURS, STATUSES, TOPICS, Drawer
from spark_analytics.report.content import BAD, CLUSTERS_MAX, POINTS_MAX, Cluster, Report

# The number of findings of one cluster at the head: disks, groups and so on have one each.
_SHOWN = 3


def write(report: Report, out: Path) -> None:
    """Write the page; a reader finds the old page or the complete new one. Raises OSError."""
    replace_file(out, render(report))


def render(report: Report) -> str:
    """Return the page as text."""
    drawn: list[Chart] = []
    body = [_head(report)]
    for number, cluster in enumerate(report.clusters):
        body.append(_cluster(report, cluster, Drawer(cluster, number, report.period_ms), drawn))
    body.append(section("Where these figures came from", tables.sources(report) + _bounds(report)))
    title = f"broker-analytics: {', '.join(each.name for each in report.clusters)}"
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return document.page(title, body, drawn, style=style)


def _head(report: Report) -> str:
    first = min(each.first_ms for each in report.clusters)
    last = max(each.last_ms for each in report.clusters)
    rows = sum(sum(each.rows.values()) for each in report.clusters)
    samples = sum(each.rows.get("samples", 0) for each in report.clusters)
    known = {
        "Clusters": ", ".join(each.name for each in report.clusters),
        "From": f"{minute(first)} UTC",
        "To": f"{minute(last)} UTC",
        "Made at": f"{minute(report.made_ms)} UTC",
        "Made of": f"{plural(samples, 'sample')}, {plural(rows - samples, 'other row')} of {report.lake}",
        "Asked for": report.span,
        "By": f"broker-analytics {report.version}",
    }
    facts = document.facts({name: words.text(text) for name, text in known.items()})
    left_out = ""
    if report.left_out:
        listed = words.text(", ".join(report.left_out))
        left_out = state(
            "warn", f"{plural(len(report.left_out), 'cluster')} left out:",
            f"{listed}. A page has at most {CLUSTERS_MAX}; --cluster chooses which.",
        )  # fmt: skip
    links = ""
    if len(report.clusters) > 1:
        items = "".join(
            f'<a href="#cluster-{number}">{words.name(each.name)}</a>' for number, each in enumerate(report.clusters)
        )
        links = f'<nav class="clusters" aria-label="Clusters">{items}</nav>'
    found = "".join(_findings(each, len(report.clusters) > 1) for each in report.clusters)
    title = f"Activity of the cluster{'s' if links else ''}"
    return f"<header><h1>{title}</h1>{facts}{left_out}{found}{links}</header>"


def _findings(cluster: Cluster, is_named: bool) -> str:
    """Return the findings that need attention, or a note that there are none."""
    found = [*_of_disks(cluster), *_of_groups(cluster), *_of_others(cluster)]
    name = f"{words.name(cluster.name)}: " if is_named else ""
    if not found:
        text = "No anomaly, no group that is behind at the end, no hot partition, no disk that is full soon."
        return state("good", f"{name}No findings.", text)
    return state("warn", f"{name}Findings", "", found)


def _of_disks(cluster: Cluster) -> list[str]:
    soon = [each for each in cluster.disks if tables.is_soon(each)]
    if not soon:
        return []
    which = ", ".join(
        f"broker {each.broker} {words.text(each.path)} in {words.days(each.full_days)} days" for each in soon[:_SHOWN]
    )
    rest = f" and {len(soon) - _SHOWN} more" if len(soon) > _SHOWN else ""
    return [f"{plural(len(soon), 'disk')} full within {tables.SOON_DAYS:g} days: {which}{rest}."]


def _of_groups(cluster: Cluster) -> list[str]:
    if not cluster.groups_bad:
        return []
    bad = [each for each in cluster.groups if each.status in BAD][:_SHOWN]
    which = ", ".join(f"{words.name(each.name)} ({words.status(each.status)})" for each in bad)
    rest = f" and {cluster.groups_bad - len(bad)} more" if cluster.groups_bad > len(bad) else ""
    return [f"{plural(cluster.groups_bad, 'group')} not ok at the end: {which}{rest}."]


def _of_others(cluster: Cluster) -> list[str]:
    found = []
    if cluster.anomalies:
        worst = max(cluster.anomalies, key=lambda each: abs(each.score))
        found.append(f"{_anomalies(cluster)}; the clearest: {words.text(worst.words)}.")
    if cluster.hot_total:
        hottest = cluster.hot[0]
        text = f"{words.name(hottest.topic)}-{hottest.partition} with {share(hottest.share)} of its topic"
        found.append(f"{plural(cluster.hot_total, 'hot partition')}; the hottest: {text}.")
    if cluster.rebalances and cluster.rebalances[0].records >= 1:
        costliest = cluster.rebalances[0]
        who = words.names(costliest.clients)
        found.append(
            f"The most expensive of {plural(cluster.rebalances_total, 'rebalance')} made {costliest.records:,.0f} "
            f"records of {words.name(costliest.group)} wait ({words.name(costliest.cause)}, client {who})."
        )
    if cluster.gaps_total:
        text = duration(cluster.gaps_ms)
        found.append(f"{plural(cluster.gaps_total, 'gap')} of samples, {text} together: no data for these times.")
    return found


def _anomalies(cluster: Cluster) -> str:
    count = cluster.anomalies_total
    return f"{count:,} {'anomaly' if count == 1 else 'anomalies'} of brokers"


def _cluster(report: Report, cluster: Cluster, drawer: Drawer, drawn: list[Chart]) -> str:
    parts = [
        ("Throughput", _throughput(cluster, drawer, drawn)),
        ("Anomalies", _anomaly_section(cluster)),
        ("Lag", _lag(cluster, drawer, drawn)),
        ("Rebalances", _rebalances(cluster)),
        ("Hot partitions", _skew(cluster)),
        ("Forecast", _forecast(cluster, drawer, drawn)),
        ("Disks", _disks(cluster)),
    ]
    is_one = len(report.clusters) == 1
    heading = "" if is_one else f'<h2 class="cluster">Cluster {words.text(cluster.name)}</h2>'
    inner = "".join(section(name if is_one else f"{name} of {cluster.name}", text) for name, text in parts)
    return f'<div id="cluster-{drawer.number}">{heading}{inner}</div>'


def _charts(charts: Sequence[Chart], drawn: list[Chart], legends: dict[str, str] | None = None) -> str:
    if sum(not chart.wide for chart in charts) % 2:
        # Otherwise the last one would have an empty place next to it.
        last = max(at for at, chart in enumerate(charts) if not chart.wide)
        charts = [replace(chart, wide=True) if at == last else chart for at, chart in enumerate(charts)]
    drawn.extend(charts)
    return document.cards(charts, legends)


def _buttons(drawer: Drawer, kind: int, names: Sequence[str], what: str) -> str:
    """Return the colours of lines as buttons, which hide the lines that they name."""
    entities = {drawer.entity(kind, at): name for at, name in enumerate(names)}
    return document.controls(what, entities, style="series")


def _throughput(cluster: Cluster, drawer: Drawer, drawn: list[Chart]) -> str:
    if not cluster.nodes:
        return tables.nothing("No samples in the span: throughput and CPU are not known.")
    nodes = _buttons(drawer, NODES, [each.name for each in cluster.nodes], "Brokers in the charts")
    topics = _buttons(drawer, TOPICS, [each.name for each in cluster.topics], "Topics in the charts")
    charts = drawer.throughput()
    of_nodes = [each for each in charts if "-node-" in each.id]
    of_topics = [each for each in charts if "-topic-" in each.id]
    parts = [nodes, _charts(of_nodes, drawn)]
    if cluster.anomalies:
        parts.insert(0, '<p class="muted">Numbers above the charts are those of the anomalies below.</p>')
    no_topics = tables.nothing("No topic had traffic in the span.")
    parts += [topics, _charts(of_topics, drawn)] if of_topics else [no_topics]
    parts.append(details("These charts as tables", tables.traffic(cluster)))
    if cluster.gaps:
        gaps = f"{plural(cluster.gaps_total, 'gap')} of samples, {duration(cluster.gaps_ms)} together"
        parts.append(details(gaps, tables.gaps(cluster), is_open=True))
    else:
        parts.append('<p class="muted">No gaps of samples: each broker wrote one in each minute.</p>')
    return "".join(parts)


def _anomaly_section(cluster: Cluster) -> str:
    if not cluster.rows.get("samples"):
        return tables.nothing("No samples in the span: brokers cannot be compared.")
    if not cluster.anomalies:
        few = " With fewer than three brokers, none is compared with others." if cluster.nodes_total < 3 else ""
        text = "No broker differed from the others, or from its own history, which needs two earlier weeks."
        return tables.nothing(text + few)
    return tables.anomalies(cluster)


def _lag(cluster: Cluster, drawer: Drawer, drawn: list[Chart]) -> str:
    if not cluster.groups:
        return tables.nothing("No commits in the span: no group's lag is known.")
    charts = drawer.lag()
    groups = _buttons(drawer, GROUPS, [each.name for each in cluster.groups], "Groups in the charts")
    shown = {point.status for each in cluster.groups for point in each.points}
    items = "".join(
        f"<li>{swatch(drawer.entity(STATUSES, STATUS_COLOURS[status]), f'status-{status.name.lower()}')}"
        f"{words.status(status)}</li>"
        for status in sorted(Status)
        if status in shown
    )
    strip = _charts(charts[:1], drawn, {charts[0].id: f'<ul class="legend">{items}</ul>'})
    return strip + tables.groups(cluster) + groups + _charts(charts[1:], drawn)


def _rebalances(cluster: Cluster) -> str:
    if not cluster.rebalances:
        return tables.nothing("No rebalances in the span.")
    parts = [tables.rebalances(cluster)]
    if cluster.spenders:
        parts.append('<p class="muted">Total costs by cause.</p>')
        parts.append(tables.spenders(cluster))
    return "".join(parts)


def _skew(cluster: Cluster) -> str:
    if not cluster.partitions_total:
        return tables.nothing("No commits in the span: the rates of partitions are not known.")
    parts = []
    if cluster.hot:
        parts.append(tables.hot(cluster))
    else:
        count = plural(cluster.partitions_total, "partition")
        parts.append(tables.nothing(f"None of {count} has more than twice its fair share, and 10 records/s."))
    if cluster.uneven:
        parts.append(details("Least even topics", tables.uneven(cluster)))
    return "".join(parts)


def _forecast(cluster: Cluster, drawer: Drawer, drawn: list[Chart]) -> str:
    if not cluster.forecasts:
        hours = "in an hour with samples for at least half of it" if cluster.topics else "in the span"
        return tables.nothing(f"No topic had traffic {hours}.")
    charts = drawer.forecasts()
    note = (
        '<p class="muted">Up to the last sample: measured values. After it: predicted values by the hour, in a band '
        "that holds 90 % of the hours.</p>"
    )
    return (note + _charts(charts, drawn) if charts else "") + tables.forecasts(cluster)


def _disks(cluster: Cluster) -> str:
    if not cluster.disks:
        return tables.nothing("No sample in the span reports disks.")
    return tables.disks(cluster, cluster.last_ms)


def _bounds(report: Report) -> str:
    return (
        f'<p class="muted">The charts have one point for each {words.period(report.period_ms)}, and at most '
        f"{POINTS_MAX:,} for each line. A note below a chart or table says what was left out. Times are UTC.</p>"
    )
