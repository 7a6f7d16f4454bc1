"""Records of a topic: read from any position, filter, search, follow; produce, produce again, export."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static
from textual.worker import Worker

from admin_tui.dialogs.form import FormDialog
from admin_tui.dialogs.search import Search, search_form, search_of
from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column, time_columns
from admin_tui.widgets.grid import Grid
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span, Start, StartKind
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.records import (
    plan_produce,
    plan_reproduce,
    produce_form,
    reproduce_form,
)
from broker_cy.console.columns import records as columns
from broker_cy.console.decoding import DecodedRows, Lines, match_of, shows_decoded
from broker_cy.console.payload import Format, line
from broker_cy.console.record_json import json_line
from broker_cy.console.scan import Row, Scan, State, Tail
from broker_cy.console.values import parse_partitions, parse_position
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, percent, plural, short

# Records that are shown when a topic is opened.
FIRST_RECORDS = 100
# The newest records over all partitions that can be read at once.
LAST_MAX = 10_000
TICK_S = 0.2


class MessagesView(View):
    """Records of one topic. `where`: a partition as p3, or a position."""

    NAME = "messages"
    ABOUT = """The newest records of all partitions, by time. `f` reads from another position: `beginning`, an offset, a
    time (`@-15m`, `@2026-01-31T12:00`), or `-500` (the last 500).

Filters: key, value and header contain a text, or match a regular expression after `~`. A JSON path is `$.user.id =
42`; also `!= > < >= <=`, `~` for contained text, or `$.user` alone for a field that exists. A search shows its
progress; `s` stops it, and `s` again resumes it.

`t` follows new records. It keeps 5,000 and shows how many were dropped. `v` switches between text, JSON and hex.

