"""The producers of a topic's partitions: ids, epochs, sequences, open transactions."""

from __future__ import annotations

from typing import Any

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.columns import transactions
from broker_cy.reporting.foreign_text import clean

Row = transactions.Producer


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
                grid_column(transactions.PARTITION, letter="P"),
                grid_column(transactions.PARTITION_PRODUCER_ID, letter="I"),
                grid_column(transactions.EPOCH),
                grid_column(transactions.LAST_SEQUENCE),
                grid_column(transactions.LAST_WRITE, drop=1),
                grid_column(transactions.IDLE, letter="L"),
                grid_column(transactions.START_OFFSET, letter="O"),
                grid_column(transactions.COORDINATOR_EPOCH, drop=2, flex=True),
            ],
            key=lambda row: (row[0].partition, row[1].producer_id),
            text=lambda row: f"{row[0].partition} {row[1].producer_id}",
            title=f"Producers of {clean(self.topic)}",
            sort="Partition",
        )

    def connect(self) -> None:
        feed = self.session.producers(self.topic)
        self.link(feed, self.grid, lambda: None if feed.value is None else self.grid.set_rows(feed.value))
