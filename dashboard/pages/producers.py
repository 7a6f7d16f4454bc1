"""Producers of a topic: the state of idempotent and transactional producers that the leader of each partition keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import ProducerState
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Column, TableChannel, channel
from dashboard.components.panel import page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.group import record_path

Row = tuple[TopicPartition, ProducerState]


def _open(row: Row) -> Cell:
    start = row[1].txn_start_offset
    return Cell("-", Tone.MUTED) if start is None else Cell(count(start), Tone.NOTED)


def _written(row: Row) -> str:
    return "-" if row[1].last_timestamp_ms < 0 else f"@{row[1].last_timestamp_ms}"


def _idle(row: Row) -> str:
    return "-" if row[1].last_timestamp_ms < 0 else duration(max(0, now_ms() - row[1].last_timestamp_ms))


@channel("producers")
class Producers(TableChannel[Row]):
    SUBJECT = frozenset({"topic"})
    REQUIRED = frozenset({"topic"})
    SORT = "partition"
    COLUMNS = (
        Column("partition", "Partition", lambda row: str(row[0].partition), lambda row: row[0].partition, True, 100),
        Column(
            "producer", "Producer id", lambda row: str(row[1].producer_id), lambda row: row[1].producer_id, True, 140
        ),
        Column("epoch", "Epoch", lambda row: str(row[1].producer_epoch), lambda row: row[1].producer_epoch, True, 90),
        Column(
            "sequence",
            "Last sequence",
            lambda row: count(row[1].last_sequence),
            lambda row: row[1].last_sequence,
            True,
            130,
            "Sequence number of the last record",
        ),
        Column(
            "written",
            "Last write",
            _written,
            lambda row: row[1].last_timestamp_ms,
            width=190,
            is_flex=True,
            is_time=True,
        ),
        Column("idle", "Idle", _idle, lambda row: -row[1].last_timestamp_ms, True, 120, "Since the last write"),
        Column(
            "open",
            "Open since offset",
            _open,
            lambda row: row[1].txn_start_offset,
            True,
            150,
            "First offset of the open transaction; opens its record",
        ),
        Column(
            "coordinator",
            "Coordinator epoch",
            lambda row: str(row[1].coordinator_epoch),
            None,
            True,
            150,
            "-1: no transaction of the producer has ended here",
        ),
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
