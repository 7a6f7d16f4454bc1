"""Counts the records of partitions by reading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.console.feed_values import PartitionRow
from broker_cy.console.record_count import RecordCount
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, percent, plural, size


class CountDialog(ModalScreen[None]):
    """Shows the progress; esc stops."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Stop", id="count.close")]
    DEFAULT_CSS = """
    CountDialog { align: center middle; }
    CountDialog > Vertical { width: 70; height: auto; border: round $primary; background: $surface; padding: 0 1; }
    CountDialog Static { height: auto; }
    """

    def __init__(self, client: AdminClient, topic: str, rows: Sequence[PartitionRow]) -> None:
        super().__init__()
        self._topic = topic
        self._count = RecordCount(
            client,
            {
                TopicPartition(topic, row.partition): (row.start, row.end)
                for row in rows
                if row.start is not None and row.end is not None
            },
        )

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(f"Count records of {clean(self._topic)}")
            box.border_subtitle = Text("esc stops")
            yield Static("")

    def on_mount(self) -> None:
        self.set_interval(0.1, self._show)
        self.run_worker(self._count.run(), exclusive=True)

    def _show(self) -> None:
        found = self._count
        total = count(found.offsets_total)
        if found.error:
            text, style = f"{plural(found.records, 'record')} so far, then: {clean(found.error)}", "bold red"
        elif found.is_done:
            where = f"{total} offsets of {plural(found.partitions, 'partition')}"
            text, style = f"{plural(found.records, 'record')} at {where}; read {size(found.bytes_read)}", "bold"
        else:
            done = percent(found.offsets_done, found.offsets_total)
            text, style = f"{done} of {total} offsets: {plural(found.records, 'record')} so far", ""
        self.query_one(Static).update(Text(text, style))

    def action_close(self) -> None:
        self.dismiss(None)
