"""The current progress of a run: a table that changes on a terminal, else a line every five seconds, from the first
figures on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.measures import milliseconds
from broker_cy.reporting.numbers import precise
from broker_cy.reporting.rich_tables import rich_table
from loadgen.figures.totals import Operation, Second, Totals, percentile_ms

LINE_S = 5.0  # between plain lines
# Operations that are shown; a terminal has no room for more.
ROWS_MAX = 20


class Progress:
    """Shows the totals as they grow; a context manager. Call `update` once a second and `phase` between parts."""

    def __init__(
        self,
        title: str,
        seconds: float,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds` is the expected duration of the run; `clock` paces the plain lines."""
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._title, self._seconds, self._clock = title, seconds, clock
        # The table has no separate thread, because waiting for a thread would delay the load.
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        )
        self._line_s: float | None = None

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def phase(self, text: str) -> None:
        """Show the current step when nothing is measured, such as creating topics or verifying."""
        if self._live is not None:
            self._live.update(Text(f"{self._title}: {text}"), refresh=True)
        else:
            self._print(text)

    def update(self, totals: Totals, elapsed_s: float) -> None:
        """Show the last second that all workers have reported."""
        second = newest(totals)
        if self._live is not None:
            self._live.update(Group(Text(self._head(totals, elapsed_s)), self._table(totals, second)), refresh=True)
            return
        now_s = self._clock()
        if second.operations and (self._line_s is None or now_s - self._line_s >= LINE_S):
            self._line_s = now_s
            operations = "; ".join(_words(name, each) for name, each in _busiest(second))
            self._print(f"{self._head(totals, elapsed_s)}; {operations}")

    def _print(self, text: str) -> None:
        self._console.print(f"{self._title}: {text}", markup=False, soft_wrap=True)

    def _head(self, totals: Totals, elapsed_s: float) -> str:
        lost = sum(each.lost is not None for each in totals.workers.values())
        words = [
            f"{elapsed_s:,.0f} s, {max(0.0, self._seconds - elapsed_s):,.0f} s left",
            f"workers {len(totals.workers) - lost}" + (f" ({lost} lost)" if lost else ""),
        ]
        if (lateness_ms := percentile_ms(totals.lateness, 99)) is not None:
            words.append(f"lateness p99 {precise(lateness_ms)} ms")
        failures = sum(each.failures for each in totals.operations.values())
        words.append(f"errors {failures:,}")
        return ", ".join(words)

    def _table(self, totals: Totals, second: Second) -> Table:
        columns: list[Column[tuple[str, Operation]]] = [
            Column("operation", "operation", lambda row: row[0]),
            Column("rate", "/s", lambda row: row[1].requests, Kind.COUNT),
            *(_latency(percent, head) for percent, head in ((50, "p50 ms"), (99, "p99 ms"), (100, "max ms"))),
            _failures("errors/s", lambda row: row[1]),
            _failures("errors so far", lambda row: totals.operations.get(row[0], row[1])),
        ]
        further = len(second.operations) - ROWS_MAX
        notes = [f"and {further} further operations"] if further > 0 else []
        return rich_table(self._title, columns, _busiest(second), notes=notes)


def _latency(percent: float, head: str) -> Column[tuple[str, Operation]]:
    return milliseconds(head, head, lambda row: percentile_ms(row[1].latency, percent))


def _failures(head: str, of: Callable[[tuple[str, Operation]], Operation]) -> Column[tuple[str, Operation]]:
    """Return a column of failures, which is empty for operations without any."""
    return Column(head, head, of, Kind.COUNT, text=lambda row: f"{of(row).failures:,}" if of(row).failures else "")


def newest(totals: Totals) -> Second:
    """Return the last second that every remaining worker has reported; without one, the last second of all."""
    expected = sum(each.lost is None for each in totals.workers.values())
    # Only the last few: a worker whose reports are later than this is about to be lost.
    last = sorted(totals.series)[-5:]
    for second in reversed(last):
        if totals.series[second].workers >= expected:
            return totals.series[second]
    return totals.series[last[-1]] if last else Second()


def _busiest(second: Second) -> list[tuple[str, Operation]]:
    ordered = sorted(second.operations.items(), key=lambda each: -(each[1].requests + each[1].failures))
    return ordered[:ROWS_MAX]


def _percentile(operation: Operation, percent: float) -> str:
    found = percentile_ms(operation.latency, percent)
    return precise(found)


def _words(name: str, operation: Operation) -> str:
    text = f"{name} {operation.requests:,}/s"
    if operation.latency.count:
        text += f" p99 {_percentile(operation, 99)} ms"
    return text + (f" errors {operation.failures:,}/s" if operation.failures else "")
