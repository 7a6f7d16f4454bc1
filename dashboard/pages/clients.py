"""Clients: connections with their traffic, the same by client id, and the numbers of opened and closed ones.

A connection serves any topics and groups, and its client id often names one. Connections are therefore shown only to
viewers who may see every topic and group; their number is not a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from broker_cy.console.columns import brokers, requests
from broker_cy.console.figures import Fact, connection_rates
from broker_cy.metrics.sample import Connection
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, percent
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Column, FactsChannel, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import BrokerChart, recent, require_all_subjects, sees_all_subjects
from dashboard.collector.patches import State
from dashboard.components.panel import listing, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.brokers import BrokerConnections
from dashboard.pages.request_tables import OfSamples
from dashboard.pages.requests import broker_links

CLIENTS_SHOWN = 50
ROWS_HIGH = 16
HIDDEN = (
    "Connections show client ids and addresses of the clients of all topics and groups; your account may see only some "
    "topics or groups."
)


class _OfConnections(OfSamples):
    """Channels that show connections."""

    async def state(self) -> State | None:
        require_all_subjects(self.scope, HIDDEN)
        return await super().state()

    def connections(self) -> list[Connection] | None:
        samples = recent(list(self.session.samples.items), self.broker)
        return connection_rates(samples) if samples else None


@channel("connections")
class Connections(_OfConnections, TableChannel[Connection]):
    """Connections with traffic in the last ten seconds; requests and bytes are per second."""

    SUBJECT = frozenset({"broker"})
    SORT = "in"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(requests.CLIENT_ID, 160, is_flex=True),
        table_column(requests.HOST, 150),
        table_column(requests.LISTENER),
        table_column(requests.OPEN_FOR, 110),
        table_column(requests.CONNECTION_REQUESTS, 135),
        table_column(requests.CONNECTION_IN, 110),
        table_column(requests.CONNECTION_OUT, 110),
        table_column(requests.CONNECTION_ID, 280),
    )

    def rows(self) -> Iterable[Connection] | None:
        return self.connections()

    def row_id(self, row: Connection) -> str:
        return row.id

    def row_text(self, row: Connection) -> str:
        return f"{row.client_id} {row.host} {row.listener} {row.id}"


@dataclass(slots=True)
class Client:
    """The connections of one client id; `share` is its part of all bytes in and out."""

    client_id: str
    hosts: set[str]
    connections: int = 0
    requests: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    share: str = "-"


def clients_of(connections: Iterable[Connection]) -> list[Client]:
    """Sum up connections by client id."""
    found: dict[str, Client] = {}
    for each in connections:
        client = found.setdefault(each.client_id, Client(each.client_id, set()))
        client.hosts.add(each.host)
        client.connections += 1
        client.requests += each.requests
        client.in_bytes += each.in_bytes
        client.out_bytes += each.out_bytes
    total = sum(client.in_bytes + client.out_bytes for client in found.values())
    for client in found.values():
        client.share = percent(client.in_bytes + client.out_bytes, total)
    return list(found.values())


def _hosts(row: Client) -> str:
    return clean(next(iter(row.hosts))) if len(row.hosts) == 1 else f"{count(len(row.hosts))} hosts"


@channel("clients")
class Clients(_OfConnections, TableChannel[Client]):
    """Client ids by their bytes per second."""

    SUBJECT = frozenset({"broker"})
    SORT = "share"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(
            requests.CLIENT_ID.by(lambda row: row.client_id or None, sort=lambda row: row.client_id), is_flex=True
        ),
        Column("share", "Share", lambda row: row.share, lambda row: row.in_bytes + row.out_bytes, True),
        table_column(requests.REQUESTS.by(lambda row: row.requests)),
        table_column(requests.IN.by(lambda row: row.in_bytes)),
        table_column(requests.OUT.by(lambda row: row.out_bytes)),
        table_column(brokers.CONNECTIONS.by(lambda row: row.connections)),
        Column("hosts", "Hosts", _hosts),
    )

    def rows(self) -> Iterable[Client] | None:
        connections = self.connections()
        return None if connections is None else clients_of(connections)

    def row_id(self, row: Client) -> str:
        return row.client_id


@channel("connection-counts")
class ConnectionCounts(OfSamples, FactsChannel):
    """How many connections are open, and how many of them a sample has."""

    PARAMS = frozenset({"broker"})

    def facts(self) -> Sequence[Fact] | None:
        samples = recent(list(self.session.samples.items), self.broker)
        if not samples:
            return None
        last = samples[-1]
        left_out = last.busy_left_out
        return [
            Fact("open", count(last.connections)),
            Fact("with traffic", count(len(last.busy) + left_out)),
            Fact("left out", count(left_out), Tone.WARN if left_out else Tone.PLAIN),
            Fact("opened, 10 s", count(sum(sample.connections_opened for sample in samples))),
            Fact("closed, 10 s", count(sum(sample.connections_closed for sample in samples))),
        ]


@channel("connections-changed")
class ConnectionsChanged(BrokerChart):
    UNIT = "/s"
    MEASURES = (("opened", "connections_opened_per_s"), ("closed", "connections_closed_per_s"))


def layout(context: Context, cluster: str, range: str = "", broker: str = "", **_: str) -> Component:
    one = {"broker": broker} if broker else {}
    chosen = {**one, **({"range": range} if range else {})}
    rows: list[Component] = (
        [
            listing(
                "By client id",
                "clients",
                Clients.COLUMNS,
                cluster=cluster,
                params=one,
                rows=CLIENTS_SHOWN,
                note="Over the last ten seconds. Share: of all bytes in and out of the connections below.",
                empty="No connection had traffic in the last ten seconds.",
            ),
            table(
                "Connections with traffic",
                "connections",
                Connections.COLUMNS,
                cluster=cluster,
                params=one,
                noun="connection",
                height_rows=ROWS_HIGH,
                note="Over the last ten seconds. A sample has only the busiest; above is how many it leaves out.",
            ),
        ]
        if sees_all_subjects(context.identity().scope)
        else [html.P(HIDDEN, className="panel")]
    )
    return shell(
        context,
        cluster,
        "clients",
        "Clients",
        [
            *broker_links(context, cluster, "clients", broker, range=range),
            panel("Connections", "connection-counts", "facts", cluster=cluster, params=one),
            *rows,
            html.Div(
                [
                    panel(
                        "Opened and closed",
                        "connections-changed",
                        "chart",
                        cluster=cluster,
                        params=chosen,
                        note="Connections per second.",
                    ),
                    panel("Open connections", BrokerConnections.name, "chart", cluster=cluster, params=chosen),
                ],
                className="columns wide",
            ),
        ],
        actions=[ranges(cluster, "clients", range, broker=broker)],
    )


PAGE = Page("clients", "Clients", layout)
