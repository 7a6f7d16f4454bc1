"""Requests by API, and where their time goes: queue, handler, waiting, sending."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from admin_tui.screens.view import View
from admin_tui.widgets.chart import Chart
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.sample_window import TOTAL, merged
from broker_cy.admin.text import count, micros, percent, short, size
from broker_cy.metrics.sample import Sample, Times

# Samples a table sums up.
WINDOW_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class ApiRow:
    """An API over the window. `p99_us` and `max_us` are the worst second's; None where nothing was asked."""

    name: str
    per_s: float
    errors: int
    in_per_s: float
    out_per_s: float
    mean_us: float | None
    p99_us: int | None
    max_us: int | None


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of one API; `share` of all the API's time."""

    name: str
    count: int
    mean_us: float | None
    p50_us: int
    p99_us: int
    max_us: int
    share: str


class MetricsView(View):
    """APIs and phases."""

    NAME = "metrics"
    ABOUT = """Requests of the last ten seconds by API, from `__broker_metrics`; below, where the time of the one
    under the cursor goes: in which phase how long. Quantiles are those of the worst second, and at most a sixteenth
    too high. The chart is the p99 of that API over ten minutes."""
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    MetricsView Facts { max-height: 6; }
    MetricsView #apis { height: 1fr; }
    MetricsView #phase-row { height: 1fr; }
    MetricsView #phases { width: 3fr; }
    MetricsView Chart { width: 2fr; height: 100%; }
    """

    def body(self) -> ComposeResult:
        yield Facts("Process", id="process")
        yield Grid[ApiRow](
            [
                Column("API", lambda row: row.name, 18, lambda row: row.name, flex=True, letter="A"),
                Column("Requests/s", lambda row: short(row.per_s), 10, lambda row: row.per_s, "right", letter="R"),
                Column(
                    "Errors",
                    lambda row: Text(count(row.errors), "bold red" if row.errors else "bright_black"),
                    7,
                    lambda row: row.errors,
                    "right",
                    letter="E",
                ),
                Column(
                    "In/s", lambda row: size(row.in_per_s), 9, lambda row: row.in_per_s, "right", drop=1, letter="I"
                ),
                Column(
                    "Out/s", lambda row: size(row.out_per_s), 9, lambda row: row.out_per_s, "right", drop=2, letter="O"
                ),
                Column("Mean", lambda row: micros(row.mean_us), 9, lambda row: row.mean_us, "right", letter="M"),
                Column("p99", lambda row: micros(row.p99_us), 9, lambda row: row.p99_us, "right", letter="P"),
                Column("Max", lambda row: micros(row.max_us), 9, lambda row: row.max_us, "right", drop=3, letter="X"),
            ],
            key=lambda row: row.name,
            title="APIs",
            id="apis",
            sort="Requests/s",
            descending=True,
        )
        with Horizontal(id="phase-row"):
            yield Grid[PhaseRow](
                [
                    Column("Phase", lambda row: row.name, 10, flex=True),
                    Column("Mean", lambda row: micros(row.mean_us), 9, align="right"),
                    Column("p50", lambda row: micros(row.p50_us), 9, align="right", drop=2),
                    Column("p99", lambda row: micros(row.p99_us), 9, align="right"),
                    Column("Max", lambda row: micros(row.max_us), 9, align="right", drop=1),
                    Column("Share", lambda row: row.share, 5, align="right"),
                ],
                key=lambda row: row.name,
                title="Phases",
                id="phases",
            )
            yield Chart("p99", micros, id="chart")

    def connect(self) -> None:
        samples = self.session.samples
        self.link(samples, self.query_one("#apis"), self._show)
        for name in ("#process", "#phases", "#chart"):
            self.link(samples, self.query_one(name), lambda: None)
        self.query_one("#apis").focus()

    def _show(self) -> None:
        samples = list(self.session.samples.items)
        if samples:
            self.query_one("#apis", Grid).set_rows(api_rows(samples[-WINDOW_SAMPLES:]))
            self.query_one("#process", Facts).set_facts(process_facts(samples[-1]))
            self._show_api()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        if event.grid.id == "apis":
            self._show_api()

    def _show_api(self) -> None:
        row: ApiRow | None = self.query_one("#apis", Grid).selected
        samples = list(self.session.samples.items)
        if row is None or not samples:
            return
        phases = self.query_one("#phases", Grid)
        phases.title = f"Phases of {row.name}"
        phases.set_rows(phase_rows(row.name, samples[-WINDOW_SAMPLES:]))
        values = [_p99(sample, row.name) for sample in samples]
        self.query_one("#chart", Chart).set_values(values, samples[-1].interval_ms)


def _p99(sample: Sample, name: str) -> float | None:
    api = sample.apis.get(name)
    times = None if api is None else api.phases.get(TOTAL)
    return times.p99_us if times is not None and times.count else None


def _mean(times: Times) -> float | None:
    return times.sum_us / times.count if times.count else None


def api_rows(samples: list[Sample]) -> list[ApiRow]:
    """Each API over the samples."""
    seconds = max(0.001, sum(sample.interval_ms for sample in samples) / 1000)
    rows = []
    for name in sorted({name for sample in samples for name in sample.apis}):
        apis = [sample.apis[name] for sample in samples if name in sample.apis]
        times = merged([api.phases[TOTAL] for api in apis if TOTAL in api.phases])
        rows.append(
            ApiRow(
                name,
                sum(api.requests for api in apis) / seconds,
                sum(sum(api.errors.values()) for api in apis),
                sum(api.in_bytes for api in apis) / seconds,
                sum(api.out_bytes for api in apis) / seconds,
                _mean(times),
                times.p99_us if times.count else None,
                times.max_us if times.count else None,
            )
        )
    return rows


def phase_rows(name: str, samples: list[Sample]) -> list[PhaseRow]:
    """Each phase of one API over the samples."""
    found: dict[str, list[Times]] = {}
    for sample in samples:
        if name in sample.apis:
            for phase, times in sample.apis[name].phases.items():
                found.setdefault(phase, []).append(times)
    phases = {phase: merged(every) for phase, every in found.items()}
    whole = phases[TOTAL].sum_us if TOTAL in phases else sum(times.sum_us for times in phases.values())
    return [
        PhaseRow(
            phase, times.count, _mean(times), times.p50_us, times.p99_us, times.max_us, percent(times.sum_us, whole)
        )
        for phase, times in phases.items()
    ]


def process_facts(sample: Sample) -> list[Any]:
    """What the process uses."""
    return [
        ("CPU", percent(sample.cpu_us / 1000, sample.interval_ms)),
        ("memory", size(sample.resident_bytes)),
        ("files", count(sample.open_fds)),
        ("loop lag p99", micros(sample.loop_lag.p99_us)),
        ("max", micros(sample.loop_lag.max_us)),
        ("major faults", count(sample.major_faults)),
        ("disk read", f"{size(sample.disk_read_bytes)}/s"),
        ("written", f"{size(sample.disk_written_bytes)}/s"),
        ("hot reads", count(sample.hot_reads)),
        ("cold reads", count(sample.cold_reads)),
        ("syncs", count(sample.sync_rounds)),
        ("not flushed", size(sample.unflushed_bytes)),
    ]
