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
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from broker_cy.reporting.numbers import precise
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
        table = Table(title=self._title, title_justify="left")
        table.add_column("operation")
        for head in ("/s", "p50 ms", "p99 ms", "max ms", "errors/s", "errors so far"):
            table.add_column(head, justify="right")
        for name, each in _busiest(second):
            whole = totals.operations.get(name, each)
            latency = [_percentile(each, percent) for percent in (50, 99, 100)]
            table.add_row(
                escape(name), f"{each.requests:,}", *latency,
                f"{each.failures:,}" if each.failures else "", f"{whole.failures:,}" if whole.failures else "",
            )  # fmt: skip
        if len(second.operations) > ROWS_MAX:
            table.caption = f"and {len(second.operations) - ROWS_MAX} further operations"
        return table


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
