"""Writes records to a file, one JSON object per line, as `broker-cy produce --json-lines` reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from broker_cy.admin.metadata import TopicPartition
from broker_cy.console.fields import Field, Form
from broker_cy.console.scan import Row, Scan, State
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, percent, plural, size
from broker_cy.wire.records import Record

Line = Callable[[TopicPartition, Record], bytes]


def new_file(text: str) -> Path:
    """The path of a file that does not exist yet. Raises ValueError otherwise."""
    if not text.strip():
        raise ValueError("a file name is expected")
    path = Path(text.strip()).expanduser()
    if path.exists():
        raise ValueError(f"{path} already exists")
    if not path.parent.is_dir():
        raise ValueError(f"the directory {path.parent} does not exist")
    return path


def export_form(topic: str) -> Form:
    return Form(
        f"Export records of {topic}",
        [
            Field("path", "File", new_file, f"{topic}.jsonl"),
            Field("what", "Which records", value="shown", choices=("shown", "all that match")),
        ],
        verb="Export",
    )


def write_rows(path: Path, topic: str, rows: Sequence[Row], make_line: Line) -> str:
    """Write the rows and return a sentence that says so. Raises OSError."""
    with path.open("xb") as out:
        for row in rows:
            out.write(make_line(TopicPartition(topic, row.partition), row.record))
    return f"wrote {plural(len(rows), 'record')} to {path}"


class ExportDialog(ModalScreen[str | None]):
    """Runs a scan into a file and shows its progress; esc stops, and the file keeps what was written."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Stop", id="export.close")]
    DEFAULT_CSS = """
    ExportDialog { align: center middle; }
    ExportDialog > Vertical { width: 70; height: auto; border: round $primary; background: $surface; padding: 0 1; }
    ExportDialog Static { height: auto; }
    """

    def __init__(
        self, path: Path, make_scan: Callable[[Callable[[TopicPartition, list[Record]], None]], Scan], make_line: Line
    ):
        super().__init__()
        self._path = path
        self._make_line = make_line
        self._out: IO[bytes] | None = None
        self._written = 0
        self._scan = make_scan(self._take)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(clean(f"Export to {self._path}"))
            box.border_subtitle = Text("esc stops")
            yield Static("")

    def on_mount(self) -> None:
        self.set_interval(0.2, self._tell)
        self.run_worker(self._run(), exclusive=True)

    def _take(self, key: TopicPartition, records: list[Record]) -> None:
        if self._out is not None:
            for record in records:
                self._out.write(self._make_line(key, record))
            self._written += len(records)

    def _tell(self) -> None:
        scan = self._scan
        self.query_one(Static).update(
            Text(
                f"{percent(scan.offsets_done, scan.offsets_total)} of {count(scan.offsets_total)} offsets, "
                f"{size(scan.bytes)} read, {count(self._written)} records written"
            )
        )

    async def _run(self) -> None:
        try:
            with self._path.open("xb") as self._out:
                await self._scan.run()
        except OSError as error:
            self.dismiss(f"{self._path}: {error.strerror}, after {count(self._written)} records")
            return
        said = f"wrote {plural(self._written, 'record')} to {self._path}"
        self.dismiss(f"{said}, then: {self._scan.error}" if self._scan.state is State.FAILED else said)

    def action_close(self) -> None:
        self.dismiss(f"stopped: wrote {plural(self._written, 'record')} to {self._path}")
