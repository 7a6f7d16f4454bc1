"""Spark's view of a sub-topology: a source whose rows are the work of tasks, and a sink that carries it out.

    spark.readStream.format("streams-work").options(link=PATH, query=NAME, rowsmax=N).load()
    frame.writeStream.format("streams-tasks").options(link=PATH, query=NAME, application=FILE)

One Spark partition is one task in one batch, and has one row. The module imports little: Spark starts a Python process
for each plan and each commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StructField, StructType

from broker_streams.hosts.spark.link import Link

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SOURCE, SINK = "streams-work", "streams-tasks"
_ROLE: Final = "BROKER_STREAMS_ROLE"
# Option names are case insensitive in Spark.
LINK, QUERY, APPLICATION, ROWS_MAX = "link", "query", "application", "rowsmax"
_SCHEMA: Final = StructType([StructField("work", BinaryType(), False)])


class TaskSource(DataSource):
    """The work of tasks, as rows."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> StructType:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TaskReader(self.options[LINK], self.options[QUERY], int(self.options[ROWS_MAX]))


class TaskSink(DataSource):
    """Carries the work out."""

    @classmethod
    def name(cls) -> str:
        return SINK

    def schema(self) -> StructType:
        return _SCHEMA

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return TaskWriter(self.options[LINK], self.options[QUERY], self.options[APPLICATION])


def register(spark: SparkSession) -> None:
    """Register both in a session. Spark has a pool of Python processes for each environment: those of the sink keep
    tasks, and do nothing else.
    """
    environment = spark.sparkContext.environment
    spark.dataSource.register(TaskSource)
    environment[_ROLE] = "tasks"
    try:
        spark.dataSource.register(TaskSink)
    finally:
        del environment[_ROLE]


class _Asking:
    """A part of the driver in a process of Spark: it is copied to workers without its connection."""

    def __init__(self, path: str, query: str) -> None:
        self._path, self._query = path, query
        self._link: Link | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_link": None}

    def _ask(self, method: str, *words: Any) -> Any:
        if self._link is None:
            self._link = Link(self._path)
        return self._link.call(self._query, method, *words)


class TaskReader(_Asking, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are those up to which batches read, by topic and partition (query.Query)."""

    def __init__(self, path: str, query: str, rows_max: int) -> None:
        super().__init__(path, query)
        self._rows_max = rows_max

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._ask("hold")

    def initialOffset(self) -> dict[str, Any]:
        return dict(self._ask("first"))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return dict(self._ask("latest", start, rows))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(work) for work in self._ask("plan", start, end)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        yield (partition.value,)

    def commit(self, end: dict[str, Any]) -> None:
        """The writer has committed already."""


@dataclass
class Results(WriterCommitMessage):
    """The `Done` of the tasks of one Spark partition, pickled."""

    done: tuple[bytes, ...]


class RepeatedAttempt(RuntimeError):
    """Spark runs a part of a batch again. The batch must fail: the first attempt may have written a part of it."""


class TaskWriter(_Asking, DataSourceStreamArrowWriter):
    """Carries the work of tasks out; the driver commits or aborts all of it."""

    def __init__(self, path: str, query: str, application: str) -> None:
        super().__init__(path, query)
        self._application = application

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import SparkFiles, TaskContext

        from broker_streams.hosts.spark import worker

        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            raise RepeatedAttempt(f"attempt {context.attemptNumber()} of a task: the batch begins again as a whole")
        path = SparkFiles.get(self._application)
        return Results(tuple(worker.run(path, work.as_py()) for batch in iterator for work in batch.column(0)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        found = [each.done if isinstance(each, Results) else None for each in messages]
        self._ask("commit", batchId, found)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing counts that was not committed: the driver fences its writers before the next batch."""
