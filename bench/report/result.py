"""The JSON document of a benchmark (format 1): its contents, writing and reading.

Metrics of `figures` are named in bench.report.metrics; times end in _s, _ms or _us. A run that failed has a text in
`failed` and no figures, series or latencies.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from bench.measuring import hdr
from broker_cy.reporting.files import replace_file

FORMAT = 1
MOST_BYTES = 256 << 20  # largest file that is read
LATER_COLUMNS = ("consumed_records_per_s", "consumed_mb_per_s")  # not in the first files of this format
T = TypeVar("T")
Number = int | float


class ResultError(Exception):
    """The file is not such a document; the text is `file: key: problem (allowed values)`."""


@dataclass(frozen=True)
class WorkloadInfo:
    """A workload, its file and all its settings."""

    name: str
    file: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetInfo:
    """A measured target."""

    kind: str
    version: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Latencies:
    """A histogram: percentiles are (percent, ms), ascending; `hdr` is HdrHistogram V2 text in microseconds."""

    count: int
    negative: int  # values below zero: a clock error; in no percentile
    percentiles: Sequence[tuple[float, float]]
    hdr: str


@dataclass(frozen=True)
class Series:
    """Columns over time, all as long as t_s (ends of intervals, seconds since the window began); None: unknown."""

    t_s: Sequence[float] = ()
    records_per_s: Sequence[float | None] = ()
    mb_per_s: Sequence[float | None] = ()
    p50_ms: Sequence[float | None] = ()
    p99_ms: Sequence[float | None] = ()
    broker_cores: Sequence[float | None] = ()
    rss_mb: Sequence[float | None] = ()
    consumed_records_per_s: Sequence[float | None] = ()  # with concurrent producers, to which the rates above belong
    consumed_mb_per_s: Sequence[float | None] = ()


@dataclass(frozen=True)
class Errors:
    """The number of failed requests, and the text of the first error."""

    count: int = 0
    first: str | None = None


@dataclass(frozen=True)
class Run:
    """One measured window of one target."""

    target: str
    started: str
    pair: int = 0
    label: str = ""  # distinguishes runs of one target: a cell of a matrix, a number of connections, ...
    failed: str | None = None
    figures: Mapping[str, Number] = field(default_factory=dict)
    series: Series = field(default_factory=Series)
    latency: Latencies | None = None
    lateness: Latencies | None = None
    end_to_end: Latencies | None = None
    commit: Latencies | None = None  # of ending transactions
    errors: Errors = field(default_factory=Errors)
    verdicts: Sequence[str] = ()


@dataclass(frozen=True)
class Pair:
    """One metric of target a divided by that of target b, pair by pair."""

    metric: str
    a: str
    b: str
    ratios: Sequence[float]
    median: float
    interval: tuple[float, float] | None
    confidence: float = 0.95
    label: str = ""
    note: str | None = None
    a_value: float | None = None  # medians of the two sides over these pairs, in the metric's unit
    b_value: float | None = None  # None in the first files of this format


@dataclass(frozen=True)
class ProfileRow:
    """The share of the target's CPU time that one function, or one whole module, used."""

    function: str  # empty: all of the module
    module: str
    share: float  # 0 to 1
    cpu_s_per_gb: float | None  # share x the target's measured figure; None if that is unknown


@dataclass(frozen=True)
class Profile:
    """The CPU profile of a target, from a separate window that no figure includes (bench.measuring.perf)."""

    target: str
    event: str  # of perf: cycles, cpu-clock
    samples: int
    seconds: float
    functions: Sequence[ProfileRow]  # the heaviest, descending
    modules: Sequence[ProfileRow]
    rest: float  # share of the functions that are not listed
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class WarmUp:
    """The warm-up of one target before its first window; bench.window.steady defines its end."""

    target: str
    label: str
    metric: str  # the figure that had to become steady
    steady: bool  # False: the bound ended the warm-up
    bound_s: float
    seconds: float
    values: Sequence[float]  # of the metric, one for each window


