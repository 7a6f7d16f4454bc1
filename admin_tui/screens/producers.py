"""The producers of a topic's partitions: ids, epochs, sequences, open transactions."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from admin_tui.screens.view import ListView
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import ProducerState
from broker_cy.console.session import now_ms
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration, when

Row = tuple[TopicPartition, ProducerState]


class ProducersView(ListView):
    """Producer state of a topic."""

    NAME = "producers"
    ABOUT = """The state that each partition's leader keeps of idempotent and transactional producers: epoch, last
    sequence number, time of the last write, and the first offset of an open transaction."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic

    @property
    def path(self) -> str:
        return f"topics > {self.topic} > producers"

    def make_grid(self) -> Grid[Any]:
        return Grid[Row](
            [
                Column("Part", lambda row: str(row[0].partition), 5, lambda row: row[0].partition, "right", letter="P"),
                Column(
                    "Producer id",
                    lambda row: str(row[1].producer_id),
                    14,
                    lambda row: row[1].producer_id,
                    "right",
                    letter="I",
                ),
                Column("Epoch", lambda row: str(row[1].producer_epoch), 5, None, "right"),
                Column("Sequence", lambda row: str(row[1].last_sequence), 11, None, "right"),
                Column("Last write", lambda row: when(row[1].last_timestamp_ms), 23, drop=1),
                Column(
                    "Idle",
                    lambda row: duration(max(0, now_ms() - row[1].last_timestamp_ms)),
                    10,
                    lambda row: -row[1].last_timestamp_ms,
                    "right",
                    letter="L",
                ),
                Column("Open since offset", _open, 17, lambda row: row[1].txn_start_offset, "right", letter="O"),
                Column("Coord epoch", lambda row: str(row[1].coordinator_epoch), 11, None, "right", drop=2, flex=True),
            ],
            key=lambda row: (row[0].partition, row[1].producer_id),
            text=lambda row: f"{row[0].partition} {row[1].producer_id}",
            title=f"Producers of {clean(self.topic)}",
            sort="Part",
        )

    def connect(self) -> None:
        feed = self.session.producers(self.topic)
        self.link(feed, self.grid, lambda: None if feed.value is None else self.grid.set_rows(feed.value))


def _open(row: Row) -> Text:
    start = row[1].txn_start_offset
    return Text("-", "bright_black") if start is None else Text(count(start), "cyan")
