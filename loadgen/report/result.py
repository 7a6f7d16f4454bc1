"""The result of a run as plain data, and its JSON form: "schema": "broker-load/1".

Times end in _s or _ms, rates in _per_s, MB are 10^6 bytes, shares are between 0 and 1. `requests` are operations that
succeeded; those that failed are in `errors`, and their latency is in the histograms, too. HDR texts are HdrHistogram V2
in microseconds (`bench.measuring.hdr`), from which the charts are drawn.

The exit code is the highest that applies:

    12  data wrong: a record was lost, duplicated, reordered, or read although it was aborted or refused; or the check
        that the scenario asks for could not be completed
    11  the generator was the limit (`loadgen.report.generator`): the figures do not describe the cluster
    10  a threshold was missed
    0   none of these

An interrupted run is judged by the figures so far; `ended` says that it was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bench.measuring import hdr
from broker_cy.reporting.files import replace_file
from loadgen.command import DATA_WRONG, GENERATOR_LIMIT, GOOD, THRESHOLD_MISSED
from loadgen.report import plain
from loadgen.report.measured import Latencies, OperationFigures, Series
from loadgen.run.search import Step
from loadgen.scenario.model import Threshold
from loadgen.verify.verification import Example

SCHEMA = "broker-load/1"
# Largest file that is read: two days of seconds of some ten operations.
FILE_BYTES_MAX = 512 << 20

# Findings that are defects of a partition, by name in `Partition.counts`, and their displayed names.
DEFECTS = {
    "lost": "lost",
    "duplicated": "duplicated",
    "reordered": "reordered",
    "aborted_but_read": "aborted but read",
    "refused_but_read": "refused but read",
    "damaged": "damaged",
}
# Figures whose threshold has another name than the figure here.
_RATES = {"rate": "requests_per_s", "records_rate": "records_per_s", "errors": "failures"}


class ResultError(Exception):
    """The file is not a result of broker-load; the text is `file: key: problem (allowed: ...)`."""


@dataclass(frozen=True)
class Worker:
    """One process that generated load."""

    index: int
    host: str
    pid: int
    cpu_share: float  # of one core
    requests: int
    last_second: int
    lost: str | None = None  # why its figures end early
    missing_share: float = 0.0  # of the load of the whole run: what a lost worker did not contribute
    cpu_s: float = 0.0  # for all its requests, with those that were answered after the measured time


@dataclass(frozen=True)
class Event:
    """Something that happened to the cluster or to the run: a rebalance, a leader, a worker."""

    second: float
    kind: str
    text: str


@dataclass(frozen=True)
class Partition:
    """The findings of reading one partition back from `start` to `end`. `counts`: those of DEFECTS, and others such as
    acknowledged and read. `notes` are the limits of the check.
    """

    topic: str
    partition: int
    start: int
    end: int
    counts: dict[str, int]
    examples: dict[str, tuple[Example, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def defects(self) -> dict[str, int]:
        return {name: count for name in DEFECTS if (count := self.counts.get(name, 0))}


@dataclass(frozen=True)
class Verification:
    """Whether the cluster kept the records that it acknowledged. `problem`: why this could not be checked."""

    partitions: tuple[Partition, ...] = ()
    seconds: float = 0.0
    problem: str | None = None

    @staticmethod
    def of(found: Mapping[str, Any]) -> Verification:
        """Return the findings of `loadgen.verify.verification.Verification.to_dict`. Raises ResultError."""
        try:
            kept = {name: value for name, value in found.items() if name not in ("good", "total")}
            return plain.read(Verification, kept, "verification")
        except plain.PlainError as error:
            raise ResultError(str(error)) from None

    def total(self, name: str) -> int:
        """Return the sum of a count over all partitions."""
        return sum(each.counts.get(name, 0) for each in self.partitions)

    @property
    def defects(self) -> dict[str, int]:
        """The defects of all partitions, by name; empty without any."""
        return {name: count for name in DEFECTS if (count := self.total(name))}

    @property
    def why_unchecked(self) -> str | None:
        """Why the data, or a part of it, was not judged; None if all was checked, or if the checked part is wrong."""
        removed = 0 if self.defects else self.total("not_checkable")
        if self.problem is None and removed:
            return f"{removed:,} acknowledged records were removed before they were read"
        return self.problem

    @property
    def is_good(self) -> bool:
        return self.why_unchecked is None and not self.defects

    @property
    def text(self) -> str:
        """The findings in words."""
        if self.why_unchecked is not None:
            return f"the data could not be checked: {self.why_unchecked}"
        words = [f"{count:,} {DEFECTS[name]}" for name, count in self.defects.items()]
        if words:
            return ", ".join(words)
        kept = self.total("acknowledged")
        return (
            f"all {kept:,} acknowledged records were found, once and in order" if kept else "no record was acknowledged"
        )


class Judged(Protocol):
    """A verdict of `loadgen.scenario.thresholds.judge`."""

    @property
    def threshold(self) -> Threshold: ...
    @property
    def value(self) -> float | None: ...
    @property
    def is_met(self) -> bool: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class ThresholdVerdict:
    """A threshold and the measured value: `value` is None if the run has no such figure, which misses the threshold."""

    threshold: Threshold
    value: float | None
    is_met: bool
    text: str


@dataclass(frozen=True)
class Check:
    """A figure that judges the generator, and its limit."""

    name: str
    label: str
    value: float | None  # None: there is nothing to judge by
    most: float
    unit: str


@dataclass(frozen=True)
class Generator:
    """Whether the generator was the limit: `reasons` has a sentence for each rule that was broken."""

    checks: tuple[Check, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_limit(self) -> bool:
        return bool(self.reasons)


@dataclass(frozen=True)
class Result:
    """All of one run."""

    scenario: dict[str, Any]
    bootstrap: str
    command: str
    seconds: float  # that were measured
    operations: dict[str, OperationFigures]
    lateness: Latencies | None
    hub_lag: Latencies | None
    queued: int  # scheduled operations that waited for a free user
    unsent: int  # those that still waited when the run ended
    queued_share: float  # of both, of the scheduled operations
    counts: dict[str, int]
    workers: tuple[Worker, ...]
    series: Series
    events: tuple[Event, ...]
    events_left_out: int
    verification: Verification | None  # None: the scenario does not ask for one
    generator: Generator
    thresholds: tuple[ThresholdVerdict, ...]
    provenance: dict[str, Any]
    steps: tuple[Step, ...] = ()  # of a search; the figures are those of the best one, or else of the first
    notes: tuple[str, ...] = ()  # what limits the figures or the check, as sentences
    ended: str | None = None  # why before its time: "interrupted after 12 s of 60 s"

    @property
    def missed(self) -> tuple[ThresholdVerdict, ...]:
        return tuple(each for each in self.thresholds if not each.is_met)

    @property
    def best(self) -> Step | None:
        """The highest good rate of a search; None without one."""
        return max((each for each in self.steps if not each.why), key=lambda each: each.rate, default=None)

    @property
    def exit_code(self) -> int:
        if self.verification is not None and not self.verification.is_good:
            return DATA_WRONG
        if self.generator.is_limit:
            return GENERATOR_LIMIT
        return THRESHOLD_MISSED if self.missed else GOOD

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.exit_code == DATA_WRONG:
            assert self.verification is not None
            return "Data wrong" if self.verification.why_unchecked is None else "Data not checked"
        if self.exit_code == GENERATOR_LIMIT:
            return "The generator was the limit"
        if self.exit_code == THRESHOLD_MISSED:
            return f"{len(self.missed)} of {len(self.thresholds)} thresholds missed"
        return "Good so far" if self.ended else "Good"

    @property
    def findings(self) -> list[str]:
        """All problems of the run, the most severe first."""
        found = []
        if self.verification is not None and not self.verification.is_good:
            what = "" if self.verification.why_unchecked is not None else "data wrong: "
            found.append(f"{what}{self.verification.text}")
        found += [f"the generator was the limit: {reason}" for reason in self.generator.reasons]
        found += [f"threshold missed: {each.text}" for each in self.missed]
        return found

    def judged(self, verdicts: Iterable[Judged]) -> Result:
        """Return the result with the verdicts of its thresholds."""
        found = tuple(ThresholdVerdict(each.threshold, each.value, each.is_met, each.text) for each in verdicts)
        return replace(self, thresholds=found)

    def figure(self, operation: str, name: str) -> float | None:
        """Return a figure by its name in `loadgen.scenario.thresholds`; with the operation "", a figure of the run.
        None if the run has no such figure.
        """
        if operation == "":
            return self._run_figure(name)
        found = self.operations.get(operation)
        if found is None:
            return None
        if name.endswith("_ms"):
            return _of(found.latency, name)
        if name in ("error_share", "errors") and not found.requests + found.failures + found.unsent:
            return None  # without operations, no share is good
        value: float | None = getattr(found, _RATES.get(name, name), None)
        return value

    def _run_figure(self, name: str) -> float | None:
        for prefix, delays in (("lateness_", self.lateness), ("hub_lag_", self.hub_lag)):
            if name.startswith(prefix):
                return _of(delays, name.removeprefix(prefix))
        if name == "error_share":
            # Operations that were due and never sent count as failed.
            failures = self.unsent + sum(each.failures for each in self.operations.values())
            performed = failures + sum(each.requests for each in self.operations.values())
            return failures / performed if performed else None
        if name == "queued_share":
            return self.queued_share
        if name == "workers_lost":
            return sum(each.lost is not None for each in self.workers)
        if self.verification is None or self.verification.why_unchecked is not None:
            return None
        if name == "unknown":
            return self.verification.total("unknown_present") + self.verification.total("unknown_absent")
        return self.verification.total(name) if name in DEFECTS else None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as dicts, lists, numbers and texts."""
        return {"schema": SCHEMA, "exit_code": self.exit_code, "verdict": self.headline, **asdict(self)}

    @staticmethod
    def from_dict(found: Any) -> Result:
        """Return the result of `to_dict`. Raises ResultError, which names key, value and what is allowed."""
        if not isinstance(found, Mapping) or "schema" not in found:
            raise ResultError("not a result of broker-load (there is no key `schema`)")
        if found["schema"] != SCHEMA:
            raise ResultError(f"schema: {found['schema']!r} cannot be read (allowed: {SCHEMA!r})")
        derived = ("schema", "exit_code", "verdict")
        try:
            result = plain.read(Result, {name: value for name, value in found.items() if name not in derived})
        except plain.PlainError as error:
            raise ResultError(str(error)) from None
        _check(result)
        return result


