"""The summary of a run on a terminal."""

from __future__ import annotations

import sys
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from broker_cy.reporting.numbers import precise, share
from broker_cy.reporting.rich_tables import rich_table
from loadgen.command import DATA_WRONG, GENERATOR_LIMIT, GOOD, THRESHOLD_MISSED
from loadgen.report import tables
from loadgen.report.measured import OperationFigures
from loadgen.report.result import DEFECTS, Result

STYLES = {GOOD: "bold green", THRESHOLD_MISSED: "bold red", GENERATOR_LIMIT: "bold yellow", DATA_WRONG: "bold red"}
MIB = 1 << 20
# Defects and errors that are listed; the JSON has all.
LINES_MAX = 10
# The operation that kafka-producer-perf-test measures.
PRODUCE = "Produce"
# The number of columns of a terminal from which all figures of an operation are shown.
WIDE = 100


def show(result: Result, stream: TextIO | None = None) -> None:
    """Print figures, errors, the verification, and last the verdict, so that it does not scroll away."""
    console = Console(file=stream or sys.stdout, highlight=False)
    _search(console, result)
    console.print(_figures(result, console.width))
    produced = result.operations.get(PRODUCE)
    if produced is not None and produced.records and produced.latency is not None:
        console.print(perf_line(PRODUCE, produced), markup=False, soft_wrap=True)
    _errors(console, result)
    _workers(console, result)
    if result.thresholds:
        console.print(rich_table("Thresholds", tables.THRESHOLDS, result.thresholds))
    _verification(console, result)
    for note in result.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    if result.ended is not None:
        console.print(Text(f"{result.ended[:1].upper()}{result.ended[1:]}: these are the figures so far.", "yellow"))
    for finding in result.findings:
        console.print(f"- {finding}", markup=False, soft_wrap=True)
    console.print(Text(f"{result.headline} (exit code {result.exit_code})", STYLES[result.exit_code]))


def _search(console: Console, result: Result) -> None:
    for each in result.steps:
        state = f"bad: {each.why}" if each.why else "good"
        console.print(
            f"rate {each.rate:,.6g}/s: reached {each.reached:,.1f}/s, {precise(each.latency_ms)} ms, {state}",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    if result.steps:
        best = result.best
        text = "no rate met the bound" if best is None else f"the highest rate that met the bound: {best.rate:,.6g}/s"
        console.print(text)


def _figures(result: Result, width: int) -> Table:
    """Return the table of operations; on a narrow terminal without the less important columns."""
    known = {column.key: column for column in (*tables.OPERATIONS, *tables.LATENCIES)}
    keys = ["operation", "requests_per_s", "records_per_s", "failed", "p50_ms", "p99_ms", "max_ms"]
    if width >= WIDE:
        keys[3:4] = ["mb_per_s", "failed", "error_share"]
        keys[-1:] = ["p999_ms", "max_ms"]
    title = f"{result.scenario.get('name', '')}, {result.seconds:,.1f} s"
    return rich_table(title, [known[key] for key in keys], result.operations.items(), box=box.SIMPLE_HEAD)


def perf_line(name: str, each: OperationFigures) -> str:
    """Return the last line of kafka-producer-perf-test for an operation: MB is 2^20 bytes there."""
    found = each.latency
    assert found is not None
    seconds = each.records / each.records_per_s if each.records_per_s else 1.0
    return (
        f"{name}: {each.records} records, {each.records_per_s:.1f} records/sec "
        f"({each.bytes / seconds / MIB:.2f} MB/sec), {found.mean_ms:.2f} ms avg latency, {found.max_ms:.2f} ms max "
        f"latency, {found.p50_ms:.2f} ms 50th, {found.p95_ms:.2f} ms 95th, {found.p99_ms:.2f} ms 99th, "
        f"{found.p999_ms:.2f} ms 99.9th."
    )


def _errors(console: Console, result: Result) -> None:
    found = sorted(
        ((count, name, error) for name, each in result.operations.items() for error, count in each.errors.items()),
        reverse=True,
    )
    for count, name, error in found[:LINES_MAX]:
        console.print(f"error: {name}: {error}: {count:,}", markup=False, soft_wrap=True)
    if len(found) > LINES_MAX:
        console.print(f"and {len(found) - LINES_MAX} other errors")


def _workers(console: Console, result: Result) -> None:
    busiest = max((each.cpu_share for each in result.workers), default=0.0)
    words = [
        f"{len(result.workers)} workers" if len(result.workers) != 1 else "1 worker",
        f"busiest {busiest:.2f} cores",
    ]
    if result.lateness is not None:
        words.append(f"lateness p99 {precise(result.lateness.p99_ms)} ms")
    if result.hub_lag is not None:
        words.append(f"event loop lag p99 {precise(result.hub_lag.p99_ms)} ms")
    words.append(f"{share(result.queued_share)} of scheduled operations waited for a user")
    if result.unsent:
        words.append(f"{result.unsent:,} were never sent")
    console.print(f"generator: {', '.join(words)}", markup=False, soft_wrap=True)


def _verification(console: Console, result: Result) -> None:
    found = result.verification
    if found is None:
        return
    console.print(f"verification: {found.text} ({found.seconds:.1f} s)", markup=False, soft_wrap=True)
    lines = [
        f"  {DEFECTS.get(kind, kind)}: {example}"
        for each in found.partitions
        for kind, several in each.examples.items()
        for example in several
    ]
    lines += [f"  {each.topic}-{each.partition}: {note}" for each in found.partitions for note in each.notes]
    for line in lines[:LINES_MAX]:
        console.print(line, markup=False, soft_wrap=True)
    if len(lines) > LINES_MAX:
        console.print(f"  and {len(lines) - LINES_MAX} more")
