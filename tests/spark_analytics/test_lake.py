"""The rows that are read from a lake: those of complete batches, of older releases, of a span."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from spark_analytics.lake import Lake, LakeError, Span
from spark_analytics.schema import TABLES
from tests.spark_analytics.lakes import AT, CLUSTER, commits, complete, generation, write_batch


def ends(spark: SparkSession, lake: Lake, span: Span | None = None) -> list[int | None]:
    return sorted(
        (row.end for row in lake.read(spark, "commits", span or Span()).collect()), key=lambda end: (end is None, end)
    )


def test_only_complete_batches_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, rows of a batch that a crash interrupted count twice, or those of another generation or source
    with the same numbers disappear.
    """
    lake = Lake(tmp_path)
    again, other = generation(lake, number=2), generation(lake, source="source.10")
    for number in range(3):
        write_batch(spark, lake, "commits", number, commits(10 + number))
    write_batch(spark, lake, "commits", 0, commits(20), of=again)
    write_batch(spark, lake, "commits", 0, commits(30), of=other)
    complete(lake, 1)
    assert ends(spark, lake) == [10, 11]
    complete(lake, 0, of=again)
    complete(lake, 0, of=other)
    assert ends(spark, lake) == [10, 11, 20, 30]


def test_a_span_is_in_any_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a range of time has other rows, for example because its day is another one in UTC."""
    lake = Lake(tmp_path)
    write_batch(spark, lake, "commits", 0, commits(10, 11))
    complete(lake, 0)
    at = AT.replace(tzinfo=UTC)
    assert ends(spark, lake, Span(end=at + timedelta(seconds=5))) == [10]
    assert ends(spark, lake, Span(start=at + timedelta(seconds=5))) == [11]
    assert ends(spark, lake, Span(start=at + timedelta(hours=1))) == []
    east, west = timezone(timedelta(hours=17)), timezone(timedelta(hours=-9))
    assert ends(spark, lake, Span(start=at.astimezone(east), end=(at + timedelta(seconds=5)).astimezone(west))) == [10]
    assert at.astimezone(east).date() > AT.date() > at.astimezone(west).date()


@pytest.mark.full
def test_columns_that_are_new_are_null(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a lake of an older release cannot be read, nor one to which a later release has written."""
    lake = Lake(tmp_path)
    write_batch(spark, lake, "commits", 0, commits(10))
    older = spark.createDataFrame(commits(11), TABLES["commits"]).drop("end")
    write_batch(spark, lake, "commits", 1, older)
    later = spark.createDataFrame(commits(12), TABLES["commits"]).selectExpr("*", "'blue' AS colour")
    write_batch(spark, lake, "commits", 2, later)
    complete(lake, 2)
    assert ends(spark, lake) == [10, 12, None]


@pytest.mark.full
def test_fields_of_structs_and_narrower_numbers(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a new field in a part of a sample, or a wider number type, makes old lakes unreadable."""
    now = TABLES["samples"]
    lag = now["loop_lag"].dataType
    assert isinstance(lag, StructType)
    fewer = StructType([each for each in lag.fields if each.name != "p99_us"])
    before = StructType([
        StructField(each.name, fewer) if each.name == "loop_lag"
        else StructField(each.name, IntegerType()) if each.dataType == LongType()
        else each
        for each in now.fields
    ])  # fmt: skip
    lake = Lake(tmp_path)
    row = {"cluster": CLUSTER, "broker": 1, "at": AT, "day": AT.date(), "cpu_us": 7, "loop_lag": {"count": 3}}
    old = spark.createDataFrame([tuple(row.get(each.name) for each in before)], before)
    write_batch(spark, lake, "samples", 0, old)
    complete(lake, 0)
    (found,) = lake.read(spark, "samples").collect()
    assert (found.cpu_us, found.loop_lag["count"], found.loop_lag.p99_us) == (7, 3, None)


@pytest.mark.full
def test_what_is_not_in_the_lake_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a mistyped folder or cluster has no rows, and looks as if nothing had happened in it."""
    lake = Lake(tmp_path / "lake")
    with pytest.raises(LakeError, match="holds no complete batch: run `broker-analytics ingest --lake "):
        lake.read(spark, "samples")
    write_batch(spark, lake, "commits", 0, commits(10))
    complete(lake, 0)
    with pytest.raises(LakeError, match=r"d: not in .* \(there: c\)"):
        lake.read(spark, "commits", clusters=["d"])
    assert lake.read(spark, "moves").count() == 0


@pytest.mark.full
def test_the_lake_of_an_early_version_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a lake without sources has no rows, or an ingest duplicates all of them."""
    for number, folder in enumerate(("checkpoint/commits", "source.1/generation-1/checkpoint/commits")):
        lake = tmp_path / str(number)
        (lake / "_ingest" / CLUSTER / folder).mkdir(parents=True)
        with pytest.raises(LakeError, match="written by an early version"):
            Lake(lake).read(spark, "samples")


def test_no_column_has_the_name_of_a_folder() -> None:
    """If this fails, Spark shows a part of a folder's name in a table's column."""
    assert not [name for name, schema in TABLES.items() if "batch_id" in schema.fieldNames()]


def test_a_time_without_rows_of_the_day() -> None:
    """If this fails, an open span is shown as a time."""
    span = Span(end=datetime(2026, 11, 23, 9, tzinfo=timezone(timedelta(hours=1))))
    assert str(span) == "the beginning to 2026-11-23 08:00:00 UTC"


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    """If this fails, an edited or truncated file of a lake makes every command fail with a traceback."""
    lake = Lake(tmp_path)
    complete(lake, 0)
    path = generation(lake).folder / "complete.json"
    path.write_text("")
    with pytest.raises(LakeError, match=f"{path} is damaged .*restore the lake"):
        lake.check(())


def test_a_folder_that_is_no_generation_is_named(tmp_path: Path) -> None:
    """If this fails, a manual copy next to a generation makes every command fail with a traceback."""
    lake = Lake(tmp_path)
    complete(lake, 0)
    strange = generation(lake).folder.with_name("generation-old")
    strange.mkdir()
    with pytest.raises(LakeError, match=f"{strange} is not a folder of a lake"):
        lake.check(())
