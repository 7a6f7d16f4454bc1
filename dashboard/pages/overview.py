"""Overview: a sentence of health, rates and latencies, the busiest topics, alerts that fire, recent events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicInfo
from broker_cy.admin.sample_window import TOTAL
from broker_cy.console.columns import events, requests
from broker_cy.console.figures import (
    BusyTopic,
    Fact,
    TopicCounts,
    busiest,
    counts_of,
    health_of,
    newest_of,
)
from broker_cy.console.listeners import Source
from broker_cy.metrics.events import Stamped
from dashboard.collector.channel import FactsChannel, TableChannel, channel
from dashboard.collector.charts import HistoryChart
from dashboard.collector.columns import table_column
from dashboard.collector.history_measures import latencies
from dashboard.collector.holdings import sees_all_subjects
from dashboard.collector.rings import Key
from dashboard.collector.seen_events import seen_events
from dashboard.components.panel import listing, panel
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page

# Facts of the broker's sample that count groups and transactions. The sample does not say to whom these belong.
_OF_ALL_SUBJECTS: Final = frozenset({"groups", "members", "transactions open"})


@channel("health")
class Health(FactsChannel):
    """Health of the cluster: brokers, offline partitions, resources of the broker.

    A viewer who may see only some topics or groups gets the counts of the visible topics, and none of _OF_ALL_SUBJECTS.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The answer that `_counts` were computed from.
        self._counts_of: tuple[TopicInfo, ...] | None = None
        self._counts: TopicCounts | None = None

    def sources(self) -> Sequence[Source]:
        return [self.session.cluster(), self.session.topics(), self.session.samples]

    def facts(self) -> Sequence[Fact] | None:
        session = self.session
        if session.cluster().value is None and session.samples.last is None:
            return None
        if sees_all_subjects(self.scope):
            return health_of(session.cluster().value, session.topic_counts(), session.samples.last)
        facts = health_of(session.cluster().value, self._visible_counts(), session.samples.last)
        return [fact for fact in facts if fact.name not in _OF_ALL_SUBJECTS]

    def _visible_counts(self) -> TopicCounts | None:
        """Return the counts of the visible topics; None before the first answer."""
        topics = self.session.topics().value
        if topics is not self._counts_of:
            seen = [info for info in topics or () if self.scope.sees_topic(info.name)]
            self._counts_of, self._counts = topics, None if topics is None else counts_of(seen)
        return self._counts


@channel("throughput")
class Throughput(HistoryChart):
    UNIT = "B/s"
    MEASURES = (("in", "in_bytes_per_s"), ("out", "out_bytes_per_s"))


@channel("latency")
class Latency(HistoryChart):
    """The p99 of Produce requests: whole, and each phase. Fetch requests are not included, because they wait for
    records.
    """

    UNIT = "us"
    SHOWS_HIGH = True

    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        keys = [key for key in latencies(self.hub.history.names()) if key.subject == "Produce"]
        keys.sort(key=lambda key: key.phase != TOTAL)
        return [(key.phase if len(brokers) == 1 else f"{key.phase}, broker {key.broker}", key) for key in keys]


@channel("requests-rate")
class RequestRate(HistoryChart):
    UNIT = "/s"
    MEASURES = (("requests", "requests_per_s"), ("errors", "errors_per_s"))


@channel("busiest")
class Busiest(TableChannel[BusyTopic]):
    """The topics with the highest rates over the last ten seconds."""

    SORT = "in"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(requests.BUSY_TOPIC, 160, is_flex=True),
        table_column(requests.BUSY_RECORDS, 100),
        table_column(requests.BUSY_IN, 100),
        table_column(requests.BUSY_OUT, 100),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.samples]

    def rows(self) -> Iterable[BusyTopic] | None:
        samples = newest_of(list(self.session.samples.items))
        if not samples:
            return None
        return [row for row in busiest(samples) if self.scope.sees_topic(row.name)]

    def row_id(self, row: BusyTopic) -> str:
        return row.name


@channel("recent-events")
class RecentEvents(TableChannel[Stamped]):
    """The newest events, newest first."""

    COLUMNS = (
        table_column(events.TIME, 110),
        table_column(events.SUMMARY, 200, is_flex=True),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.events]

    def rows(self) -> Iterable[Stamped] | None:
        feed = self.session.events
        if not feed.items and feed.age_s is None and not feed.error:
            return None
        return seen_events(reversed(feed.items), self.scope)

    def row_id(self, row: Stamped) -> str:
        return f"{row.time_ms} {row.event.TYPE} {row.key}"


def layout(context: Context, cluster: str, range: str = "") -> Component:
    chosen = {"range": range} if range else {}
    zone = "Times are in the time zone of the browser unless UTC is chosen."
    return shell(
        context,
        cluster,
        "overview",
        "Overview",
        [
            panel("Health", "health", "facts", cluster=cluster),
            html.Div(
                [
                    panel(
                        "Throughput",
                        "throughput",
                        "chart",
                        cluster=cluster,
                        params=chosen,
                        note="Bytes of record batches per second. Marks are events.",
                    ),
                    panel(
                        "Latency of Produce, p99",
                        "latency",
                        "chart",
                        cluster=cluster,
                        params=chosen,
                        note="In the broker, from the first byte of a request to the last of the response.",
                    ),
                    panel(
                        "Requests",
                        "requests-rate",
                        "chart",
                        cluster=cluster,
                        params=chosen,
                        note="Requests per second.",
                    ),
                ],
                className="columns",
            ),
            html.Div(
                [
                    listing(
                        "Busiest topics", "busiest", Busiest.COLUMNS, cluster=cluster, note="Over the last ten seconds."
                    ),
                    listing("Recent events", "recent-events", RecentEvents.COLUMNS, cluster=cluster, note=zone),
                ],
                className="columns wide",
            ),
        ],
        actions=[ranges(cluster, "overview", range)],
    )


PAGE = Page("overview", "Overview", layout)
