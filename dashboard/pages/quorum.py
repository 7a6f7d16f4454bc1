"""The metadata quorum and the features of the cluster: panels of the page of the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.cluster import FeatureRange
from broker_cy.admin.quorum import QuorumReplica
from broker_cy.client.errors import Failure
from broker_cy.client.text import clean, count
from broker_cy.console.feeds import Feed
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.console.tone import Tone
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, TableChannel, channel
from dashboard.collector.frames import Health
from dashboard.components.panel import listing, panel

# Rows of the lists; a quorum has a handful of voters, and an observer for each broker.
REPLICAS_SHOWN = 200
FEATURES_SHOWN = 50


class _Supported(Channel):
    """Channels of a request that a broker may not support, which is no error."""

    def feed(self) -> Feed[Any]:
        raise NotImplementedError

    def sources(self) -> Sequence[Source]:
        return [self.feed()]

    def health(self) -> Health:
        failure = self.feed().failure
        if failure is not None and failure.failure is Failure.UNSUPPORTED:
            return Health(0, failure.reason, True)
        return super().health()


@channel("quorum")
class Quorum(_Supported, FactsChannel):
    """The metadata quorum as a whole."""

    def feed(self) -> Feed[Any]:
        return self.session.quorum()

    def facts(self) -> Sequence[Fact] | None:
        quorum = self.session.quorum().value
        if quorum is None:
            return None
        leader = str(quorum.leader_id) if quorum.leader_id >= 0 else "none"
        return [
            Fact("leader", leader, Tone.GOOD if quorum.leader_id >= 0 else Tone.BAD),
            Fact("epoch", str(quorum.leader_epoch)),
            Fact("high watermark", count(quorum.high_watermark)),
            Fact("voters", str(len(quorum.voters))),
            Fact("observers", str(len(quorum.observers))),
        ]


QuorumRow = tuple[str, QuorumReplica]


def _lag(row: QuorumRow) -> Cell:
    return Cell(count(row[1].lag), Tone.WARN if row[1].lag else Tone.PLAIN)


def _caught_up(row: QuorumRow) -> str:
    return "-" if row[1].last_caught_up_ms is None else f"@{row[1].last_caught_up_ms}"


@channel("quorum-replicas")
class QuorumReplicas(_Supported, TableChannel[QuorumRow]):
    """Voters and observers, and how many records of the metadata log each lacks."""

    COLUMNS = (
        Column("id", "Id", lambda row: str(row[1].replica_id)),
        Column("role", "Role", lambda row: Cell(row[0], Tone.GOOD if row[0] == "leader" else Tone.PLAIN)),
        Column("end", "Log end", lambda row: count(row[1].log_end_offset), None, True),
        Column("behind", "Behind", _lag, None, True),
        Column("caught-up", "Caught up", _caught_up, is_time=True),
        Column("directory", "Directory id", lambda row: clean(row[1].directory_id), is_flex=True),
    )

    def feed(self) -> Feed[Any]:
        return self.session.quorum()

    def rows(self) -> Iterable[QuorumRow] | None:
        quorum = self.session.quorum().value
        if quorum is None:
            return None
        voters = [("leader" if each.replica_id == quorum.leader_id else "voter", each) for each in quorum.voters]
        return voters + [("observer", each) for each in quorum.observers]

    def row_id(self, row: QuorumRow) -> str:
        return f"{row[1].replica_id} {row[1].directory_id}"


@channel("features")
class Features(_Supported, TableChannel[FeatureRange]):
    """Feature levels: those that the cluster has finalized, and those that brokers support."""

    COLUMNS = (
        Column("feature", "Feature", lambda row: clean(row.name), is_flex=True),
        Column("level", "Level", lambda row: "-" if row.finalized is None else str(row.finalized), None, True),
        Column("supported", "Supported", lambda row: f"{row.supported_min} to {row.supported_max}", None, True),
    )

    def feed(self) -> Feed[Any]:
        return self.session.features()

    def rows(self) -> Iterable[FeatureRange] | None:
        return self.session.features().value

    def row_id(self, row: FeatureRange) -> str:
        return row.name


def panels(cluster: str) -> Component:
    return html.Div(
        [
            html.Div(
                [
                    panel("Metadata quorum", "quorum", "facts", cluster=cluster),
                    listing(
                        "Quorum replicas",
                        "quorum-replicas",
                        QuorumReplicas.COLUMNS,
                        cluster=cluster,
                        rows=REPLICAS_SHOWN,
                        note="Behind: records of the metadata log that a replica lacks.",
                    ),
                ],
                className="stack",
            ),
            listing(
                "Features",
                "features",
                Features.COLUMNS,
                cluster=cluster,
                rows=FEATURES_SHOWN,
                note="Levels that the cluster has finalized, and those that the brokers support.",
                empty="The cluster reports no features.",
            ),
        ],
        className="columns wide",
    )
