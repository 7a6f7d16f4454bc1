"""Lakes of a few rows, written without an ingest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_analytics.lake import Generation, Lake, Offsets, url
from spark_analytics.schema import TABLES

CLUSTER, SOURCE = "c", "source.1"
AT = datetime(2026, 11, 23, 8)


def generation(lake: Lake, source: str = SOURCE, number: int = 1) -> Generation:
    return lake.generation(CLUSTER, source, number)


def commits(*ends: int) -> list[tuple[Any, ...]]:
    """Return rows of `commits` in which the partition has these ends, 10 s after each other."""
    at = (AT + timedelta(seconds=10 * each) for each in range(len(ends)))
    return [
        (CLUSTER, 1, each, "g", "t", 0, number, AT, AT, end, 0, AT.date())
        for number, (each, end) in enumerate(zip(at, ends, strict=True))
    ]


def write_batch(
    spark: SparkSession,
    lake: Lake,
    table: str,
    number: int,
    rows: Sequence[tuple[Any, ...]] | DataFrame,
    schema: StructType | None = None,
    of: Generation | None = None,
) -> None:
    """Write a batch of a table, without marking it as complete."""
    found = rows if isinstance(rows, DataFrame) else spark.createDataFrame(list(rows), schema or TABLES[table])
    folder = (of or generation(lake)).batch(table, number)
    found.drop("cluster").coalesce(1).write.partitionBy("day").parquet(url(folder))


def complete(lake: Lake, number: int, of: Generation | None = None, ends: Offsets | None = None) -> None:
    """Mark a batch, and those before it, as complete."""
    (of or generation(lake)).note(number + 1, ends or {})
