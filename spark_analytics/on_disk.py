"""The records of topics in log directories: counts by partition, and the first records. For the command `segments`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from spark_analytics.cells import json_of, table
from spark_analytics.cluster import is_local
from spark_analytics.errors import DamagedError, NothingError
from spark_analytics.lake import Span
from spark_analytics.progress import Progress
from spark_analytics.segments import report
from spark_analytics.segments.errors import HINT, SegmentsError
from spark_analytics.segments.options import SKIP
from spark_analytics.segments.report import Counters
from spark_analytics.segments.source import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAMAGE = re.compile(r"[^\s:]+: at byte \d+, where offset \d+ is expected: [^\n]+")
# The error of a read's plan, which runs in a process of Spark.
_REFUSED = re.compile(r"\.SegmentsError: ([^\n]+)")


def show(
    spark: SparkSession,
    directories: Sequence[Path],
    topics: Sequence[str],
    *,
    span: Span,
    limit: int,
    on_damage: str,
    show: Callable[[str, Sequence[Any]], None],
) -> None:
    """Show both tables, and the damage that was left out to stderr. Raises SegmentsError for topics that do not exist
    or cannot be read, NothingError for a span without records, and DamagedError.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    bounds: dict[str, Any] = {"on_damage": on_damage}
    for name, at in (("starting_timestamp", span.start), ("ending_timestamp", span.end)):
        if at is not None:
            bounds[name] = round(at.timestamp() * 1000)
    progress = Progress(spark)
    stack, reported = ExitStack(), dict[str, str]()
    # Workers on other machines would write their figures to their own disks.
    if on_damage == SKIP and is_local(spark.sparkContext.master or ""):
        reported["report"] = stack.enter_context(TemporaryDirectory(prefix="broker-analytics-"))
    counts = (
        read(spark, directories, topics, **bounds, **reported)
        .groupBy("topic", "partition")
        .agg(
            F.count("*").alias("records"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.min("timestamp").alias("from"),
            F.max("timestamp").alias("to"),
            F.sum(F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))).alias("bytes"),
        )
    )
    try:
        with stack:
            with progress.during("segments: counting the records"):
                of_partitions = counts.orderBy("topic", "partition").collect()
            if reported:
                _print_damage(report.total(reported["report"]))
        if not of_partitions:
            where = ", ".join(map(str, directories))
            raise NothingError(f"{where}: no records of {', '.join(topics)} from {span}")
        show("records by partition", of_partitions)
        first = (
            read(spark, directories, topics, **bounds).orderBy("timestamp", "topic", "partition", "offset").limit(limit)
        )
        columns = ("topic", "partition", "offset", "timestamp", "key", "value")
        with progress.during(f"segments: the first {limit}"):
            of_records = first.select(*columns).collect()
        show(f"the first {limit}", of_records)
    except PySparkException as error:
        if found := _DAMAGE.search(str(error)):
            raise DamagedError(found[0].replace(HINT, "(--on-damage skip leaves it out)")) from None
        if found := _REFUSED.search(str(error)):
            raise SegmentsError(found[1]) from None
        raise


def _print_damage(found: Counters) -> None:
    if not found.damaged:
        return
    where = "1 place" if found.damaged == 1 else f"{found.damaged:,} places"
    print(f"left out, because it is damaged: {found.damaged_bytes:,} bytes in {where}", file=sys.stderr)
    for place in found.places:
        print(f"  {place}", file=sys.stderr)
    if found.damaged > len(found.places):
        print(f"  and {found.damaged - len(found.places):,} more", file=sys.stderr)


def as_tables(console: Console) -> Callable[[str, Sequence[Any]], None]:
    """Return how tables are shown to people."""
    return lambda title, rows: console.print(_shown(title, rows))


def as_json(title: str, rows: Sequence[Any]) -> None:
    """Print one JSON object, on a line of the standard output."""
    fields = {"title": title, "rows": [each.asDict(recursive=True) for each in rows]}
    print(json.dumps(fields, default=json_of, ensure_ascii=False), flush=True)


def _shown(title: str, rows: Sequence[Any]) -> Table:
    return table(title, list(rows[0].asDict()), rows, timespec="milliseconds")