@dataclass(frozen=True)
class Document:
    """The results of one call of `broker-bench`."""

    mode: str
    provenance: Mapping[str, Any]
    workload: WorkloadInfo
    targets: Mapping[str, TargetInfo]
    runs: Sequence[Run]
    pairs: Sequence[Pair] = ()
    failed: str | None = None
    profiles: Sequence[Profile] = ()
    warm_ups: Sequence[WarmUp] = ()
    notes: Sequence[str] = ()  # findings of the mode, as sentences

    @property
    def failures(self) -> list[str]:
        """Failures of this document as a whole and of its runs; empty if nothing failed."""
        own = [self.failed] if self.failed else []
        return own + [f"{title(run)}: {run.failed}" for run in self.runs if run.failed]

    def text(self, indent: int | None = 1) -> str:
        """Return the document as JSON. Raises ValueError for a number that JSON does not have (infinite, NaN)."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=indent, allow_nan=False) + "\n"


def title(run: Run) -> str:
    """Describe a run in a few words."""
    return f"{run.target}{' ' + run.label if run.label else ''}, pair {run.pair + 1}"


def write(document: Document, path: Path, indent: int | None = 1) -> None:
    """Write a document as JSON; a reader finds the old file or the complete new one. Raises OSError, ValueError."""
    replace_file(path, document.text(indent))


def read(path: Path) -> Document:
    """Read a document. Raises ResultError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ResultError(f"{path}: {path.stat().st_size} bytes (allowed: at most {MOST_BYTES})")
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path}: not JSON: {error}") from None
    top = _Node(str(path), "", found)
    if not isinstance(found, dict) or "format" not in found:
        raise top.error("not a result of broker-bench (there is no key `format`)")
    if found["format"] != FORMAT or isinstance(found["format"], bool):
        raise top.at("format").error(f"{found['format']!r} cannot be read (allowed: {FORMAT})")
    return _document(top)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


