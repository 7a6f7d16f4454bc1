"""Our two tabs of locust's web page: figures by operation from the due time, and the evidence for or against the run.

Locust draws a table for each (`extended_tabs`, `extended_tables`) from rows that it finds in its own /stats/requests.
"""

from __future__ import annotations

from typing import Any

from bench.measuring.histogram import Histogram
from loadgen.figures.totals import NS_PER_MS, Operation, Totals, percentile_ms
from loadgen.report.result import Result

FIGURES, VERDICT = "broker-load", "broker-load-verdict"
TABS = [{"title": "Kafka figures", "key": FIGURES}, {"title": "Kafka verdict", "key": VERDICT}]
TABLES = [
    {
        "key": FIGURES,
        "structure": [
            {"key": "operation", "title": "Operation"},
            {"key": "requests", "title": "# Requests"},
            {"key": "rate", "title": "Requests/s"},
            {"key": "p50", "title": "p50 (ms)"},
            {"key": "p99", "title": "p99 (ms)"},
            {"key": "p999", "title": "p99.9 (ms)"},
            {"key": "highest", "title": "Max (ms)"},
            {"key": "service", "title": "p99 from sending (ms)"},
            {"key": "failures", "title": "# Failures"},
            {"key": "errors", "title": "Errors"},
        ],
    },
    {"key": VERDICT, "structure": [{"key": "figure", "title": "Figure"}, {"key": "value", "title": "Value"}]},
]


def stats_of(totals: Totals, seconds: float, result: Result | None, state: str) -> list[dict[str, Any]]:
    """Return the rows of both tabs. `state`: the current step of the run, or why there is no run."""
    return [
        {"key": FIGURES, "data": [_figures(name, each, seconds) for name, each in sorted(totals.operations.items())]},
        {"key": VERDICT, "data": [{"figure": name, "value": value} for name, value in _verdict(totals, result, state)]},
    ]


def _figures(name: str, operation: Operation, seconds: float) -> dict[str, Any]:
    latency = operation.latency
    return {
        "operation": name,
        "requests": operation.requests,
        "rate": round(operation.requests / max(1.0, seconds), 1),
        "p50": _ms(latency, 50),
        "p99": _ms(latency, 99),
        "p999": _ms(latency, 99.9),
        "highest": round(latency.highest / NS_PER_MS, 3),
        "service": _ms(operation.service, 99),
        "failures": operation.failures,
        "errors": ", ".join(f"{error} {count:,}" for error, count in sorted(operation.errors.items())),
    }


def _ms(histogram: Histogram, percent: float) -> float | None:
    found = percentile_ms(histogram, percent)
    return None if found is None else round(found, 3)


def _verdict(totals: Totals, result: Result | None, state: str) -> list[tuple[str, str]]:
    rows = [("Run", state)]
    if totals.lateness.count:
        rows.append(("Lateness of the generator, p99", f"{_ms(totals.lateness, 99)} ms"))
    if totals.hub_lag.count:
        rows.append(("Lag of the workers' event loops, p99", f"{_ms(totals.hub_lag, 99)} ms"))
    rows.append(("Operations that waited for a free user", f"{totals.queued:,}"))
    for worker in totals.workers.values():
        text = f"{worker.cpu_share:.0%} of a core" + (f"; lost: {worker.lost}" if worker.lost else "")
        rows.append((f"Worker {worker.index} ({worker.host})", text))
    rows += [(f"{name[:1].upper()}{name[1:]}", f"{count:,}") for name, count in sorted(totals.counts.items())]
    if result is None:
        return rows
    if result.verification is not None:
        rows.append(("Verification", result.verification.text))
    rows += [("Threshold met" if each.is_met else "Threshold missed", each.text) for each in result.thresholds]
    rows += [("Finding", each) for each in result.findings]
    return [*rows, ("Verdict", f"{result.headline} (exit code {result.exit_code})")]
