"""Producers of a topic: the state of idempotent and transactional producers that the leader of each partition keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash.development.base_component import Component

from broker_cy.console.columns import transactions
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.components.panel import page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.group import record_path

Row = transactions.Producer


@channel("producers")
class Producers(TableChannel[Row]):
    SUBJECT = frozenset({"topic"})
    REQUIRED = frozenset({"topic"})
    SORT = "partition"
    COLUMNS = (
        table_column(transactions.PARTITION, 100),
        table_column(transactions.PARTITION_PRODUCER_ID, 120),
        table_column(transactions.EPOCH, 90),
        table_column(transactions.LAST_SEQUENCE, 130),
        table_column(transactions.LAST_WRITE, 190, is_flex=True),
        table_column(transactions.IDLE, 100),
        table_column(transactions.START_OFFSET, 120, hint="First offset of the open transaction; opens its record"),
        table_column(transactions.COORDINATOR_EPOCH, 150),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.producers(self.params["topic"])]

    def rows(self) -> Iterable[Row] | None:
        return self.session.producers(self.params["topic"]).value

    def row_id(self, row: Row) -> str:
        return f"{row[0].partition} {row[1].producer_id}"

    def _cells(self, row: Row) -> list[Any]:
        cells = super()._cells(row)
        key, start = row[0], row[1].txn_start_offset
        if start is not None:
            cells[6] = Cell(count(start), Tone.NOTED, record_path(self.hub.name, key, start)).encoded()
        return cells


def layout(context: Context, cluster: str, topic: str = "", **_: str) -> Component:
    return shell(
        context,
        cluster,
        "producers",
        f"Producers of {clean(topic)}",
        [
            table(
                "Producers",
                "producers",
                Producers.COLUMNS,
                cluster=cluster,
                params={"topic": topic},
                noun="producer",
                note="Idempotent and transactional producers that each partition's leader remembers. The filter "
                "searches partition and producer id.",
                empty="No producer with an id has written to this topic for a while.",
            )
        ],
        crumbs=[("Topics", page_path(cluster, "topics")), (clean(topic), page_path(cluster, "topic", topic=topic))],
    )


PAGE = Page("producers", "Producers", layout, in_navigation=False, parent="topics")
