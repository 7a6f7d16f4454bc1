"""Results on a terminal as tables, or as lines of JSON."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Queue
from typing import IO, Any, Final, Generic, TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text as RichText

from broker_cy.reporting.foreign_text import escaped
from broker_sql.client import Entity, Printed, Rows
from broker_sql.terminal.shown import Table, cell, shown, to_json

T = TypeVar("T")

QUEUED_MAX: Final = 10_000
"""Rows that wait for the terminal; the server's answer waits behind them."""
BATCH: Final = 200
"""Rows of one table: its columns are as wide as these rows need."""
TICK_S: Final = 0.2
RATE_S: Final = 5.0
"""The time that a rate is the mean of."""
WIDTH_MIN: Final = 6
_END: Final = object()


class Reader(Generic[T]):
    """Reads items in a thread of its own, so that the terminal can show rates and see Ctrl-C while none comes."""

    def __init__(self, items: Iterable[T], close: Callable[[], None]) -> None:
        self._items = items
        self._close = close
        self._queue: Queue[Any] = Queue(QUEUED_MAX)
        self._error: Exception | None = None
        self._is_stopped = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for item in self._items:
                self._put(item)
                if self._is_stopped:
                    return
        except Exception as error:  # raised again in the thread of the terminal
            self._error = error
        finally:
            self._put(_END)

    def _put(self, item: object) -> None:
        while not self._is_stopped:
            try:
                self._queue.put(item, timeout=TICK_S)
            except Exception:  # full: the terminal may have stopped reading meanwhile
                continue
            return

    def batches(self) -> Iterator[list[T]]:
        """Yield items that have come, at least every TICK_S; an empty list if none has. Raises what reading raised."""
        while True:
            batch: list[T] = []
            try:
                item = self._queue.get(timeout=TICK_S)
                while item is not _END:
                    batch.append(item)
                    if len(batch) >= BATCH:
                        break
                    item = self._queue.get_nowait()
                else:
                    yield batch
                    if self._error is not None:
                        raise self._error
                    return
            except Empty:
                pass
            yield batch

    def stop(self) -> None:
        """End the thread, and with it the answer of the server."""
        self._is_stopped = True
        self._close()
        self._thread.join()


class Rate:
    """Items a second, over the last RATE_S."""

    def __init__(self, now: float) -> None:
        self._start = now
        self._counts: deque[tuple[float, int]] = deque()
        self.total = 0

    def add(self, count: int, now: float) -> None:
        self.total += count
        if count:
            self._counts.append((now, count))
        while self._counts and self._counts[0][0] < now - RATE_S:
            self._counts.popleft()

    def per_second(self, now: float) -> float:
        span = min(max(now - self._start, TICK_S), RATE_S)
        return sum(count for _, count in self._counts) / span

    def text(self, now: float) -> str:
        return f"{self.total:,} row{'' if self.total == 1 else 's'}, {self.per_second(now):,.0f} rows/s"


