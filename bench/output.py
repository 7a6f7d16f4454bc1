"""The output of a run: tables on the terminal, the JSON document, the HTML report."""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench.measuring import perf, provenance
from bench.measuring.perf import Counted
from bench.modes.base import Outcome
from bench.report import columns, result
from bench.report.html import page
from bench.report.measured import pairs_of, workload_pairs_of
from bench.report.metrics import describe
from bench.report.metrics import text as number
from bench.report.result import Document, Profile, ProfileRow, ResultError, Run, TargetInfo, WorkloadInfo
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.window.engine import Measured
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import print_error

__all__ = ["ResultError", "report", "tell"]

# Figures that are compared if targets were measured alternately.
RATIOS = (
    "transactions_per_s", "starts_per_s", "records_per_s", "mb_per_s", "consumed_mb_per_s",
    "cpu_s_per_gb", "cpu_us_per_request", "cpu_s_per_k_transactions",
    "p50_ms", "p99_ms", "p999_ms", "e2e_p99_ms", "commit_p99_ms", "rss_mb", "start_s", "start_cpu_s", "recovery_s",
    "idle_connection_kb", "idle_mb", "through_mb", "offsets_loaded_s",
    "first_write_s", "first_fetch_s", "all_partitions_s",
    "stall_max_ms", "stall_p50_ms", "drain_s",
    "input_mb_per_s", "compaction_cpu_s_per_gb", "p99_to_alone", "left_mb", "syncs_per_s", "records_per_sync",
    "bytes_per_producer", "gap_p50_ms", "move_mb_per_s",
)  # fmt: skip


def check_writable(options: argparse.Namespace) -> None:
    """Check that the requested files can be written, before hours of measuring. Raises OSError."""
    for path in filter(None, (options.json_file, options.html)):
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        path.open("a").close()
        if not existed:
            path.unlink()


def tell(
    options: argparse.Namespace,
    files: Sequence[str],
    workloads: Sequence[Workload],
    specs: Sequence[TargetSpec],
    outcome: Outcome,
) -> None:
    """Print the results and write the requested files."""
    document = document_of(options.mode, workload_info(files, workloads), specs, outcome)
    if options.as_json:
        print(document.text(1))
    else:
        tell_people(document, outcome)
    for failure in document.failures:
        if outcome.unreached is not None:
            print_error("broker-bench", outcome.unreached.told, as_json=options.as_json)
        elif options.as_json:
            print_error("broker-bench", ClientError(Failure.REFUSED, failure), as_json=True)
        else:
            print(f"broker-bench: failed: {failure}", file=sys.stderr)
    if options.json_file is not None:
        result.write(document, options.json_file)
    if options.html is not None:
        options.html.write_text(page.render([(document.workload.name, document)]))


def tell_people(document: Document, outcome: Outcome) -> None:
    """Print the results as tables."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for measured in outcome.runs:
        if not measured.failed and measured.result.seconds and not measured.result.starts:
            lines(console, measured)
    tables = Console()
    if any(name in run.figures for run in document.runs for name in columns.SPENT):
        tables.print(columns.spending_table(document.runs))
    if document.profiles:
        tables.print(columns.profiles_table(document.profiles))
    if document.pairs:
        tables.print(columns.pairs_table(document.pairs))
    for measured, run in zip(outcome.runs, document.runs, strict=True):
        if measured.extra and not run.failed:
            reported = ", ".join(
                f"{describe(name).label} {number(name, value)} {describe(name).unit}".rstrip()
                for name, value in measured.extra.items()
            )
            console.print(f"{result.title(run)}: {reported}")
        for verdict in run.verdicts:
            console.print(f"{result.title(run)}: {verdict}")
    for warm_up in document.warm_ups:
        console.print(columns.warm_up_line(warm_up))
    for note in outcome.notes:
        console.print(note)


def lines(console: Console, measured: Measured) -> None:
    """Print one window in the format of Kafka's own performance tools."""
    console.print(f"# {measured.target} {measured.label} pair {measured.pair + 1}".replace("  ", " "))
    found = measured.result
    if measured.consuming:
        console.print(columns.CONSUMER_HEADER)
        console.print(
            columns.consumer_row(datetime.fromisoformat(measured.started), found.records, found.bytes, found.seconds)
        )
        return
    for line in columns.producer_lines(found.samples):
        console.print(line)
    console.print(columns.producer_total(found))
    if found.consumed_records:
        console.print(columns.CONSUMER_HEADER)
        started = datetime.fromisoformat(measured.started)
        console.print(
            columns.consumer_row(
                started, found.consumed_records, found.consumed_bytes, found.consumed_s or found.seconds
            )
        )


def workload_info(files: Sequence[str], workloads: Sequence[Workload]) -> WorkloadInfo:
    """Describe one workload, or several with their settings by name."""
    if not workloads:
        return WorkloadInfo("no workload", "")
    if len(workloads) == 1:
        return WorkloadInfo(workloads[0].name, files[0], workloads[0].settings())
    settings = {workload.name: workload.settings() for workload in workloads}
    return WorkloadInfo(", ".join(settings), ", ".join(files), settings)


def document_of(mode: str, workload: WorkloadInfo, specs: Sequence[TargetSpec], outcome: Outcome) -> Document:
    """Return the document that is written to the JSON file."""
    runs = [measured.run() for measured in outcome.runs]
    first, *others = specs
    pairs = [pair for other in others for pair in pairs_of(runs, first.name, other.name, RATIOS)]
    if outcome.workloads > 1 and runs:
        pairs += workload_pairs_of(runs, [spec.name for spec in specs], RATIOS)
    versions = outcome.versions
    return Document(
        mode,
        provenance.collect(["broker-bench", *sys.argv[1:]], versions, runs[0].started if runs else None),
        workload,
        {spec.name: TargetInfo(spec.kind, versions.get(spec.name, ""), spec.describe()) for spec in specs},
        runs,
        pairs,
        outcome.error or (None if runs else "nothing was measured"),
        [profile_of(name, counted, seconds, runs) for name, (counted, seconds) in outcome.profiles.items()],
        [warming.result() for warming in outcome.warm_ups],
        outcome.notes,
    )


def profile_of(target: str, counted: Counted, seconds: float, runs: Sequence[Run]) -> Profile:
    """Return a profile's shares, and each share of the median CPU per GB of the target's measured windows."""
    costs = [run.figures["cpu_s_per_gb"] for run in runs if run.target == target and "cpu_s_per_gb" in run.figures]
    cost = statistics.median(costs) if costs else None

    def row(function: str, module: str, share: float) -> ProfileRow:
        return ProfileRow(function, module, share, None if cost is None else share * cost)

    reported, rest = perf.top(counted.functions.items())
    functions = [row(function, module, share) for (module, function), share in reported]
    modules = [row("", module, share) for module, share in counted.modules().items()]
    return Profile(target, counted.event, counted.samples, seconds, functions, modules[: perf.TOP], rest, counted.notes)


def report(files: Sequence[Path], html: Path, *, as_json: bool) -> int:
    """Write a report of results side by side, and print its path. Raises ResultError."""
    page.write_report(files, html)
    print(json.dumps({"file": str(html)}) if as_json else html)
    return 0
