"""Runs applications on Spark: the driver.

    host = SparkHost(applications, master="local[*]")
    host.start(show)
    await host.run()        until `host.stop()`, or an error of a task
    await host.add(other)   with `serves`: applications come and go while it runs

All applications share one session, one JVM and the workers: each has a pool of Spark's fair scheduler. Each of their
sub-topologies is a streaming query. A query that fails for a reason outside of the application, such as an executor or
a broker that is gone, begins again at the last commit.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_cy.client.errors import ClientError, Failure
from broker_streams.hosts.spark.application import BATCHES_MAX, ROWS_MAX, SparkApplication, batches_at_a_time
from broker_streams.hosts.spark.query import Query
from broker_streams.hosts.spark.rounds import Rounds
from broker_streams.hosts.spark.scratch import Scratch, delete_left
from broker_streams.kernel.errors import StreamsError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("broker_streams")
# Settings of an application for Spark: spark.driver.memory and others, by Spark's names.
SPARK: Final = "spark."
MEMORY: Final = "spark.driver.memory"
# Runs of a query that end without a batch, one after the other; then the application ends.
RUNS_MAX: Final = 5
PAUSE_S: Final = 0.2
# Queries of all applications of a host that serves: each has a thread, which waits for its end.
QUERIES_MAX: Final = 500
# Checkpoints in memory: Spark syncs files of each batch, and the next driver does not read them.
MEMORY_FILES: Final = Path("/dev/shm")
_OPTIONS: Final = {
    "spark.scheduler.mode": "FAIR",
    # A second attempt would write twice.
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # The JVM only schedules: records do not pass through it. By default its heap begins with a 64th of the memory.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms64m -XX:MaxNewSize=32m -XX:MinHeapFreeRatio=20"
        " -XX:MaxHeapFreeRatio=40"
    ),
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
}
# On this machine, workers are forks of a daemon of ours. On others, the daemon comes before what the driver sends.
_LOCAL: Final = {"spark.python.daemon.module": "broker_streams.hosts.spark.daemon"}
_DRIVER_PYTHON: Final = "PYSPARK_DRIVER_PYTHON"


class SparkHost:
    """`started` is called in the loop when all queries run for the first time; with `once`, the first of each
    application.
    """

    def __init__(
        self,
        applications: Sequence[SparkApplication],
        *,
        master: str | None = None,
        once: bool = False,
        serves: bool = False,
    ) -> None:
        """`once`: `run` returns when all is processed that the topics had. `serves`: `run` goes on until `stop`, also
        without applications, and others may be added. Raises ValueError: two applications with one id.
        """
        self.applications = list(applications)
        names = [each.name for each in self.applications]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"application.id {name} is given twice; each application needs its own")
        self._queries = {query.name: query for each in self.applications for query in each.queries}
        # Spark keeps as many Python processes for plans and commits as batches run at a time.
        together = [batches_at_a_time(each.config) for each in self.applications] or [batches_at_a_time({})]
        self._turns = asyncio.Semaphore(min(together))
        for query in self._queries.values():
            query.turns = self._turns
        self._master, self._once, self._serves = master, once, serves
        # The applications of `add`, with what runs them.
        self._added: dict[str, tuple[SparkApplication, asyncio.Task[None]]] = {}
        self._spark: SparkSession | None = None
        self._stopping, self._starting = asyncio.Event(), asyncio.Lock()
        self._threads = ThreadPoolExecutor((QUERIES_MAX if serves else len(self._queries)) + 4, "streams-query")
        checkpoints = MEMORY_FILES if MEMORY_FILES.is_dir() else None
        for each in (None, checkpoints):
            for left in delete_left(each):
                _LOG.warning("%s was deleted: its driver is gone", left)
        self._sent, self._checkpoints = Scratch(), Scratch(checkpoints)

    def start(self, show: Callable[[str], None] = _LOG.info, *, verbose: bool = False) -> None:
        """Start Spark, which takes seconds. Raises SetUpError."""
        from spark_analytics.cluster import is_local
        from spark_analytics.session import Needs, session

        options = {
            name: str(value)
            for each in self.applications
            for name, value in each.config.items()
            if name.startswith(SPARK) and name not in (ROWS_MAX, BATCHES_MAX, MEMORY)
        }
        is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        is_here = not is_submitted if self._master is None else is_local(self._master)
        memory = next((str(each.config[MEMORY]) for each in self.applications if MEMORY in each.config), "512m")
        needs = Needs(
            "broker-streams",
            "spark",
            ("broker_cy", "broker_registry", "broker_sql", "broker_streams", "spark_analytics"),
            ("broker_streams.hosts.spark.worker",),
            {**_OPTIONS, **(_LOCAL if is_here else {}), **options},
        )
        _leave_numpy_out()
        names = " ".join(each.name for each in self.applications) or "applications"
        try:
            with _no_python_of_the_driver():
                spark = session(names, master=self._master, memory=memory, verbose=verbose, needs=needs, show=show)
        except BaseException:
            self._delete()
            raise
        self._spark = spark
        for each in self.applications:
            self._send(each)

    def _send(self, application: SparkApplication) -> None:
        """Give workers the file of an application."""
        assert self._spark is not None
        path = self._sent.path / application.file_name
        path.write_bytes(application.data)
        self._spark.sparkContext.addFile(str(path))

    def stop(self) -> None:
        """Let `run` end the queries and return. An open batch is aborted, and begins again with the next start."""
        self._stopping.set()
        for each in (*self.applications, *(application for application, _ in self._added.values())):
            each.stopping.set()

    async def add(self, application: SparkApplication) -> None:
        """Run another application beside the others, while `run` runs. An error that ends it is `life.error` of it.

        Raises ValueError: one with its id runs, or there are too many queries."""
        count = sum(len(each.queries) for each, _ in self._added.values()) + len(self._queries)
        if count + len(application.queries) > QUERIES_MAX:
            raise ValueError(f"{application.name} has {len(application.queries)} queries: {QUERIES_MAX} may run")
        if application.name in self._added or application.name in [each.name for each in self.applications]:
            raise ValueError(f"application {application.name} runs already")
        for query in application.queries:
            query.turns = self._turns
        running = asyncio.create_task(self._run_added(application))
        self._added[application.name] = application, running

    async def remove(self, name: str) -> None:
        """End an application that was added, at its last commit. Raises ValueError: none has that id."""
        if name not in self._added:
            raise ValueError(f"application {name} does not run")
        application, running = self._added[name]
        application.stopping.set()
        await asyncio.wait([running])
        self._added.pop(name, None)

    async def ended(self, name: str) -> None:
        """Wait until an application that was added has ended. Raises ValueError: none has that id."""
        if name not in self._added:
            raise ValueError(f"application {name} does not run")
        await asyncio.wait([self._added[name][1]])

    async def _run_added(self, application: SparkApplication) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._send, application)
            queries = [self._keep(application, query, asyncio.Event()) for query in application.queries]
            async with asyncio.TaskGroup() as group:
                for each in queries:
                    group.create_task(_watched(application, each))
        except Exception as error:
            # The first one is the reason of `life`.
            application.ends(error)
            _LOG.warning("%s has ended: %s", application.name, application.life.error)
        finally:
            await _closed(application)

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Raises StreamsError: a task cannot go on. ClientError: the cluster refuses an application, or Spark fails
        again and again.
        """
        if self._once:
            begun = [asyncio.Event() for _ in self.applications]
            running = [
                asyncio.create_task(_watched(application, self._drain(application, each)))
                for application, each in zip(self.applications, begun, strict=True)
            ]
        else:
            begun = [asyncio.Event() for _ in self._queries]
            pairs = [(each, query) for each in self.applications for query in each.queries]
            running = [
                asyncio.create_task(_watched(application, self._keep(application, query, each)))
                for (application, query), each in zip(pairs, begun, strict=True)
            ]
        ready = asyncio.create_task(_tell(begun, started))
        stopping = asyncio.create_task(self._stopping.wait())
        everything = asyncio.gather(*running)
        try:
            ends: list[asyncio.Future[Any]] = [stopping, everything] if running or not self._serves else [stopping]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
        finally:
            self.stop()
            ready.cancel()
            added = [task for _, task in self._added.values()]
            await asyncio.gather(*running, *added, everything, ready, stopping, return_exceptions=True)
            await self._close()

    async def _keep(self, application: SparkApplication, query: Query, begun: asyncio.Event) -> None:
        """Run a query until its application stops. Raises StreamsError, ClientError, ValueError."""
        if not await application.connected(application.stopping):
            return
        while not application.stopping.is_set():
            await self._attempts(application, query, begun)
        await _settled(query)

    async def _drain(self, application: SparkApplication, begun: asyncio.Event) -> None:
        """Run the queries one after the other until nothing is left of what the topics had at the start. Raises as
        `_keep`.
        """
        if not await application.connected(application.stopping):
            return
        before = -1
        while before != (before := sum(query.figures.batches for query in application.queries)):
            for query in application.queries:
                if not application.stopping.is_set():
                    await self._attempts(application, query, begun)
            # The next round sees all that this one has committed.
            for query in application.queries:
                await query.settle()

    async def _attempts(self, application: SparkApplication, query: Query, begun: asyncio.Event) -> None:
        """Run a query until it ends, or its application stops; after a failure it begins again. Raises StreamsError,
        ClientError, ValueError.
        """
        failures = 0
        while not application.stopping.is_set():
            batches = query.figures.batches
            try:
                application.begins(query)
                await query.begin(await application.prepared())
                reason = await self._run_once(application, query, begun)
            except ClientError as error:
                if not error.retriable:
                    raise
                reason = str(error)
            if query.failure is not None:
                await _settled(query)
                raise query.failure
            if reason is None:
                return
            failures = 1 if query.figures.batches > batches else failures + 1
            if failures > RUNS_MAX:
                raise ClientError(Failure.REFUSED, f"{failures} runs failed: {reason}", what=f"query {query.name}")
            _LOG.warning("query %s begins again at its last commit: %s", query.name, reason)
            with suppress(TimeoutError):
                await asyncio.wait_for(application.stopping.wait(), PAUSE_S * 2**failures)

    async def _run_once(self, application: SparkApplication, query: Query, begun: asyncio.Event) -> str | None:
        """Run a query until it fails; returns why. None: it has ended, or its application stops."""
        loop, threads = asyncio.get_running_loop(), self._threads
        assert self._spark is not None
        checkpoint = Path(tempfile.mkdtemp(prefix=f"{query.name}-", dir=self._checkpoints.path))
        rounds = Rounds(
            self._spark,
            query,
            loop,
            application.file_name,
            application.rows_max,
            application.settings.commit_interval_ms / 1000,
            is_held=self._once,
        )
        stopping = asyncio.ensure_future(application.stopping.wait())
        over = asyncio.ensure_future(rounds.over.wait())
        try:
            # One after the other: a start takes one core.
            async with self._starting:
                try:
                    streaming = await loop.run_in_executor(threads, rounds.start, application.name, checkpoint)
                except Exception as error:  # of Spark or Py4J
                    if _is_without_jvm(error):
                        query.failure = StreamsError(
                            f"the JVM of Spark has ended ({error}); start the application again"
                        )
                    return _reason(str(error))
            begun.set()
            application.runs(query, once=self._once)
            ending = loop.run_in_executor(threads, _ended, streaming)
            running: list[asyncio.Future[Any]] = [ending, stopping, over]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            rounds.end()
            if not ending.done():
                # The JVM may be gone.
                with suppress(Exception):
                    await loop.run_in_executor(threads, streaming.stop)
            reason = await ending
            if rounds.error is not None and not application.stopping.is_set():
                return reason_of(rounds.error)
            return None if application.stopping.is_set() or rounds.over.is_set() else reason
        finally:
            stopping.cancel()
            over.cancel()
            query.give_turn_back()
            shutil.rmtree(checkpoint, ignore_errors=True)

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self.applications:
            await _closed(each)
        if self._spark is not None:
            # The JVM may be gone.
            with suppress(Exception):
                await loop.run_in_executor(self._threads, self._spark.stop)
        self._threads.shutdown(wait=False)
        self._delete()

    def _delete(self) -> None:
        self._sent.close()
        self._checkpoints.close()


