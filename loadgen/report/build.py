"""Builds the result of a run from the reports of its workers."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

from bench.measuring import hdr, provenance
from bench.measuring.histogram import Histogram
from loadgen.figures.totals import NS_PER_MS, Operation, Second, Totals, WorkerFigures, percentile_ms
from loadgen.report import generator
from loadgen.report.measured import Latencies, OperationFigures, OperationSeries, Series
from loadgen.report.result import Event, Result, Verification, Worker
from loadgen.run.search import Step
from loadgen.scenario.model import Scenario
from loadgen.scenario.options import KINDS

MB = 1e6
# Events of a result: the first ones of a run, whose number has no other limit. Further ones are only counted.
EVENTS_MAX = 5_000
LIBRARIES = ("broker-cy", "locust", "gevent", "confluent-kafka")


def build(
    scenario: Scenario,
    totals: Totals,
    *,
    seconds: float,
    bootstrap: str,
    command: Sequence[str],
    workers: Sequence[WorkerFigures] | None = None,
    verification: Verification | None = None,
    events: Sequence[Event] = (),
    origin: Mapping[str, Any] | None = None,
    steps: Sequence[Step] = (),
    notes: Sequence[str] = (),
    ended: str | None = None,
) -> Result:
    """Return the result of a run of `seconds`, which is less than the scenario's if it `ended` early.

    `workers` are those of `totals` by default; a list may add workers that never reported. `origin` is the provenance;
    by default `provenance_of(command)`. The thresholds are added by `Result.judged`, because they are judged by a
    result.
    """
    of = workers_of(totals.workers.values() if workers is None else workers, seconds)
    ordered = sorted(events, key=lambda each: each.second)
    shown = dict(provenance_of(command) if origin is None else origin)
    return Result(
        scenario=settings(scenario),
        bootstrap=bootstrap,
        command=str(shown.get("command", "")),
        seconds=seconds,
        operations=_operations(scenario, totals, seconds),
        lateness=latencies(totals.lateness),
        hub_lag=latencies(totals.hub_lag),
        queued=totals.queued,
        unsent=totals.unsent,
        queued_share=(totals.queued + totals.unsent) / max(1, generator.scheduled(totals)),
        counts=dict(sorted(totals.counts.items())),
        workers=of,
        series=series(totals),
        events=tuple(ordered[:EVENTS_MAX]),
        events_left_out=max(0, len(ordered) - EVENTS_MAX),
        verification=verification,
        generator=generator.judge(scenario, totals, of),
        thresholds=(),
        provenance=shown,
        steps=tuple(steps),
        notes=tuple(notes),
        ended=ended,
    )


def _operations(scenario: Scenario, totals: Totals, seconds: float) -> dict[str, OperationFigures]:
    """Return the figures of each operation, also of scenario entries without an operation that ended in the measured
    time: otherwise they would be missing exactly where something went wrong.

    Operations that were due and never sent count for an operation if the kind of the entry has only one with a
    schedule.
    """
    unsent: dict[str, int] = {}
    for spec in scenario.users:
        if len(names := KINDS[spec.kind].scheduled) == 1:
            unsent[names[0]] = unsent.get(names[0], 0) + totals.unsent_of.get(spec.name, 0)
    return {
        name: figures(
            totals.operations.get(name, Operation()), seconds, totals.late(name, seconds), unsent.get(name, 0)
        )
        for name in sorted({*totals.operations, *unsent})
    }


def interrupted(after_s: float, scenario: Scenario) -> str:
    """Return the `ended` of a run that was interrupted."""
    return f"interrupted after {after_s:.0f} s of {scenario.seconds:g} s"


def provenance_of(command: Sequence[str], versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return machine, revision, command as typed, and the versions of the libraries; `versions` adds others, such as
    the cluster's.
    """
    found = dict(versions or {})
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return provenance.collect(list(command) or sys.argv, found)