class _Node:
    """A value of the file that knows its key, so that an error can name it."""

    def __init__(self, file: str, key: str, value: Any) -> None:
        self.file, self.key, self.value = file, key, value

    def error(self, why: str) -> ResultError:
        return ResultError(f"{self.file}: {self.key + ': ' if self.key else ''}{why}")

    def wrong(self, allowed: str) -> ResultError:
        shown = repr(self.value)
        return self.error(f"{shown if len(shown) <= 60 else shown[:57] + '...'} is wrong (allowed: {allowed})")

    def at(self, name: str) -> "_Node":
        """Return the value of a key that must exist."""
        key = f"{self.key}.{name}" if self.key else name
        if name not in self.table():
            raise _Node(self.file, key, None).error("is missing")
        return _Node(self.file, key, self.value[name])

    def table(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value

    def each(self) -> list["_Node"]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [_Node(self.file, f"{self.key}[{index}]", value) for index, value in enumerate(self.value)]

    def later(self, name: str) -> list["_Node"]:
        """Return the list of a key; empty in files of earlier revisions, which do not have the key."""
        return self.at(name).each() if name in self.table() else []

    def named(self) -> dict[str, "_Node"]:
        return {name: self.at(name) for name in self.table()}

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("a text")
        return self.value

    def number(self) -> Number:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not _finite(self.value):
            raise self.wrong("a number")
        return self.value

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def count(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 0:
            raise self.wrong("a whole number, at least 0")
        return self.value

    def maybe(self, parse: Callable[["_Node"], T]) -> T | None:
        return None if self.value is None else parse(self)

    def two(self) -> tuple[float, float]:
        both = [node.number() for node in self.each()]
        if len(both) != 2:
            raise self.wrong("two numbers")
        return both[0], both[1]


def _finite(value: Number) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is too large for a float
        return False


def _document(top: _Node) -> Document:
    workload = top.at("workload")
    document = Document(
        mode=top.at("mode").text(),
        provenance=top.at("provenance").table(),
        workload=WorkloadInfo(workload.at("name").text(), workload.at("file").text(), workload.at("settings").table()),
        targets={
            name: TargetInfo(node.at("kind").text(), node.at("version").text(), node.at("settings").table())
            for name, node in top.at("targets").named().items()
        },
        runs=tuple(_run(node) for node in top.at("runs").each()),
        pairs=tuple(_pair(node) for node in top.at("pairs").each()),
        failed=top.at("failed").maybe(_Node.text),
        # The first files of this format have none of these.
        profiles=tuple(_profile(node) for node in top.later("profiles")),
        warm_ups=tuple(_warm_up(node) for node in top.later("warm_ups")),
        notes=tuple(node.text() for node in top.later("notes")),
    )
    named = {f"runs[{index}]": run.target for index, run in enumerate(document.runs)}
    named |= {f"profiles[{index}]": profile.target for index, profile in enumerate(document.profiles)}
    for key, target in named.items():
        if target not in document.targets:
            known = ", ".join(document.targets)
            raise top.error(f"{key}.target: {target!r} is not among the targets (allowed: {known})")
    return document


def _run(node: _Node) -> Run:
    run = Run(
        target=node.at("target").text(),
        started=node.at("started").text(),
        pair=node.at("pair").count(),
        label=node.at("label").text(),
        failed=node.at("failed").maybe(_Node.text),
        figures={name: figure.number() for name, figure in node.at("figures").named().items()},
        series=_series(node.at("series")),
        latency=node.at("latency").maybe(_latencies),
        lateness=node.at("lateness").maybe(_latencies),
        end_to_end=node.at("end_to_end").maybe(_latencies),
        commit=node.at("commit").maybe(_latencies) if "commit" in node.table() else None,  # not in the first files
        errors=Errors(node.at("errors").at("count").count(), node.at("errors").at("first").maybe(_Node.text)),
        verdicts=tuple(verdict.text() for verdict in node.at("verdicts").each()),
    )
    if run.failed is not None and run.figures:
        raise node.at("figures").error("a run that failed has no figures")
    return run


def _series(node: _Node) -> Series:
    times = tuple(value.number() for value in node.at("t_s").each())
    nothing: tuple[Number | None, ...] = (None,) * len(times)
    columns = {
        each.name: nothing
        if each.name in LATER_COLUMNS and each.name not in node.table()
        else tuple(value.maybe(_Node.number) for value in node.at(each.name).each())
        for each in fields(Series)
    }
    for name, values in columns.items():
        if len(values) != len(times):
            raise node.at(name).error(f"{len(values)} values for {len(times)} times of t_s")
    return Series(times, **{name: values for name, values in columns.items() if name != "t_s"})


def _latencies(node: _Node) -> Latencies:
    try:
        hdr.decode(node.at("hdr").text())
    except hdr.HdrError as error:
        raise node.at("hdr").error(str(error)) from None
    return Latencies(
        node.at("count").count(),
        node.at("negative").count(),
        tuple(pair.two() for pair in node.at("percentiles").each()),
        node.at("hdr").text(),
    )


def _profile(node: _Node) -> Profile:
    return Profile(
        target=node.at("target").text(),
        event=node.at("event").text(),
        samples=node.at("samples").count(),
        seconds=node.at("seconds").number(),
        functions=tuple(_profile_row(row) for row in node.at("functions").each()),
        modules=tuple(_profile_row(row) for row in node.at("modules").each()),
        rest=node.at("rest").number(),
        notes=tuple(note.text() for note in node.at("notes").each()),
    )


def _warm_up(node: _Node) -> WarmUp:
    return WarmUp(
        node.at("target").text(),
        node.at("label").text(),
        node.at("metric").text(),
        node.at("steady").truth(),
        node.at("bound_s").number(),
        node.at("seconds").number(),
        tuple(value.number() for value in node.at("values").each()),
    )


def _profile_row(node: _Node) -> ProfileRow:
    return ProfileRow(
        node.at("function").text(),
        node.at("module").text(),
        node.at("share").number(),
        node.at("cpu_s_per_gb").maybe(_Node.number),
    )


def _pair(node: _Node) -> Pair:
    return Pair(
        metric=node.at("metric").text(),
        a=node.at("a").text(),
        b=node.at("b").text(),
        ratios=tuple(ratio.number() for ratio in node.at("ratios").each()),
        median=node.at("median").number(),
        interval=node.at("interval").maybe(_Node.two),
        confidence=node.at("confidence").number(),
        label=node.at("label").text() if "label" in node.table() else "",
        note=node.at("note").maybe(_Node.text) if "note" in node.table() else None,
        a_value=node.at("a_value").maybe(_Node.number) if "a_value" in node.table() else None,
        b_value=node.at("b_value").maybe(_Node.number) if "b_value" in node.table() else None,
    )