With a schema registry, auto and JSON show keys and values by their schemas, and filters look at that."""
    CHANGES = frozenset({"produce", "again"})
    NEEDS_ROW = frozenset({"describe", "again"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "search", "From/filter", id="messages.search"),
        Binding("s", "stop", "Stop/resume", id="messages.stop"),
        Binding("t", "tail", "Live", id="messages.tail"),
        Binding("d", "describe", "Record", id="messages.describe"),
        Binding("v", "format", "Format", id="messages.format"),
        Binding("p", "produce", "Produce", id="messages.produce"),
        Binding("r", "again", "Again", id="messages.again"),
        Binding("o", "export", "Export", id="messages.export"),
        Binding("u", "utc", "UTC", show=False, id="messages.utc"),
    ]
    DEFAULT_CSS = "MessagesView #progress { height: 1; background: $boost; padding: 0 1; }"

    def __init__(self, topic: str, where: str = "") -> None:
        super().__init__()
        self.topic = topic
        self.search = Search(Start.last(FIRST_RECORDS))
        self.shown = Format.AUTO
        self._where = where
        self._utc = False
        self.scan: Scan | None = None
        self.tail: Tail | None = None
        self._job: Worker[None] | None = None
        self._drawn: tuple[object, ...] = ()
        self._problem = ""
        # None without a schema registry.
        self.decoded: DecodedRows | None = None

    @property
    def path(self) -> str:
        return f"topics > {self.topic} > records"

    def body(self) -> ComposeResult:
        yield Static("", id="progress")
        yield Grid[Row](
            [
                *time_columns(lambda row: row.record.timestamp, lambda: self._utc),
                grid_column(columns.PARTITION),
                grid_column(columns.OFFSET),
                grid_column(columns.key_column(lambda: self.shown, lambda row: self._lines(row).key), 12),
                grid_column(columns.SIZE, drop=2),
                grid_column(columns.value_column(lambda: self.shown, lambda row: self._lines(row).value), flex=True),
            ],
            key=lambda row: (row.partition, row.record.offset),
            text=self._searched,
            title=clean(self.topic),
            can_mark=True,
            stays_first=True,
        )

    def _lines(self, row: Row) -> Lines:
        """The key and the value of a row as they are shown."""
        if self.decoded is not None and shows_decoded(self.shown):
            return self.decoded.lines(row)
        return Lines(line(row.record.key, self.shown), line(row.record.value, self.shown))

    def _searched(self, row: Row) -> str:
        if self.decoded is not None:
            return " ".join(self.decoded.lines(row))
        return f"{line(row.record.key, Format.TEXT)} {line(row.record.value, Format.TEXT)}"

    def connect(self) -> None:
        self._utc = self.console_app.settings.utc
        decoder = self.console_app.session.decoder
        self.decoded = None if decoder is None else DecodedRows(decoder, self.topic)
        where = self._where
        try:
            if where.startswith("p"):
                self.search = self.search._replace(partitions=parse_partitions(where[1:]))
            elif where:
                self.search = self.search._replace(start=parse_position(where))
        except ValueError as error:
            self.tell(str(error), is_error=True)
        self.grid.set_notice("reading ...")
        self.grid.focus()
        self.set_interval(TICK_S, self._tick)
        self._begin()

    # Reading.

    def _begin(self) -> None:
        """Read again from the requested position."""
        self._end_job()
        self.tail = self.scan = None
        self._problem = ""
        if self.decoded is not None:
            self.decoded.clear()
        self._job = self.run_worker(self._read(), exclusive=True, group="read", exit_on_error=False)

    def _end_job(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self._job = None

    async def _keys(self) -> list[TopicPartition]:
        every = await self.client.records.partitions(self.topic)
        wanted = self.search.partitions
        return [key for key in every if wanted is None or key.partition in wanted]

    def _new_scan(self, spans: Mapping[TopicPartition, Span], **more: Any) -> Scan:
        search, decoder = self.search, self.console_app.session.decoder
        return Scan(
            self.client,
            spans,
            search.wanted,
            isolation=search.isolation,
            match=match_of(decoder, self.topic, search.wanted),
            is_decoded=decoder is not None,
            **more,
        )

    async def _spans(self, start: Start) -> dict[TopicPartition, Span]:
        return await self.client.records.spans(await self._keys(), start, isolation=self.search.isolation)

    async def _read(self) -> None:
        if self.scan is None:
            try:
                spans = await self._spans(self.search.start)
            except ClientError as error:
                self._problem = str(error)
                return
            start = self.search.start
            newest = min(start.value, LAST_MAX) if start.kind is StartKind.LAST else None
            self.scan = self._new_scan(spans, newest=newest)
        await self.scan.run()

    async def _follow(self) -> None:
        if self.tail is None:
            try:
                spans = await self._spans(Start.latest())
            except ClientError as error:
                self._problem = str(error)
                return
            starts = {key: span.start for key, span in spans.items()}
            search, decoder = self.search, self.console_app.session.decoder
            self.tail = Tail(
                self.client,
                starts,
                search.wanted,
                isolation=search.isolation,
                match=match_of(decoder, self.topic, search.wanted),
                is_decoded=decoder is not None,
            )
        await self.tail.run()

    def on_unmount(self) -> None:
        super().on_unmount()
        self._end_job()

    # Showing.

    def _tick(self) -> None:
        """Show what changed since the last tick, if anything."""
        if not self.is_active:
            return
        if self.decoded is not None and self.decoded.may_load:
            self.run_worker(self._load(self.decoded), group="schemas", exit_on_error=False)
        notice = "" if self.decoded is None else self.decoded.notice
        if self.tail is not None:
            drawn: tuple[object, ...] = (
                self.tail,
                self.tail.seen,
                self.tail.matches,
                self.tail.is_running,
                self.tail.error,
                notice,
            )
            if drawn != self._drawn:
                is_new = self._drawn[:1] != drawn[:1] or self._drawn[2:3] != drawn[2:3]
                self._drawn = drawn
                if is_new:
                    self.grid.set_rows(reversed(self.tail.ring))
                self._show_tail(self.tail)
        elif self.scan is not None:
            scan = self.scan
            drawn = (scan, scan.records, scan.matches, scan.state, len(scan.rows), notice)
            if drawn != self._drawn or scan.state is State.RUNNING:
                if drawn[2:3] + drawn[4:5] != self._drawn[2:3] + self._drawn[4:5] or drawn[:1] != self._drawn[:1]:
                    self.grid.set_rows(scan.shown())
                    self._prepare()
                self._drawn = drawn
                self._show_scan(scan)
        elif self._problem and self._drawn != (self._problem,):
            self._drawn = (self._problem,)
            self._say(Text(clean(self._problem), "bold red"))
            self.grid.set_notice(clean(self._problem))

    def _say(self, text: Text) -> None:
        text.truncate(max(10, self.size.width - 2), overflow="ellipsis")
        self.query_one("#progress", Static).update(text)
        self.refresh_bindings()

    async def _load(self, decoded: DecodedRows) -> None:
        """Ask for the schemas of what is shown, and show it again."""
        await decoded.load()
        self.grid.refresh()

    def _prepare(self) -> None:
        if self.decoded is not None:
            rows = list(self.grid.rows)
            self.run_worker(self.decoded.prepare(rows), exclusive=True, group="lines", exit_on_error=False)

    def _tell_about(self, text: Text, rate: str = "") -> None:
        """Add to the progress what is read, and a registry that does not answer."""
        text.append(f"{rate} · {clean(self.search.about)}", "bright_black")
        if self.decoded is not None and self.decoded.notice:
            text.append(f" · shown as bytes, no answer of the schema registry: {clean(self.decoded.notice)}", "yellow")

    def _show_scan(self, scan: Scan) -> None:
        text = Text()
        style = {State.FAILED: "bold red", State.DONE: "green", State.RUNNING: "cyan"}.get(scan.state, "yellow")
        text.append(scan.state.value, style)
        if scan.state is State.FAILED:
            text.append(f": {clean(scan.error)}", "red")
        rate = scan.records / scan.elapsed_s if scan.elapsed_s > 0 else 0.0
        text.append(
            f" · {percent(scan.offsets_done, scan.offsets_total)} of {count(scan.offsets_total)} offsets"
            f" · {count(scan.found)} found"
        )
        if scan.lost:
            text.append(f" · {count(scan.lost)} deleted meanwhile", "yellow")
        if scan.damage:
            text.append(f" · {plural(len(scan.damage), 'damaged batch', 'damaged batches')}", "bold red")
        self._tell_about(text, f" · {short(rate)}/s")
        self._say(text)
        self.grid.set_notice("nothing found" if scan.state is not State.RUNNING else "reading ...")

    def _show_tail(self, tail: Tail) -> None:
        text = Text()
        text.append("live" if tail.is_running else "stopped", "bold green" if tail.is_running else "yellow")
        if tail.error:
            text.append(f": {clean(tail.error)}", "bold red")
        text.append(f" · {count(tail.seen)} seen")
        if not self.search.wanted.is_empty:
            text.append(f" · {count(tail.matches)} found")
        text.append(f" · {count(len(tail.ring))} kept")
        text.append(f" · {count(tail.dropped)} dropped", "yellow" if tail.dropped else "")
        self._tell_about(text)
        self._say(text)
        self.grid.set_notice("waiting for records ...")

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stop":
            return self.tail is not None or (self.scan is not None and self.scan.state is not State.DONE)
        return super().check_action(action, parameters)

    @work
    async def action_search(self) -> None:
        values = await self.app.push_screen_wait(FormDialog(search_form(self.topic, self.search)))
        if values is None:
            return
        self.search = search_of(values)
        if self.search.start.kind is StartKind.LATEST:
            self.action_tail()
        else:
            self._begin()

    def action_refresh(self) -> None:
        super().action_refresh()
        self._begin()

    def action_stop(self) -> None:
        """Stop the reading, or resume it."""
        if self._job is not None and self._job.is_running:
            self._end_job()
        elif self.tail is not None:
            self._job = self.run_worker(self._follow(), exclusive=True, group="read", exit_on_error=False)
        elif self.scan is not None:
            if self.scan.state is State.PAUSED:
                self.scan.forget_rows()
            self._job = self.run_worker(self._read(), exclusive=True, group="read", exit_on_error=False)

    def action_tail(self) -> None:
        if self.tail is not None:
            self._begin()
            return
        self._end_job()
        self.scan = None
        self.grid.set_rows(())
        self._job = self.run_worker(self._follow(), exclusive=True, group="read", exit_on_error=False)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_describe()

    def action_describe(self) -> None:
        from admin_tui.dialogs.record import RecordDialog

        self.app.push_screen(RecordDialog(self.grid, self.topic, self._utc, self.shown, self.decoded))

    def action_format(self) -> None:
        self.shown = self.shown.next()
        self.grid.refresh()
        self.tell(f"shown as {self.shown.value}")

    def action_utc(self) -> None:
        self._utc = not self._utc
        self.grid.refresh()

    @work
    async def action_produce(self) -> None:
        try:
            partitions = len(await self.client.records.partitions(self.topic))
        except ClientError as error:
            self.tell(str(error), is_error=True)
            return
        self.act(
            lambda values: plan_produce(self.client, self.command, self.topic, values),
            form=produce_form(self.topic, partitions),
            then=self._after_produce,
        )

    def action_again(self) -> None:
        records = [row.record for row in self.grid.chosen]
        if not records:
            return
        self.act(
            lambda values: plan_reproduce(self.client, self.command, records, values),
            form=reproduce_form(self.topic, len(records)),
            then=self._after_produce,
        )

    def _after_produce(self) -> None:
        if self.tail is None:
            self._begin()

    @work
    async def action_export(self) -> None:
        from admin_tui.dialogs.export import ExportDialog, export_form, write_rows

        values: Mapping[str, Any] | None = await self.app.push_screen_wait(FormDialog(export_form(self.topic)))
        if values is None:
            return
        try:
            if values["what"] == "shown":
                rows = self.grid.chosen if self.grid.marks else list(self.grid.view)
                self.tell(await asyncio.to_thread(write_rows, values["path"], self.topic, rows, json_line))
                return
            spans = await self._spans(self.search.start)
        except OSError as error:
            self.tell(f"{values['path']}: {error.strerror}", is_error=True)
            return
        except ClientError as error:
            self.tell(str(error), is_error=True)
            return
        said = await self.app.push_screen_wait(
            ExportDialog(values["path"], lambda take: self._new_scan(spans, take=take), json_line)
        )
        if said:
            self.tell(said)
