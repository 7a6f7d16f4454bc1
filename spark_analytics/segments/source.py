"""The data source "kafka-segments": the rows of Spark's `kafka` source, from the brokers' own files.

    spark.dataSource.register(SegmentSource)
    spark.read.format("kafka-segments").option("path", "/data/kafka").option("topic", "orders").load()

Driver and executors must see the log directories under the same paths. docs/analytics.md has the options.
"""

from __future__ import annotations

import datetime
import functools
import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_analytics.segments import options as known
from spark_analytics.segments import plan, report
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.options import Options
from spark_analytics.segments.plan import Range, Wanted
from spark_analytics.segments.report import Counters
from spark_analytics.segments.walk import Damage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAME = "kafka-segments"
Offsets = dict[str, dict[str, int]]
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
# Columns that are never null are declared so: Spark then does not check each value, and is a tenth faster.
_COLUMNS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType(), False),
    StructField("partition", IntegerType(), False),
    StructField("offset", LongType(), False),
    StructField("timestamp", TimestampType(), False),
    StructField("timestampType", IntegerType(), False),
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)


def register(spark: SparkSession) -> None:
    """Register the source in a session as the format "kafka-segments"."""
    spark.dataSource.register(SegmentSource)


def read(
    spark: SparkSession, directories: Iterable[str | os.PathLike[str]], topics: Iterable[str], **bounds: Any
) -> DataFrame:
    """Return the records of topics in log directories. `bounds` are the other fields of `options.Options`, such as
    `starting_timestamp` (ms) and `on_damage`. Raises SegmentsError for invalid options or topics.
    """
    text = known.as_text((os.path.abspath(each) for each in directories), topics, **bounds)
    options = known.parse(text)
    known.check_batch(options)  # before Spark, which puts a stack trace around the message
    plan.folders(options)
    register(spark)
    return spark.read.format(NAME).options(**text).load()


def schema_of(options: Options) -> StructType:
    """Return the columns, which are those of Spark's `kafka` source."""
    headers = [StructField("headers", ArrayType(_HEADER))] if options.include_headers else []
    return StructType([*_COLUMNS, *headers])


class SegmentSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns. Raises SegmentsError for bad options."""
        return schema_of(known.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = self._options(schema)
        known.check_batch(options)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        options = self._options(schema)
        known.check_stream(options)
        return StreamReader(options, schema)

    def _options(self, schema: StructType) -> Options:
        options = known.parse(self.options)
        if schema != schema_of(options):
            raise SegmentsError(f"the source has the schema {schema_of(options).simpleString()}, and no other")
        return options


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema of Arrow batches, which Spark requires to be exactly this one."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _read(partition: InputPartition, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    from spark_analytics.segments.read import read as read_range

    _freeze()
    if isinstance(partition.value, Range):  # Spark creates another one if the list is empty
        yield from read_range(partition.value, options, arrow_schema(schema))


@functools.cache
def _freeze() -> None:
    """Exclude imported objects from garbage collection, once in a worker: PySpark collects after each task, and would
    traverse all objects of pyarrow and pandas again, which takes longer than reading a few MB.
    """
    gc.collect()
    gc.freeze()


class _PushFilters:
    """`pushFilters` of a reader. Spark refuses a reader with this method while filters are not pushed down
    (spark.sql.python.filterPushdown.enabled), because its filters would silently be missing. With BatchReader none is
    missing: it leaves every filter to Spark, and only reads less. `__func__` makes Spark assume that the method is not
    overridden.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            self._reader.wanted = narrowed(self._reader.wanted, each)
        return filters


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.wanted = Wanted()
        self._options = options
        self._schema = schema

    @property
    def pushFilters(self) -> _PushFilters:
        """Return the object that receives filters; Spark applies all of them again."""
        return _PushFilters(self)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges, one for each task."""
        counters = Counters()
        found = plan.batch_ranges(self._options, self.wanted, Damage(self._options.skips, counters))
        report.write(self._options.report, "plan", counters)
        return [InputPartition(each) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of a range."""
        return _read(partition, self._options, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {topic: {partition: offset}}: the first unread offsets. A partition that is created later is read
    from its start.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        """Return the offsets where the bounds of the options begin."""
        damage = self._new_damage()
        found = {}
        for folder in plan.folders(self._options):
            extent, _ = plan.bounded(folder, self._options, damage)
            found[folder.topic, folder.partition] = plan.start_of(extent, self._options, damage)
        return plan.offsets_json(found)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the option `maxOffsetsPerTrigger`."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return the readable end now, or at the time of the call of `prepareForTriggerAvailableNow`; with
        `maxOffsetsPerTrigger`, an end before that. Tasks divide a batch of any size.
        """
        starts, ends = plan.offsets_of(start or {}), plan.offsets_of(self._target or self._latest())
        for key, offset in starts.items():
            ends[key] = max(offset, ends.get(key, offset))
        if isinstance(limit, ReadMaxRows):
            firsts = self._firsts() if ends.keys() - starts.keys() else {}
            ends = plan.limited(firsts | starts, ends, limit.max_rows)
        return plan.offsets_json(ends)

    def reportLatestOffset(self) -> Offsets | None:
        """Return the readable end, for the status of the query."""
        return self._target

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the readable end."""
        self._target = self._latest()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the ranges between two offsets."""
        ranges = plan.stream_ranges(self._options, start, end, self._new_damage())
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of a range."""
        return _read(partition, self._options, self._schema)

    def _firsts(self) -> dict[tuple[str, int], int]:
        """Return the first offset of each partition."""
        damage = self._new_damage()
        found = [plan.bounded(folder, self._options, damage)[0] for folder in plan.folders(self._options)]
        return {(each.folder.topic, each.folder.partition): each.start for each in found}

    def _latest(self) -> Offsets:
        damage = self._new_damage()
        found = {}
        for folder in plan.folders(self._options):
            extent, _ = plan.bounded(folder, self._options, damage)
            found[folder.topic, folder.partition] = extent.end
        return plan.offsets_json(found)

    def _new_damage(self) -> Damage:
        return Damage(self._options.skips, Counters())


def narrowed(wanted: Wanted, condition: Filter) -> Wanted:
    """Return the selection reduced by one more filter; a filter that does not concern positions changes nothing."""
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    value = getattr(condition, "value", None)
    if len(attribute) != 1 or value is None:
        return wanted
    values = set(value) if isinstance(condition, In) else {value}
    is_equal = isinstance(condition, EqualTo | EqualNullSafe | In)
    match attribute[0]:
        case "topic" if is_equal:
            return replace(wanted, topics=_both(wanted.topics, values))
        case "partition" if is_equal:
            return replace(wanted, partitions=_both(wanted.partitions, values))
        case "offset" if values and all(isinstance(each, int) for each in values):
            return _narrowed_offsets(wanted, condition, is_equal, values)
        case "timestamp" if is_equal or isinstance(condition, GreaterThan | GreaterThanOrEqual):
            times = [_ms(each, isinstance(condition, GreaterThan)) for each in values]
            if times and None not in times:
                since = min(each for each in times if each is not None)
                return replace(wanted, since_ms=max(since, since if wanted.since_ms is None else wanted.since_ms))
    return wanted


def _narrowed_offsets(wanted: Wanted, condition: Filter, is_equal: bool, values: set[int]) -> Wanted:
    start, end = wanted.start, wanted.end
    if is_equal or isinstance(condition, GreaterThanOrEqual):
        start = max(start, min(values))
    if isinstance(condition, GreaterThan):
        start = max(start, min(values) + 1)
    if is_equal or isinstance(condition, LessThanOrEqual):
        end = min(end, max(values) + 1)
    if isinstance(condition, LessThan):
        end = min(end, max(values))
    return replace(wanted, start=start, end=end)


def _both(before: frozenset[Any] | None, values: set[Any]) -> frozenset[Any]:
    return frozenset(values) if before is None else before & values


def _ms(value: Any, is_after: bool) -> int | None:
    """Return the first ms at or after a time, or after it; None for a value that is not a time with a zone."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    since = value - _EPOCH
    return since // _MS + 1 if is_after else -(-since // _MS)
