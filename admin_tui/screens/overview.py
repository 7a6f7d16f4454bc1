"""The first screen: is it well, how much goes through, how quickly, who is busiest, and what changed last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal

from admin_tui.screens.view import View
from admin_tui.tones import STYLES
from admin_tui.widgets.chart import Chart
from admin_tui.widgets.facts import Fact, Facts
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.event_text import kind_of, line_of, subject_of
from broker_cy.admin.text import clean, count, duration, micros, percent, short, size, when
from broker_cy.console.event_text import tone_of
from broker_cy.metrics.events import Rebalance, Stamped
from broker_cy.metrics.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

# Samples over which a topic's rate is taken.
RATE_SAMPLES = 10
_BusyTopic = tuple[str, float, float, float]


class OverviewView(View):
    """Overview."""

    NAME = "overview"
    ABOUT = """Health of the cluster; rates and latencies of the last ten minutes, which the broker keeps itself in
    the topic `__broker_metrics`; the busiest topics (of the last ten seconds), and what happened last, from
    `__cluster_events`.

`:` goes to another screen: `:topics`, `:groups`, `:messages TOPIC` ..; `ctrl+p` looks through everything there is."""
    DEFAULT_CSS = """
    OverviewView #lists { height: 3fr; }
    OverviewView #charts { height: 2fr; min-height: 7; max-height: 14; }
    OverviewView #busy { width: 1fr; }
    OverviewView #events { width: 1fr; }
    """

    def body(self) -> ComposeResult:
        yield Facts("Health", id="health")
        with Horizontal(id="charts"):
            yield Chart("In", size, "/s", id="in")
            yield Chart("Out", size, "/s", id="out")
            yield Chart("Produce p99", micros, id="p99")
        with Horizontal(id="lists"):
            yield Grid[_BusyTopic](
                [
                    Column("Topic", lambda row: clean(row[0]), 12, lambda row: row[0], flex=True, letter="T"),
                    Column("Records/s", lambda row: short(row[1]), 9, lambda row: row[1], "right", letter="R"),
                    Column("In/s", lambda row: size(row[2]), 9, lambda row: row[2], "right", drop=1, letter="I"),
                    Column("Out/s", lambda row: size(row[3]), 9, lambda row: row[3], "right", drop=2, letter="O"),
                ],
                key=lambda row: row[0],
                title="Busiest topics",
                id="busy",
                sort="In/s",
                descending=True,
            )
            yield Grid[Stamped](
                [
                    Column("Time", lambda row: self._when(row), 8),
                    Column("What", _what, 20, flex=True),
                ],
                key=lambda row: (row.time_ms, row.event.TYPE, row.event.key),
                title="Happened last",
                stays_first=True,
                id="events",
            )

    def _when(self, row: Stamped) -> str:
        return when(row.time_ms, utc=self.console_app.settings.utc, date=False)[:8]

    def connect(self) -> None:
        health = self.query_one("#health", Facts)
        for source in (self.session.cluster(), self.session.topics()):
            self.link(source, health, self._show_health)
        self.link(self.session.samples, self.query_one("#in"), self._show_samples)
        for name in ("#out", "#p99", "#busy"):
            self.link(self.session.samples, self.query_one(name), lambda: None)
        self.link(self.session.events, self.query_one("#events"), self._show_events)
        self.query_one("#busy").focus()

    def _show_health(self) -> None:
        self.query_one("#health", Facts).set_facts(
            health_of(
                self.session.cluster().value,
                self.session.topics().value,
                self.session.samples.last,
            )
        )

    def _show_samples(self) -> None:
        samples: Sequence[Sample] = list(self.session.samples.items)
        if not samples:
            return
        interval = samples[-1].interval_ms or 1_000
        self.query_one("#in", Chart).set_values([_per_s(each, _in_bytes(each)) for each in samples], interval)
        self.query_one("#out", Chart).set_values([_per_s(each, _out_bytes(each)) for each in samples], interval)
        self.query_one("#p99", Chart).set_values([produce_p99_us(each) for each in samples], interval)
        self.query_one("#busy", Grid).set_rows(busiest(samples[-RATE_SAMPLES:]))
        self._show_health()

    def _show_events(self) -> None:
        self.query_one("#events", Grid).set_rows(reversed(self.session.events.items))

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        if event.grid.id == "busy":
            self.console_app.show_view("topic", event.row[0])
        elif isinstance(event.row.event, Rebalance):
            self.console_app.show_view("rebalances", event.row.event.group)
        else:
            self.console_app.show_view("events")


def _what(row: Stamped) -> Text:
    style = STYLES[tone_of(row.event)]
    return Text(f"{kind_of(row.event)} {subject_of(row.event)}: {line_of(row.event)}", style)


def _per_s(sample: Sample, amount: float) -> float:
    return amount * 1000 / (sample.interval_ms or 1_000)


def _in_bytes(sample: Sample) -> int:
    return sum(topic.in_bytes for topic in sample.topics.values())


def _out_bytes(sample: Sample) -> int:
    return sum(topic.out_bytes for topic in sample.topics.values())


def produce_p99_us(sample: Sample) -> float | None:
    """The p99 of whole Produce requests in the interval; None where there were none."""
    api = sample.apis.get("Produce")
    times = None if api is None else api.phases.get("total")
    return None if times is None or not times.count else times.p99_us


def busiest(samples: Sequence[Sample]) -> list[_BusyTopic]:
    """(topic, records in, bytes in, bytes out), each per second over the samples."""
    seconds = sum(sample.interval_ms for sample in samples) / 1000 or 1.0
    sums: dict[str, list[int]] = {}
    for sample in samples:
        for name, topic in sample.topics.items():
            total = sums.setdefault(name, [0, 0, 0])
            total[0] += topic.in_records
            total[1] += topic.in_bytes
            total[2] += topic.out_bytes
    return [(name, *(each / seconds for each in total)) for name, total in sums.items()]  # type: ignore[misc]


def health_of(cluster: Any, topics: Any, sample: Sample | None) -> list[Fact]:
    """What is known of the cluster's health."""
    facts: list[Fact] = []
    if cluster is not None:
        fenced = sum(broker.is_fenced for broker in cluster.brokers)
        told = f"{len(cluster.brokers)}, {fenced} fenced" if fenced else str(len(cluster.brokers))
        facts.append(("brokers", told, "bold red" if fenced else "bold green"))
        controller = "none" if cluster.controller_id < 0 else str(cluster.controller_id)
        facts.append(("controller", controller, "bold red" if cluster.controller_id < 0 else "bold"))
    if topics is not None:
        offline = sum(part.is_offline for topic in topics for part in topic.partitions)
        facts.append(("topics", count(len(topics))))
        facts.append(("partitions", count(sum(len(topic.partitions) for topic in topics))))
        facts.append(("offline", count(offline), "bold red" if offline else "bold green"))
    if sample is None:
        return facts
    open_ones = sample.transactions.get("Ongoing", 0)
    facts += [
        ("up", duration(sample.uptime_ms)),
        ("CPU", percent(sample.cpu_us / 1000, sample.interval_ms)),
        ("memory", size(sample.resident_bytes)),
        ("loop lag p99", micros(sample.loop_lag.p99_us), "bold yellow" if sample.loop_lag.p99_us > 100_000 else "bold"),
        ("connections", count(sample.connections)),
        ("groups", count(sum(sample.groups.values()))),
        ("members", count(sample.members)),
        ("transactions open", count(open_ones)),
        ("not flushed", size(sample.unflushed_bytes)),
    ]
    if sample.disks:
        free, total = min(sample.disks.values(), key=lambda room: room[0] / max(1, room[1]))
        facts.append(
            ("disk free", f"{size(free)} ({percent(free, total)})", "bold red" if free < total / 20 else "bold")
        )
    return facts