async def _watched(application: SparkApplication, running: Awaitable[None]) -> None:
    """Note the error that ends an application. Raises as `running`."""
    try:
        await running
    except Exception as error:
        application.ends(error)
        raise


async def _closed(application: SparkApplication) -> None:
    application.ends()
    with suppress(ClientError):
        await application.announce_end()
    await application.client.close()


async def _settled(query: Query) -> None:
    """Abort what is open. Without it, the brokers do so after the timeout of the transaction."""
    with suppress(ClientError, StreamsError):
        await query.settle()


async def _tell(begun: list[asyncio.Event], started: Callable[[], None]) -> None:
    for each in begun:
        await each.wait()
    started()


def _ended(streaming: JavaObject) -> str | None:
    """Wait for the end of a query; returns the reason of a failure."""
    try:
        streaming.awaitTermination()
    except Exception as error:  # of Spark or Py4J, with the stack traces of both
        return _reason(str(error))
    return None


def _is_without_jvm(error: Exception) -> bool:
    """Whether a call of the JVM failed because nothing listens there any more."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    return isinstance(error, ConnectionRefusedError | Py4JNetworkError)


@contextmanager
def _no_python_of_the_driver() -> Iterator[None]:
    """Spark starts a Python process to look for data sources that are written in Python, before it takes one of its
    own. It takes seconds of CPU, and fails on a busy machine. Without a Python for the driver, Spark does not look.
    """
    before = os.environ.get(_DRIVER_PYTHON)
    os.environ[_DRIVER_PYTHON] = "no-python-of-the-driver"
    try:
        yield
    finally:
        del os.environ[_DRIVER_PYTHON]
        if before is not None:
            os.environ[_DRIVER_PYTHON] = before


def _leave_numpy_out() -> None:
    """Let Py4J convert no NumPy arrays: for that, it imports NumPy and pandas at the first call of the JVM, 80 MB. No
    call of this host has such arguments.
    """
    from py4j import protocol  # type: ignore[import-untyped]
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    theirs = NumpyArrayConverter | NumpyScalarConverter
    protocol.INPUT_CONVERTER[:] = [each for each in protocol.INPUT_CONVERTER if not isinstance(each, theirs)]


def reason_of(error: BaseException) -> str:
    name = type(error).__name__
    # The name of an error of Py4J only says that Java has raised one.
    return _reason(str(error) if name.startswith("Py4J") else f"{name}: {error}")


def _reason(text: str) -> str:
    """The line of a stack trace that says most: the last error of Python, or the exception of Java."""
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    errors = [each for each in lines if re.match(r"[\w.]*(Error|Attempt)\b: ", each)]
    # Py4J's first line names its own object.
    java = [each.removeprefix(": ") for each in lines if not each.startswith(("An error occurred", "at "))]
    return (errors[-1:] or java or lines or ["no reason was given"])[0]
