"""Runs jobs over a lake: shows the first rows of each result, and writes all of them if asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from spark_analytics.cells import table
from spark_analytics.lake import Lake, LakeError, Span, url
from spark_analytics.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_analytics.jobs.registry import Found, Job

# Columns of a table on a terminal; the files have all columns.
COLUMNS_MAX = 12


def run(
    spark: SparkSession,
    lake: Lake,
    jobs: Sequence[Job],
    *,
    span: Span,
    clusters: Sequence[str],
    limit: int,
    out: Path | None,
    console: Console,
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
        console.print(f"{job.name}: {job.help}", style="bold")
        for found in _all_of(job, tables, progress):
            with progress.during(f"{job.name}, {found.name}"):
                if out is not None:
                    # The shown rows are not computed a second time.
                    found.rows.persist(StorageLevel.DISK_ONLY)
                    found.rows.write.mode("overwrite").parquet(url(out / job.name / found.name))
                shown = _table(found, limit)
            console.print(shown)
        console.print(f"{job.name} took {time.monotonic() - began_s:.1f} s", style="dim")
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


def _table(found: Found, limit: int) -> Table:
    """Return the first rows of a result."""
    rows = found.rows.limit(limit + 1).collect()
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