def latencies(histogram: Histogram) -> Latencies | None:
    """Return the figures of a histogram of ns; None if it is empty."""
    if not histogram.count:
        return None
    p50, p75, p90, p95, p99, p999, p9999 = (
        histogram.percentile(percent) / NS_PER_MS for percent in (50, 75, 90, 95, 99, 99.9, 99.99)
    )
    return Latencies(
        count=histogram.count,
        negative=histogram.negative,
        mean_ms=histogram.mean() / NS_PER_MS,
        p50_ms=p50,
        p75_ms=p75,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        p999_ms=p999,
        p9999_ms=p9999,
        max_ms=histogram.highest / NS_PER_MS,
        hdr=hdr.hdr_base64(histogram),
    )


def figures(operation: Operation, seconds: float, after: Operation, unsent: int = 0) -> OperationFigures:
    """Return the figures of an operation over `seconds`. Operations that were answered `after` them count, but not in a
    rate: an overloaded cluster did not sustain a rate if it needed more time. Unsent operations count as failed.
    """
    due = operation.requests + operation.failures + unsent
    per_s = 1 / seconds if seconds > 0 else 0.0
    return OperationFigures(
        requests=operation.requests,
        records=operation.records,
        bytes=operation.bytes,
        failures=operation.failures,
        errors=dict(sorted(operation.errors.items(), key=lambda each: -each[1])),
        unsent=unsent,
        error_share=(operation.failures + unsent) / due if due else 0.0,
        requests_per_s=(operation.requests - after.requests) * per_s,
        records_per_s=(operation.records - after.records) * per_s,
        mb_per_s=(operation.bytes - after.bytes) * per_s / MB,
        latency=latencies(operation.latency),
        service=latencies(operation.service),
    )


def series(totals: Totals) -> Series:
    """Return the seconds of a run as columns. A second without a report of any worker is left out."""
    times = sorted(totals.series)
    slots = [totals.series[second] for second in times]
    return Series(
        tuple(times),
        {name: _column(name, times, slots) for name in sorted(totals.operations)},
        tuple(each.queued for each in slots),
        tuple(each.workers for each in slots),
    )


def _column(name: str, times: Sequence[int], slots: Sequence[Second]) -> OperationSeries:
    nothing = Operation()
    found = [slot.operations.get(name, nothing) for slot in slots]
    errors: dict[str, list[tuple[int, int]]] = {}
    for second, each in zip(times, found, strict=True):
        for error, count in each.errors.items():
            errors.setdefault(error, []).append((second, count))
    return OperationSeries(
        tuple(float(each.requests) for each in found),
        tuple(float(each.records) for each in found),
        tuple(percentile_ms(each.latency, 50) for each in found),
        tuple(percentile_ms(each.latency, 99) for each in found),
        tuple(percentile_ms(each.latency, 100) for each in found),
        {error: tuple(counts) for error, counts in errors.items()},
    )


def workers_of(found: Iterable[WorkerFigures], seconds: float) -> tuple[Worker, ...]:
    """Return the workers; a lost one with the part of the whole load that it did not contribute."""
    ordered = sorted(found, key=lambda each: each.index)

    def missing(each: WorkerFigures) -> float:
        if each.lost is None or seconds <= 0:
            return 0.0
        return min(1.0, max(0.0, 1 - each.seconds / seconds)) * each.part

    return tuple(
        Worker(
            each.index,
            each.host,
            each.pid,
            each.cpu_share,
            each.requests,
            each.last_second,
            each.lost,
            missing(each),
            each.cpu_s,
        )
        for each in ordered
    )


def settings(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as JSON data: profiles as text, and the lines of a payload file as their number.

    Settings with their default value are kept, so that a later version with other defaults cannot be misread.
    """
    found = dataclasses.asdict(scenario)
    del found["thresholds"]  # with their verdicts in the result
    for user, spec in zip(found["users"], scenario.users, strict=True):
        user["rate"] = None if spec.rate is None else spec.rate.text
        user["payload"]["lines"] = len(spec.payload.lines)
    found["users"] = list(found["users"])
    return _plain(found)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """Return a value with lists for tuples and texts for bytes, as JSON returns it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value
