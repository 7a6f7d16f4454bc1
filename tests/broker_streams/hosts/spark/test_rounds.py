"""Batches of a query one after the other, with a JVM that runs jobs in this process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from broker_streams.hosts.spark import daemon
from broker_streams.hosts.spark.host import reason_of
from broker_streams.hosts.spark.query import QueryError
from broker_streams.hosts.spark.rounds import Rounds


class Rows:
    def __init__(self, rows: list[bytes]) -> None:
        self._rows = rows

    def mapPartitions(self, function: Callable[[Iterable[bytes]], Iterator[bytes]]) -> Rows:
        return Rows([b"done " + each for each in self._rows])

    def collect(self) -> list[bytes]:
        return self._rows


class Spark:
    """Each partition has one row."""

    @property
    def sparkContext(self) -> Spark:
        return self

    def parallelize(self, rows: list[bytes], partitions: int) -> Rows:
        assert partitions == len(rows)
        return Rows(rows)


class Batches:
    """A query that has this many batches."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self._count, self._error = count, error
        self.committed: list[tuple[int, list[list[bytes]]]] = []
        self.is_held = False
        self.waits = asyncio.Event()

    async def first(self) -> dict[str, Any]:
        return {"at": 0}

    async def hold(self) -> None:
        self.is_held = True

    async def latest(self, start: dict[str, Any], rows_max: int | None) -> dict[str, Any]:
        if start["at"] < self._count:
            return {"at": start["at"] + 1}
        if not self.is_held:
            self.waits.set()
            await asyncio.Event().wait()
        return start

    async def plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        return [b"%d-%d" % (start["at"], end["at"]), b"other"]

    async def commit(self, batch: int, results: list[list[bytes]]) -> None:
        if self._error is not None:
            raise self._error
        self.committed.append((batch, results))


def rounds_of(query: Batches, *, is_held: bool = False) -> Rounds:
    loop = asyncio.get_running_loop()
    spark: Any = Spark()
    batches: Any = query
    return Rounds(spark, batches, loop, "application", 100, 0.0, is_held=is_held)


def test_batches_follow_one_another_in_a_call_until_the_run_is_ended() -> None:
    """If this fails, the engine writes its files for each batch, or a query that waits for records cannot be ended."""

    async def job() -> None:
        query = Batches(3)
        rounds = rounds_of(query)
        called = asyncio.create_task(asyncio.to_thread(rounds.call, None, 0))
        await query.waits.wait()
        rounds.end()
        await called
        expected = [(at, [[b"done %d-%d" % (at, at + 1), b"done other"]]) for at in range(3)]
        assert query.committed == expected
        # No further call of the engine begins a batch.
        await asyncio.to_thread(rounds.call, None, 1)
        assert len(query.committed) == 3
        assert rounds.error is None

    asyncio.run(job())


def test_a_run_over_what_is_there_is_over_when_nothing_is_left() -> None:
    """If this fails, --once never ends, or ends too early."""

    async def job() -> None:
        query = Batches(2)
        rounds = rounds_of(query, is_held=True)
        await asyncio.to_thread(rounds.call, None, 0)
        await rounds.over.wait()
        assert [batch for batch, _ in query.committed] == [0, 1]
        assert rounds.error is None

    asyncio.run(job())


def test_an_error_of_a_batch_is_that_of_the_run() -> None:
    """If this fails, a batch that was not committed is taken for one that was."""

    async def job() -> None:
        error = RuntimeError("the brokers do not answer")
        rounds = rounds_of(Batches(2, error))
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(rounds.call, None, 0)
        await rounds.over.wait()
        assert rounds.error is error

    asyncio.run(job())


def test_workers_share_what_the_daemon_has_imported() -> None:
    """If this fails, each worker imports the kernel again, or pandas, and takes that much more memory."""
    text = "from broker_streams.hosts.spark import daemon; daemon.prepare(); import sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    assert {"pyspark.worker", "broker_streams.hosts.spark.worker"} <= set(found)
    assert not {"pandas", "numpy", "pyarrow"} & set(found)


def test_spark_s_archives_are_no_places_to_import_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each task of Spark reads the directory of an archive of 2,000 files again."""
    others = ["", "/app/lib/wheel.zip", "/site-packages"]
    archives = ["/x/pyspark/python/lib/pyspark.zip", "/x/pyspark/python/lib/py4j-0.10.9.9-src.zip"]
    monkeypatch.setattr(sys, "path", [*archives, *others])
    daemon.leave_archives_out()
    assert sys.path == others


class Py4JJavaError(Exception):
    pass


JOB = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times: {}
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
"""
TRACE = """Traceback (most recent call last):
  File "worker.py", line 1, in run
broker_cy.client.errors.ClientError: the brokers do not answer
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Py4JJavaError(JOB.format("Python worker exited unexpectedly (crashed)")), "worker exited unexpectedly"),
        (Py4JJavaError(JOB.format(TRACE)), "broker_cy.client.errors.ClientError: the brokers do not answer"),
        (Py4JJavaError("An error occurred while calling o9.awaitTermination"), "calling o9.awaitTermination"),
        (QueryError("topic in has 3 partitions now"), "QueryError: topic in has 3 partitions now"),
    ],
)
def test_the_reason_of_a_failed_run_is_the_line_that_says_most(error: Exception, reason: str) -> None:
    """If this fails, a user reads that Py4J has called something, and not what went wrong."""
    assert reason in reason_of(error)