def _of(found: Latencies | None, name: str) -> float | None:
    value: float | None = None if found is None else getattr(found, name, None)
    return value


def _check(result: Result) -> None:
    """Reject data that the page could not draw."""
    held = {"lateness": result.lateness, "hub_lag": result.hub_lag}
    for name, operation in result.operations.items():
        held |= {f"operations.{name}.latency": operation.latency, f"operations.{name}.service": operation.service}
    for key, each in held.items():
        if each is not None:
            try:
                hdr.decode(each.hdr)
            except hdr.HdrError as error:
                raise ResultError(f"{key}.hdr: {error}") from None
    length = len(result.series.t_s)
    columns: dict[str, tuple[Any, ...]] = {"queued": result.series.queued, "workers": result.series.workers}
    for name, series in result.series.operations.items():
        for column in ("requests_per_s", "records_per_s", "p50_ms", "p99_ms", "max_ms"):
            columns[f"operations.{name}.{column}"] = getattr(series, column)
    for key, values in columns.items():
        if len(values) != length:
            raise ResultError(f"series.{key}: {len(values)} values (allowed: {length}, one for each of t_s)")


def write(result: Result, path: Path) -> None:
    """Write a result as JSON; a reader finds the old file or the complete new one. Raises OSError."""
    replace_file(path, json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n")


def read(path: Path) -> Result:
    """Read a result. Raises ResultError."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ResultError(f"{path}: {path.stat().st_size} bytes (allowed: at most {FILE_BYTES_MAX})")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path}: not JSON: {error}") from None
    try:
        return Result.from_dict(found)
    except ResultError as error:
        raise ResultError(f"{path}: {error}") from None