class TextOutput:
    """Tables for people. `close_query` ends a query at the server when the user ends it here."""

    def __init__(
        self, console: Console, close_query: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ):
        self._console = console
        self._close_query = close_query
        self._clock = clock

    def note(self, text: str) -> None:
        self._console.print(RichText(escaped(text), style="dim"))

    def entity(self, entity: Entity) -> None:
        for each in shown(entity):
            if isinstance(each, Table):
                self._table(each)
            else:
                self._console.print(RichText(_safe(each.text), style="yellow" if each.is_warning else ""))

    def _table(self, table: Table) -> None:
        if not table.rows:
            self._console.print(RichText(f"no {table.columns[0].lower()}", style="dim"))
            return
        made = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        if table.about:
            self._console.print(RichText(table.about))
        for title in table.columns:
            made.add_column(RichText(title), overflow="fold")
        for row in table.rows:
            made.add_row(*(RichText(_safe(each)) for each in row))
        self._console.print(made)

    def rows(self, rows: Rows, is_push: bool) -> None:
        """Show rows while they come; Ctrl-C ends the query."""
        reader: Reader[list[Any]] = Reader(rows, rows.close)
        rate = Rate(self._clock())
        widths: list[int] = []
        footer = Live(console=self._console, transient=True, auto_refresh=False)
        is_ended = False
        try:
            with footer:
                for batch in reader.batches():
                    now = self._clock()
                    rate.add(len(batch), now)
                    texts = [[_safe(cell(value)) for value in row] for row in batch]
                    if batch:
                        is_first = not widths
                        widths = widths or self._widths(rows.columns, texts)
                        self._batch(rows.columns if is_first else None, widths, texts)
                    if is_push:
                        footer.update(RichText(f"{rate.text(now)}   Ctrl-C ends the query", style="dim"), refresh=True)
        except KeyboardInterrupt:
            is_ended = True
            if rows.query_id:
                self._close_query(rows.query_id)
        finally:
            reader.stop()
        self.note(rate.text(self._clock()) + (", ended" if is_ended else "") if is_push else _count(rate.total))

    def _widths(self, columns: list[tuple[str, str]], rows: list[list[str]]) -> list[int]:
        """Return the widths of columns: what they need, or an even share of the terminal if that is too much."""
        needed = [
            max([cell_len(name), *(max((cell_len(part) for part in row[at].split("\n")), default=0) for row in rows)])
            for at, (name, _) in enumerate(columns)
        ]
        left = self._console.width - 2 * (len(columns) - 1)
        widths = [0] * len(columns)
        for done, at in enumerate(sorted(range(len(columns)), key=lambda at: needed[at])):
            widths[at] = max(min(needed[at], left // (len(columns) - done)), min(WIDTH_MIN, needed[at]), 1)
            left -= widths[at]
        return widths

    def _batch(self, columns: list[tuple[str, str]] | None, widths: list[int], rows: list[list[str]]) -> None:
        # The box has a space between columns, also where it has no head: later rows stand below the first ones.
        made = RichTable(box=box.SIMPLE_HEAD, show_header=columns is not None, show_edge=False)
        made.padding, made.pad_edge = (0, 1), False
        for at, width in enumerate(widths):
            title = RichText(columns[at][0]) if columns else ""
            made.add_column(title, width=width + (at + 1 < len(widths)), overflow="fold")
        for row in rows:
            made.add_row(*(RichText(each, style="dim" if each == "null" else "") for each in row))
        self._console.print(made)

    def printed(self, printed: Printed) -> None:
        """Show lines of PRINT; Ctrl-C ends it."""
        reader: Reader[str] = Reader(printed, printed.close)
        try:
            for batch in reader.batches():
                for line in batch:
                    self._console.print(RichText(_safe(line)))
        except KeyboardInterrupt:
            self.note("ended")
        finally:
            reader.stop()


class JsonOutput:
    """One line of JSON for each entity and each row. Rows are objects by the names of columns."""

    def __init__(self, close_query: Callable[[str], None], file: IO[str] | None = None) -> None:
        self._close_query = close_query
        self._file = file or sys.stdout

    def note(self, text: str) -> None:
        """Say nothing: the state of the session is no result."""

    def entity(self, entity: Entity) -> None:
        self._line(entity)

    def rows(self, rows: Rows, is_push: bool) -> None:
        names = [name for name, _ in rows.columns]
        try:
            for row in rows:
                self._line(dict(zip(names, row, strict=True)))
        except KeyboardInterrupt:
            if is_push and rows.query_id:
                self._close_query(rows.query_id)

    def printed(self, printed: Printed) -> None:
        try:
            for line in printed:
                self._line(line)
        except KeyboardInterrupt:
            return

    def _line(self, value: Any) -> None:
        print(to_json(value), file=self._file, flush=True)


def _safe(text: str) -> str:
    """Return a text of a server without characters that steer a terminal; lines stay lines."""
    return "\n".join(escaped(line) for line in text.split("\n"))


def _count(total: int) -> str:
    return f"{total:,} row{'' if total == 1 else 's'}"
