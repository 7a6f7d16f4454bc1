"""`broker-analytics` and its measuring programs as child processes, for `bench.studies.analytics`."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measuring.process_tree import TreeWatch
from broker_cy.launch.processes import Child, ProcessError

MASTER = "local[2]"
_INGESTED = re.compile(r": ([\d,]+) records in \d+ batch")


@dataclass(frozen=True)
class Ran:
    """A finished command: its output, and the resources that it and all its descendants used."""

    printed: str
    seconds: float
    cpu_s: float
    peak_bytes: int


def analytics(directory: Path, *words: str, timeout_s: float) -> Ran:
    """Run `broker-analytics`. Raises ProcessError unless it ends with exit code 0."""
    return _run([*command(), *words], directory, "broker-analytics", timeout_s)


def command() -> list[str]:
    """Return the command for this interpreter: the installed one, else the module of a source tree."""
    installed = Path(sys.executable).parent / "broker-analytics"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "spark_analytics"]


def measured(directory: Path, part: str, *words: str, timeout_s: float) -> dict[str, Any]:
    """Run `python -m spark_analytics.measure PART` and return the JSON that it writes. Raises ProcessError."""
    out = directory / f"{part}.json"
    argv = [sys.executable, "-m", "spark_analytics.measure", part, *words, "--master", MASTER, "--json-file", str(out)]
    _run(argv, directory, f"measure-{part}", timeout_s)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def records_of(ran: Ran) -> int:
    """Return the number of records that an ingest reports. Raises ProcessError if it reports none."""
    if (found := _INGESTED.search(ran.printed)) is None:
        raise ProcessError(f"broker-analytics ingest printed no count: {ran.printed[-500:]}")
    return int(found[1].replace(",", ""))


def _run(argv: list[str], directory: Path, name: str, timeout_s: float) -> Ran:
    began_s = time.monotonic()
    child = Child(argv, directory, name)
    try:
        with TreeWatch(child.pid) as watch:
            code = child.wait(timeout_s)
            seconds = time.monotonic() - began_s
    finally:
        child.kill()
    if code != 0:
        raise ProcessError(f"{' '.join(argv)} ended with exit code {code}: {child.stdout()[-2000:]}{child.tail()}")
    return Ran(child.stdout(), seconds, watch.cpu_s, watch.peak_bytes)
