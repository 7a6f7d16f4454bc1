"""Medians, ratios per pair, the table, and where the numbers came from."""

import json
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from bench.figures import FIGURES, FLOOR, OURS, PEER, Figure, Row
from bench.provenance import machine

# Runs of one workload: side -> metrics of each repeat, in the order they were taken.
Runs = Mapping[str, Sequence[Mapping[str, float]]]
SIDES = (OURS, PEER, FLOOR)
GENERATOR_LIMIT = 0.95  # share of a core; a generator that uses more is named as the limit
COLD_SHARE = 0.01  # of the bytes that were consumed: more from the disk than this, and they were not in the page cache


def median_of(runs: Runs, side: str, metric: str) -> float | None:
    """Median over the repeats, or None where that side was not measured."""
    values = [run[metric] for run in runs.get(side, ()) if metric in run]
    return statistics.median(values) if values else None


def pair_ratios(runs: Runs, metric: str, side: str) -> list[float]:
    """ours / side for each pair that was taken in turn."""
    pairs = zip(runs.get(OURS, ()), runs.get(side, ()), strict=False)
    return [ours[metric] / other[metric] for ours, other in pairs if metric in ours and other.get(metric)]


def rows(results: Mapping[str, Runs], words: Mapping[str, str]) -> list[Row]:
    """One row per figure whose workload ran; `words` fill the placeholders of the texts."""
    out = []
    for figure in FIGURES:
        runs = results.get(figure.workload, {})
        medians = {side: median_of(runs, side, figure.metric) for side in SIDES}
        if any(value is not None for value in medians.values()):
            named = replace(figure, what=figure.what.format_map(words))
            out.append(Row(named, medians[OURS], medians[PEER], medians[FLOOR], "; ".join(notes(figure, runs))))
    return out


def notes(figure: Figure, runs: Runs) -> list[str]:
    """What a reader must know beside the medians: spread of the pairs, a generator that was the limit, cold reads."""
    out = []
    for side in (PEER, FLOOR):
        if ratios := pair_ratios(runs, figure.metric, side):
            out.append(f"ours/{side} {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
    for side in SIDES:
        share = median_of(runs, side, "generator_share")
        if figure.unit in ("/s", "MB/s") and share is not None and share >= GENERATOR_LIMIT:
            out.append(f"{side}: the generator was the limit")
        if figure.workload == "consume" and (median_of(runs, side, "disk_read_share") or 0) > COLD_SHARE:
            out.append(f"{side}: reads were cold")
        if median_of(runs, side, "negative_samples"):
            out.append(f"{side}: negative latencies, see the JSON")
    return out


def table(lines: Sequence[Row]) -> str:
    """what | target | ours | peer | floor | verdict, in aligned columns, each row's notes below it."""
    header = ("what", "target", OURS, PEER, FLOOR, "verdict")
    cells = [
        (
            f"{row.figure.what} ({row.figure.unit})",
            row.figure.target(),
            *(number(value, row.figure.digits) for value in (row.ours, row.peer, row.floor)),
            row.verdict(),
        )
        for row in lines
    ]
    widths = [max(len(line[column]) for line in [header, *cells]) for column in range(len(header))]
    out = []
    for row, line in zip([None, *lines], [header, *cells], strict=True):
        padded = [
            text.rjust(width) if 2 <= column <= 4 else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append(" | ".join(padded).rstrip())
        if row is None:
            out.append("-+-".join("-" * width for width in widths))
        elif row.note:
            out.append(f"    {row.note}")
    return "\n".join(out)


def number(value: float | None, digits: int) -> str:
    """A median as text; nothing where there is none."""
    return "" if value is None else f"{value:,.{digits}f}"


def provenance(versions: Mapping[str, str]) -> dict[str, str]:
    """Where the numbers came from: machine, kernel, versions, revision, exact command."""
    command = shlex.join([Path(sys.executable).name, "-m", "bench.datapath", *sys.argv[1:]])
    return {**machine(), "command": command, **versions}


def document(origin: Mapping[str, str], results: Mapping[str, Runs], lines: Sequence[Row]) -> str:
    """Everything as JSON: provenance, each repeat's metrics, and the table's rows."""
    table_rows = [{**asdict(row), "verdict": row.verdict()} for row in lines]
    return json.dumps({"provenance": origin, "runs": results, "table": table_rows}, indent=1) + "\n"
