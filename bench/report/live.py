"""The terminal view while a benchmark runs: phase, rate, p99 and the broker's resource usage; plain lines if there is
no terminal."""

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bench.drivers.base import SAMPLE_S, Sample
from bench.measuring import proc
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.rich_tables import rich_table

MB = 1e6
LINE_S = 5.0  # between plain lines
HEADS = ("target", "s", "records/s", "MB/s", "consumed MB/s", "p50 ms", "p99 ms", "broker cores", "RSS MB", "errors")


def _column(at: int, head: str) -> Column[tuple[str, ...]]:
    return Column(head, head, lambda row: row[at], Kind.COUNT if at else Kind.TEXT, text=lambda row: row[at])


COLUMNS = [_column(at, head) for at, head in enumerate(HEADS)]


class View:
    """Shows samples as they arrive; a context manager. `phase` sets the current activity."""

    def __init__(self, title: str, windows: int, stream: TextIO | None = None) -> None:
        self.console = Console(file=stream or sys.stderr)
        self.title = title
        self.windows = windows  # the expected number; 0: unknown
        self.done = 0
        self.text = ""
        self.rows: dict[str, tuple[str, ...]] = {}
        self.live = (
            Live(console=self.console, refresh_per_second=4, transient=True) if self.console.is_terminal else None
        )
        self.last_line = 0.0
        self.usage: dict[str, proc.Sampled] = {}

    def __enter__(self) -> "View":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.live is not None:
            self.live.stop()

    def phase(self, text: str) -> None:
        """Show the current activity."""
        self.text = text
        if self.live is not None:
            self.live.update(self.table())
        else:
            self.console.print(f"[{self.done}/{self.windows or '?'}] {text}", markup=False, highlight=False)

    def window_done(self) -> None:
        """Count a measured window."""
        self.done += 1

    def sample(self, target: str, sample: Sample, usage: proc.Sampled | None) -> None:
        """Show one interval of the running window."""
        share = 1 / SAMPLE_S
        cores = ""
        if usage is not None and (before := self.usage.get(target)) is not None and usage.at_s > before.at_s:
            spent = usage.cpu_s - before.cpu_s
            cores = f"{spent / (usage.at_s - before.at_s):.2f}" if spent >= 0 else ""
        if usage is not None:
            self.usage[target] = usage
        self.rows[target] = (
            target,
            f"{sample.t_s:,.1f}",
            f"{sample.records * share:,.0f}",
            f"{sample.bytes * share / MB:,.1f}",
            f"{sample.consumed_bytes * share / MB:,.1f}" if sample.consumed_bytes else "",
            f"{sample.latency.percentile(50) / 1e6:,.3f}" if sample.latency.count else "",
            f"{sample.latency.percentile(99) / 1e6:,.3f}" if sample.latency.count else "",
            cores,
            f"{usage.resident_bytes / MB:,.0f}" if usage else "",
            f"{sample.errors:,}" if sample.errors else "",
        )
        if self.live is not None:
            self.live.update(self.table())
        elif time.monotonic() - self.last_line >= LINE_S:
            self.last_line = time.monotonic()
            reported = zip(HEADS[1:], self.rows[target][1:], strict=True)
            text = "  ".join(f"{name} {value}" for name, value in reported if value)
            self.console.print(f"{target}: {text}", markup=False, highlight=False, soft_wrap=True)

    def table(self) -> Table:
        """Return a table of the latest sample of each target."""
        title = f"{self.title}   {self.done}/{self.windows or '?'}   {self.text}"
        return rich_table(title, COLUMNS, self.rows.values())
