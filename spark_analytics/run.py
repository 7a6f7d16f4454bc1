"""Runs jobs over a lake: shows the first rows of each result, and writes all of them if asked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.table import Table

from spark_analytics.cells import json_of, table
from spark_analytics.lake import Lake, LakeError, Span, url
from spark_analytics.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from spark_analytics.jobs.registry import Found, Job

# Columns of a table on a terminal; the files have all columns.
COLUMNS_MAX = 12


class Shown(Protocol):
    """How results are shown. `result` gets one row more than `limit`, if there are so many."""

    def begin(self, job: Job) -> None: ...
    def result(self, job: Job, found: Found, rows: Sequence[Row], limit: int) -> None: ...
    def end(self, job: Job, seconds: float) -> None: ...


class AsTables:
    """Tables for people."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, job: Job) -> None:
        self._console.print(f"{job.name}: {job.help}", style="bold")

    def result(self, job: Job, found: Found, rows: Sequence[Row], limit: int) -> None:
        self._console.print(_table(found, rows, limit))

    def end(self, job: Job, seconds: float) -> None:
        self._console.print(f"{job.name} took {seconds:.1f} s", style="dim")


class AsJson:
    """One JSON object per result, on a line of the standard output."""

    def begin(self, job: Job) -> None:
        pass

    def result(self, job: Job, found: Found, rows: Sequence[Row], limit: int) -> None:
        shown = [each.asDict(recursive=True) for each in rows[:limit]]
        fields = {"job": job.name, "result": found.name, "rows": shown, "is_complete": len(rows) <= limit}
        print(json.dumps(fields, default=json_of, ensure_ascii=False), flush=True)

    def end(self, job: Job, seconds: float) -> None:
        pass


def run(
    spark: SparkSession,
    lake: Lake,
    jobs: Sequence[Job],
    *,
    span: Span,
    clusters: Sequence[str],
    limit: int,
    out: Path | None,
    show: Shown,
) -> None:
    """Run jobs one after the other. Raises LakeError if the lake has no data in the span, and PlanError for a plan that
    does not fit the lake.
    """
    from pyspark import StorageLevel

    progress = Progress(spark)
    names = sorted({name for job in jobs for name in job.tables})
    with progress.during("reading the lake"):
        tables = {name: lake.read(spark, name, span, clusters or None) for name in names}
        is_empty = all(each.isEmpty() for each in tables.values())
    if is_empty:
        raise LakeError(f"{lake.path} holds nothing from {span} that {', '.join(job.name for job in jobs)} could use")
    for job in jobs:
        began_s = time.monotonic()
        show.begin(job)
        for found in _all_of(job, tables, progress):
            with progress.during(f"{job.name}, {found.name}"):
                if out is not None:
                    # The shown rows are not computed a second time.
                    found.rows.persist(StorageLevel.DISK_ONLY)
                    found.rows.write.mode("overwrite").parquet(url(out / job.name / found.name))
                rows = found.rows.limit(limit + 1).collect()
            show.result(job, found, rows, limit)
        show.end(job, time.monotonic() - began_s)
        spark.catalog.clearCache()


def _all_of(job: Job, tables: Mapping[str, DataFrame], progress: Progress) -> Iterator[Found]:
    """Yield the results of a job; the progress includes computations before a result."""
    results = iter(job.compute({name: tables[name] for name in job.tables}))
    while True:
        with progress.during(job.name):
            found = next(results, None)
        if found is None:
            return
        yield found


def _table(found: Found, rows: Sequence[Row], limit: int) -> Table:
    columns = found.rows.columns
    if len({row["cluster"] for row in rows}) <= 1:
        columns.remove("cluster")
    notes = []
    if not rows:
        notes.append("no rows")
    if len(rows) > limit:
        notes.append(f"the first {limit} rows")
    if len(columns) > COLUMNS_MAX:
        notes.append(f"also: {', '.join(columns[COLUMNS_MAX:])}")
    caption = ["; ".join(notes)] if notes else []
    return table(f"{found.name}: {found.text}", columns[:COLUMNS_MAX], rows[:limit], notes=caption)
