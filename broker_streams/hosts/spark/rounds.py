"""A query of Structured Streaming for each sub-topology, in which batches follow one another.

Spark's engine calls `Rounds.call` in the process of the driver, on the thread of the query (foreachBatch). A batch
waits there until its tasks have something to do. Then it is one job of Spark: an RDD that has one partition for each
task, whose only row is the work of the task. Spark's workers carry the work out, and the driver commits all of it.

The engine writes two files of its checkpoint around each call, and starts processes for their permissions. It takes
longer than a small batch, and these files are not read again. So a call goes on with further batches for `CALL_S`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker_streams.hosts.spark import task
from broker_streams.hosts.spark.query import Query

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession

# A source of the JVM that has a row for each call: the engine never waits for records. The row is not read.
_SOURCE: Final = "rate-micro-batch"
CALL_S: Final = 60.0
_Found = TypeVar("_Found")


class Rounds:
    """One run of a query: batch after batch, until it fails or is ended. Python's part of Spark's foreachBatch."""

    def __init__(
        self,
        spark: SparkSession,
        query: Query,
        loop: asyncio.AbstractEventLoop,
        file_name: str,
        rows_max: int,
        interval_s: float,
        *,
        is_held: bool = False,
    ) -> None:
        """`is_held`: the run ends when nothing is left of what the topics had at the start."""
        self._spark, self._query, self._loop = spark, query, loop
        self._file_name, self._rows_max, self._is_held = file_name, rows_max, is_held
        self._interval_s, self._due_s = interval_s, 0.0
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._waiting: Future[dict[str, Any]] | None = None
        self._start: dict[str, Any] | None = None
        self._batch = 0
        # The run is over: `error` says why, or nothing is left.
        self.over = asyncio.Event()
        self.error: BaseException | None = None

    def start(self, pool: str, checkpoint: Path) -> JavaObject:
        """Start the query, in a pool of Spark's scheduler; returns Java's StreamingQuery. Blocks; raises errors of
        Spark and Py4J.
        """
        from pyspark.java_gateway import ensure_callback_server_started

        spark = self._spark
        context, jvm = spark.sparkContext, spark._jvm
        assert jvm is not None
        # Errors of a batch are those of this run, and no concern of Py4J.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        # The session of this thread, in which Spark looks for the sink: only the main thread has one.
        type(spark)._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)
        # A query inherits the pool of the thread that starts it.
        context.setLocalProperty("spark.scheduler.pool", pool)
        # Python's frames would import pandas.
        rows = (
            spark._jsparkSession.readStream().format(_SOURCE).option("rowsPerBatch", "1").option("numPartitions", "1")
        )
        writer = rows.load().writeStream().queryName(self._query.name)
        writer = writer.option("checkpointLocation", checkpoint.as_uri())
        writer = writer.trigger(jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(0))
        sources = jvm.org.apache.spark.sql.execution.streaming.sources
        sources.PythonForeachBatchHelper.callForeachBatch(writer, self)
        ensure_callback_server_started(context._gateway)
        return writer.start()

    def end(self) -> None:
        """Let a batch that waits for records return, and begin no other."""
        with self._lock:
            self._ended.set()
            if self._waiting is not None:
                self._waiting.cancel()

    def call(self, _: JavaObject, number: int) -> None:
        """One call of the engine, in the thread of the query."""
        until_s = time.monotonic() + CALL_S
        try:
            if self._start is None:
                if self._is_held:
                    self._asked(self._query.hold())
                self._start = self._asked(self._query.first())
            while not self.over.is_set() and self._next(self._start) and time.monotonic() < until_s:
                pass
        except BaseException as error:
            self.error = error
            self._loop.call_soon_threadsafe(self.over.set)
            raise

    def _next(self, start: dict[str, Any]) -> bool:
        """Wait for a batch, and carry it out. False: the run is over."""
        query = self._query
        end = self._end_of_next(start)
        if end is None:
            return False
        self._due_s = time.monotonic() + self._interval_s
        work = self._asked(query.plan(start, end))
        rows = self._spark.sparkContext.parallelize(work, max(1, len(work)))
        done = rows.mapPartitions(partial(task.carry_out, self._file_name)).collect()
        self._asked(query.commit(self._batch, [done]))
        self._start, self._batch = end, self._batch + 1
        return True

    def _end_of_next(self, start: dict[str, Any]) -> dict[str, Any] | None:
        """Wait for the next batch; returns its end. None: the run is over."""
        self._ended.wait(max(0.0, self._due_s - time.monotonic()))
        while True:
            with self._lock:
                if self._ended.is_set():
                    return None
                asked = asyncio.run_coroutine_threadsafe(self._query.latest(start, self._rows_max), self._loop)
                self._waiting = asked
            try:
                end = asked.result()
            except CancelledError:
                return None
            if end != start:
                return end
            if self._is_held:
                self._loop.call_soon_threadsafe(self.over.set)
                return None

    def _asked(self, call: Coroutine[Any, Any, _Found]) -> _Found:
        """A call of the driver, whose loop has the connections to the brokers."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    class Java:
        """For Py4J."""

        implements: Final = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]
