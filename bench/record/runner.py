"""Runs the measurements of the plan, one command after the other, within a time limit."""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measuring import provenance
from bench.record.plan import PROGRAMS, Measurement
from bench.report import result
from bench.report.result import Document, Run, Series, TargetInfo, WorkloadInfo
from broker_cy.launch.processes import die_with_parent

OVERDUE = 6  # times the expected duration of a measurement, after which it hangs
DIGITS = 6  # significant digits of recorded figures


def path_of(directory: Path, measurement: Measurement) -> Path:
    """Return the path of a measurement's result."""
    return directory / f"{measurement.name}.json"


def is_recorded(directory: Path, measurement: Measurement) -> bool:
    """Return whether a result of this revision and this command without a failed run exists."""
    try:
        found = result.read(path_of(directory, measurement))
    except result.ResultError:
        return False
    known = found.provenance.get("revision"), found.provenance.get("command")
    return known == (provenance.machine()["revision"], measurement.text) and not found.failures


def record(measurements: Sequence[Measurement], directory: Path, budget_s: float, again: bool) -> bool:
    """Perform the measurements that are not recorded yet; prints those that are left out because they would exceed the
    budget.

    Returns whether everything is recorded now.
    """
    begun = time.monotonic()
    complete = True
    for measurement in measurements:
        left_s = budget_s - (time.monotonic() - begun)
        if not again and is_recorded(directory, measurement):
            print(f"{measurement.name}: already recorded", flush=True)
            continue
        if measurement.seconds > left_s:
            print(f"{measurement.name}: left out: takes {measurement.seconds:.0f} s, {left_s:.0f} s remain", flush=True)
            complete = False
            continue
        started = time.monotonic()
        failed = measure(measurement, directory)
        took_s = time.monotonic() - started
        print(f"{measurement.name}: {failed or 'recorded'} after {took_s:.0f} s", flush=True)
        complete = complete and failed is None
    return complete


def measure(measurement: Measurement, directory: Path) -> str | None:
    """Run one command and save its result; returns why it failed, or None."""
    with tempfile.TemporaryDirectory(prefix="broker-bench-record-") as name:
        out = Path(name) / "out.json"
        try:
            done = subprocess.run(
                [*die_with_parent(argv(measurement)), "--json-file", str(out)],
                capture_output=True,
                text=True,
                timeout=measurement.seconds * OVERDUE + 60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "failed: it did not end within its time limit"
        if not out.exists() or done.returncode:
            return f"failed: exit code {done.returncode}: {' | '.join(done.stderr.splitlines()[-3:])}"
        found = figures(measurement, out) if measurement.command[0] == "python" else result.read(out)
    kept = dataclasses.replace(found, provenance={**found.provenance, "command": measurement.text})
    directory.mkdir(parents=True, exist_ok=True)
    result.write(slim(kept), path_of(directory, measurement), indent=None)
    return None


def argv(measurement: Measurement) -> list[str]:
    """Return the command with this interpreter."""
    program, *rest = measurement.command
    if program == "broker-bench":
        return [sys.executable, "-m", "bench.cli", *rest]
    assert rest[1] in PROGRAMS, rest
    return [sys.executable, *rest]


def figures(measurement: Measurement, path: Path) -> Document:
    """Return the figures of a program that is not a mode of broker-bench: a document with one run, or with one for each
    value of a figure that was measured repeatedly.
    """
    found = {
        name: value if isinstance(value, list) else [value] for name, value in json.loads(path.read_text()).items()
    }
    origin = provenance.collect(measurement.command, {})
    runs = [
        Run(
            "ours",
            origin["started"],
            pair=number,
            figures={name: float(values[number]) for name, values in found.items() if number < len(values)},
        )
        for number in range(max(map(len, found.values()), default=1))
    ]
    return Document(
        measurement.command[2],
        origin,
        WorkloadInfo(measurement.command[2], ""),
        {"ours": TargetInfo("ours", "")},
        runs,
    )


def slim(document: Document) -> Document:
    """Return the document without series and histograms: it is sufficient for tables, and small enough to commit."""
    runs = [
        dataclasses.replace(
            run,
            figures={name: _short(value) for name, value in run.figures.items()},
            series=Series(),
            latency=None,
            lateness=None,
            end_to_end=None,
            commit=None,
        )
        for run in document.runs
    ]
    warm_ups = [
        dataclasses.replace(each, values=[_short(value) for value in each.values]) for each in document.warm_ups
    ]
    return dataclasses.replace(document, runs=runs, warm_ups=warm_ups, profiles=())


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
