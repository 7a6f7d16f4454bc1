"""The source in Spark: the rows of Spark's Kafka source, filters that read less, and streams that read new records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_analytics.segments import report, source
from spark_analytics.segments.errors import SegmentsError
from tests.spark_analytics.segments.logs import TIME_MS, Log
from tests.spark_analytics.segments.logs import records as new_records

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["true", "false"])
def pushdown(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    before = spark.conf.get(PUSHDOWN, None)
    spark.conf.set(PUSHDOWN, request.param)
    yield request.param == "true"
    spark.conf.unset(PUSHDOWN) if before is None else spark.conf.set(PUSHDOWN, before)


def listed(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("topic", "partition", "offset").collect()]


def test_filters_give_the_same_rows_and_read_less(spark: SparkSession, tmp_path: Path, pushdown: bool) -> None:
    """If this fails, a filter gives other rows with pushdown than without, or does not save reading."""
    log = Log(tmp_path / "data")
    for _ in range(60):
        log.append(new_records(20, log.next_offset, value_bytes=1000))
    report_to = tmp_path / "report"
    frame = source.read(spark, [tmp_path / "data"], ["t"], report=str(report_to))
    since = f.timestamp_millis(f.lit(TIME_MS + 1_100_000))
    chosen = frame.where((f.col("timestamp") >= since) & (f.col("offset") < 1110) & (f.col("partition") == 0))
    assert [row.offset for row in chosen.select("offset").collect()] == list(range(1100, 1110))
    size = log.path("log").stat().st_size
    assert (report.total(report_to).bytes_read < size * 0.15) is pushdown


def test_damage_and_bad_options_are_named_to_the_user(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a Spark user does not learn which file is damaged, or which options exist."""
    log = Log(tmp_path)
    log.append(new_records(3))
    log.append(new_records(3, 3))
    log.flip(3, 70)
    with pytest.raises(PySparkException) as caught:
        source.read(spark, [tmp_path], ["t"]).count()
    assert f"{log.path('log')}: at byte {log.positions[3]}, where offset 3 is expected" in str(caught.value)
    assert source.read(spark, [tmp_path], ["t"], on_damage="skip").count() == 3
    with pytest.raises(SegmentsError, match="topic u is not in"):
        source.read(spark, [tmp_path], ["u"])
    with pytest.raises(PySparkException, match="unknown option 'startoffset'; allowed are path, topic"):
        spark.read.format(source.NAME).options(path=str(tmp_path), topic="t", startOffset="5").load()
    with pytest.raises(PySparkException, match="the source has the schema struct<key:binary"):
        spark.read.format(source.NAME).schema("key binary").options(path=str(tmp_path), topic="t").load().collect()


def run_once(spark: SparkSession, data: Path, out: Path, **options: str) -> list[int]:
    """Run a query with availableNow; return all offsets that it has ever written, including duplicates."""
    query = (
        spark.readStream.format(source.NAME)
        .options(path=str(data), topic="t", **options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{out}/rows")
    )
    assert query.awaitTermination(120)
    return sorted(row.offset for row in spark.read.parquet(f"{out}/rows").select("offset").collect())


@pytest.mark.full
def test_a_stream_reads_what_was_added_and_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    """If this fails, a stream loses or duplicates records between two runs, or across a segment roll."""
    source.register(spark)
    log = Log(tmp_path / "data")
    log.append(new_records(10))
    assert run_once(spark, log.root, tmp_path, startingOffset="4") == list(range(4, 10))
    log.append(new_records(5, 10))
    log.roll()
    log.append(new_records(5, 15))
    Log(log.root, "t", 1).append(new_records(3))  # a new partition is read from its start
    assert run_once(spark, log.root, tmp_path) == sorted([*range(4, 20), 0, 1, 2])


@pytest.mark.full
def test_a_stream_has_no_end_and_notices_deleted_offsets(tmp_path: Path) -> None:
    """If this fails, a stream accepts a bound that it ignores, or silently continues after a gap."""
    log = Log(tmp_path)
    log.append(new_records(10))
    given = {"path": str(tmp_path), "topic": "t"}
    schema = source.SegmentSource(given).schema()
    with pytest.raises(SegmentsError, match="'endingOffset' is not allowed in a stream"):
        source.SegmentSource({**given, "endingOffset": "5"}).streamReader(schema)
    with pytest.raises(SegmentsError, match="'maxOffsetsPerTrigger' is only allowed in a stream"):
        source.SegmentSource({**given, "maxOffsetsPerTrigger": "5"}).reader(schema)
    reader = source.SegmentSource(given).streamReader(schema)
    assert reader.initialOffset() == {"t": {"0": 0}}
    assert reader.latestOffset({"t": {"0": 3}}, None) == {"t": {"0": 10}}  # type: ignore[arg-type]
    log.roll()
    log.append(new_records(1, 10))
    log.path("log", 0).unlink()
    with pytest.raises(Exception, match="offsets up to 10 were deleted before they were read"):
        reader.partitions({"t": {"0": 3}}, {"t": {"0": 11}})
    with pytest.raises(Exception, match="was the topic deleted and created again"):
        reader.partitions({"t": {"0": 10}}, {"t": {"0": 12}})
