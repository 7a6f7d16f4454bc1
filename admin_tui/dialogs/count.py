"""Counts records by reading them: offsets alone do not tell how many are left after compaction, or are markers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from broker_cy.admin import AdminClient, AdminError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.text import clean, count, percent, plural, size
from broker_cy.console.session import PartitionRow


class CountDialog(ModalScreen[None]):
    """Shows how far it is; esc stops."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Stop", id="count.close")]
    DEFAULT_CSS = """
    CountDialog { align: center middle; }
    CountDialog > Vertical { width: 70; height: auto; border: round $primary; background: $surface; padding: 0 1; }
    CountDialog Static { height: auto; }
    """

    def __init__(self, client: AdminClient, topic: str, rows: Sequence[PartitionRow]) -> None:
        super().__init__()
        self._client = client
        self._topic = topic
        self._spans = {
            TopicPartition(topic, row.partition): (row.start, row.end)
            for row in rows
            if row.start is not None and row.end is not None
        }

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(f"Count records of {clean(self._topic)}")
            box.border_subtitle = Text("esc stops")
            yield Static("")

    def on_mount(self) -> None:
        self.run_worker(self._run(), exclusive=True)

    async def _run(self) -> None:
        total = sum(end - start for start, end in self._spans.values())
        starts = {key: start for key, (start, _) in self._spans.items()}
        ends = {key: end for key, (_, end) in self._spans.items()}
        records = bytes_read = 0
        passed = dict(starts)
        try:
            async with self._client.records.reader(starts, ends=ends) as reader:
                async for chunk in reader:
                    records += len(chunk.records)
                    bytes_read += chunk.size_bytes
                    passed[chunk.partition] = min(chunk.next_offset, ends[chunk.partition])
                    done = sum(at - starts[key] for key, at in passed.items())
                    self._say(f"{percent(done, total)} of {count(total)} offsets: {count(records)} records so far")
        except AdminError as error:
            self._say(f"{count(records)} records, then: {clean(str(error))}", "bold red")
            return
        self._say(
            f"{plural(records, 'record')} at {count(total)} offsets of {plural(len(starts), 'partition')}; "
            f"{size(bytes_read)} were read",
            "bold",
        )

    def _say(self, text: str, style: str = "") -> None:
        self.query_one(Static).update(Text(text, style))

    def action_close(self) -> None:
        self.dismiss(None)
