"""What log directories hold of topics: records by partition, and the first ones. For the command `segments`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from spark_analytics.cells import text_of
from spark_analytics.errors import DamagedError
from spark_analytics.lake import Span
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.source import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAMAGE = re.compile(r"[^\s:]+: at byte \d+, where offset \d+ is expected: [^\n]+")
# What the plan of a read, which runs in a process of Spark's, raises.
_REFUSED = re.compile(r"\.SegmentsError: ([^\n]+)")


def show(
    spark: SparkSession,
    directories: Sequence[Path],
    topics: Sequence[str],
    *,
    span: Span,
    limit: int,
    on_damage: str,
    console: Console,
) -> None:
    """Print both tables. Raises SegmentsError for topics that are not there or cannot be read, and
    DamagedError.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    bounds: dict[str, Any] = {"on_damage": on_damage}
    for name, at in (("starting_timestamp", span.start), ("ending_timestamp", span.end)):
        if at is not None:
            bounds[name] = round(at.timestamp() * 1000)
    records = read(spark, directories, topics, **bounds)
    counts = records.groupBy("topic", "partition").agg(
        F.count("*").alias("records"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.min("timestamp").alias("from"),
        F.max("timestamp").alias("to"),
        F.sum(F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))).alias("bytes"),
    )
    try:
        console.print(_table("records by partition", counts.orderBy("topic", "partition").collect()))
        first = records.orderBy("timestamp", "topic", "partition", "offset").limit(limit)
        columns = ("topic", "partition", "offset", "timestamp", "key", "value")
        console.print(_table(f"the first {limit}", first.select(*columns).collect()))
    except PySparkException as error:
        if found := _DAMAGE.search(str(error)):
            raise DamagedError(found[0]) from None
        if found := _REFUSED.search(str(error)):
            raise SegmentsError(found[1]) from None
        raise


def _table(title: str, rows: Sequence[Any]) -> Table:
    table = Table(title=title, title_justify="left", expand=False)
    if not rows:
        table.caption = "no records"
        return table
    for name in rows[0].asDict():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(text_of(value, "milliseconds") for value in row))
    return table
