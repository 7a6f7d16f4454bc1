"""Runs applications on Spark: the driver.

    host = SparkHost(applications, master="local[*]")
    host.start(show)
    await host.run()        until `host.stop()`, or an error of a task

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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_streams.hosts.clients import client_of
from broker_streams.hosts.settings import EXACTLY_ONCE, HostSettings
from broker_streams.hosts.spark import progress, shipped, source, worker
from broker_streams.hosts.spark.link import LinkServer
from broker_streams.hosts.spark.query import Query
from broker_streams.hosts.spark.topics import Topics, prepared
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Topology
from broker_streams.settings import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger("broker_streams")
# Settings of an application for Spark: spark.driver.memory and others, by Spark's names.
SPARK: Final = "spark."
MEMORY: Final = "spark.driver.memory"
# Offsets of one batch of a query, at most.
ROWS_MAX: Final = "spark.streams.batch.records.max"
# Batches of all queries of a driver that run at a time; by default as many as this machine has cores, and two at least.
BATCHES_MAX: Final = "spark.streams.concurrent.batches.max"
# Runs of a query that end without a batch, one after the other; then the application ends.
RUNS_MAX: Final = 5
PAUSE_S: Final = 0.2
# A batch takes longer than a commit of the embedded host.
TRANSACTION_MS: Final = 60_000
# Checkpoints in memory: Spark syncs files of each batch, and the next driver does not read them.
MEMORY_FILES: Final = Path("/dev/shm")
_OPTIONS: Final = {
    "spark.scheduler.mode": "FAIR",
    # A second attempt would write twice.
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.adaptive.enabled": "false",
}


class SparkApplication:
    """One application in the driver."""

    def __init__(self, topology: Topology, config: Mapping[str, Any], directory: Path | None = None) -> None:
        """`directory` has the modules that the application's file imports. Raises ValueError: a setting that cannot be
        on Spark, or an object in a function that cannot be copied.
        """
        config = {"transaction.timeout.ms": TRANSACTION_MS, **config}
        settings = HostSettings.of(config)
        if not settings.is_exactly_once:
            raise ValueError(f"processing.guarantee is {settings.guarantee}; on Spark {EXACTLY_ONCE} is allowed")
        self.rows_max: int = read(config).get(ROWS_MAX)
        _batches(config)
        self.topology, self.config, self.settings = topology, config, settings
        self.data = shipped.packed(shipped.Shipped(topology, config), directory)
        self.file_name = worker.file_name(settings.application_id, self.data)
        name = settings.application_id
        self.client: AdminClient = client_of(config, name, name, timeout_s=worker.CALL_S)
        self.queries = [Query(self.client, topology, part, settings) for part in topology.subtopologies()]
        self._preparing = asyncio.Lock()

    @property
    def name(self) -> str:
        return self.settings.application_id

    async def prepared(self) -> Topics:
        """Raises TopologyError, ClientError."""
        async with self._preparing:
            await progress.ensure_topic(self.client)
            return await prepared(self.client, self.topology, self.settings)


class SparkHost:
    """`started` is called in the loop when all queries run for the first time."""

    def __init__(
        self, applications: Sequence[SparkApplication], *, master: str | None = None, once: bool = False
    ) -> None:
        """`once`: `run` returns when all is processed that the topics had. Raises ValueError: two applications with one
        id.
        """
        self.applications = list(applications)
        names = [each.name for each in self.applications]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"application.id {name} is given twice; each application needs its own")
        self._queries = {query.name: query for each in self.applications for query in each.queries}
        # Spark keeps as many Python processes for plans and commits as batches run at a time.
        turns = asyncio.Semaphore(min(_batches(each.config) for each in self.applications))
        for query in self._queries.values():
            query.turns = turns
        self._master, self._once = master, once
        self._spark: SparkSession | None = None
        self._stopping, self._starting = asyncio.Event(), asyncio.Lock()
        self._threads = ThreadPoolExecutor(len(self._queries) + 4, "streams-query")
        self._directory = Path(tempfile.mkdtemp(prefix="broker-streams-"))
        checkpoints = MEMORY_FILES if MEMORY_FILES.is_dir() else None
        self._checkpoints = Path(tempfile.mkdtemp(prefix="broker-streams-", dir=checkpoints))
        self._link: LinkServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, show: Callable[[str], None] = _LOG.info, *, verbose: bool = False) -> None:
        """Start Spark, which takes seconds. Raises SetUpError."""
        from spark_analytics.session import Needs, session

        options = {
            name: str(value)
            for each in self.applications
            for name, value in each.config.items()
            if name.startswith(SPARK) and name not in (ROWS_MAX, BATCHES_MAX, MEMORY)
        }
        memory = next((str(each.config[MEMORY]) for each in self.applications if MEMORY in each.config), "512m")
        needs = Needs(
            "broker-streams",
            "spark",
            ("broker_cy", "broker_streams", "spark_analytics"),
            ("pyarrow", "broker_streams.hosts.spark.worker"),
            {**_OPTIONS, **options},
        )
        names = " ".join(each.name for each in self.applications)
        try:
            spark = session(names, master=self._master, memory=memory, verbose=verbose, needs=needs, show=show)
        except BaseException:
            self._delete()
            raise
        source.register(spark)
        for each in self.applications:
            path = self._directory / each.file_name
            path.write_bytes(each.data)
            spark.sparkContext.addFile(str(path))
        self._spark = spark

    def stop(self) -> None:
        """Let `run` end the queries and return. An open batch is aborted, and begins again with the next start."""
        self._stopping.set()

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Raises StreamsError: a task cannot go on. ClientError: the cluster refuses an application, or Spark fails
        again and again.
        """
        self._loop = asyncio.get_running_loop()
        self._link = LinkServer(self._directory, self._answer)
        begun = [asyncio.Event() for _ in self._queries]
        if self._once:
            running = [asyncio.create_task(self._drain(each)) for each in self.applications]
        else:
            pairs = [(each, query) for each in self.applications for query in each.queries]
            running = [asyncio.create_task(self._keep(*pair, each)) for pair, each in zip(pairs, begun, strict=True)]
        ready = asyncio.create_task(_tell(begun, started))
        stopping = asyncio.create_task(self._stopping.wait())
        everything = asyncio.gather(*running)
        try:
            ends: list[asyncio.Future[Any]] = [stopping, everything]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
        finally:
            self._stopping.set()
            ready.cancel()
            await asyncio.gather(*running, everything, ready, stopping, return_exceptions=True)
            await self._close()

    def _answer(self, query: str, method: str, *words: Any) -> Any:
        """A call of Spark's Python processes, in a thread of its connection."""
        assert self._loop is not None
        called = getattr(self._queries[query], method)(*words)
        return asyncio.run_coroutine_threadsafe(called, self._loop).result()

    async def _keep(self, application: SparkApplication, query: Query, begun: asyncio.Event) -> None:
        """Run a query until the host stops. Raises StreamsError, ClientError, ValueError."""
        while not self._stopping.is_set():
            await self._attempts(application, query, begun)
        await _settled(query)

    async def _drain(self, application: SparkApplication) -> None:
        """Run the queries one after the other until nothing is left of what the topics had at the start. Raises as
        `_keep`.
        """
        before = -1
        while before != (before := sum(query.figures.batches for query in application.queries)):
            for query in application.queries:
                if not self._stopping.is_set():
                    await self._attempts(application, query, asyncio.Event())
            # The next round sees all that this one has committed.
            for query in application.queries:
                await query.settle()

    async def _attempts(self, application: SparkApplication, query: Query, begun: asyncio.Event) -> None:
        """Run a query until it ends, or the host stops; after a failure it begins again. Raises StreamsError,
        ClientError, ValueError.
        """
        failures = 0
        while not self._stopping.is_set():
            batches = query.figures.batches
            try:
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
                await asyncio.wait_for(self._stopping.wait(), PAUSE_S * 2**failures)

    async def _run_once(self, application: SparkApplication, query: Query, begun: asyncio.Event) -> str | None:
        """Run a query until it fails; returns why. None: it has ended, or the host stops."""
        loop, threads = asyncio.get_running_loop(), self._threads
        checkpoint = Path(tempfile.mkdtemp(prefix=f"{query.name}-", dir=self._checkpoints))
        stopping = asyncio.ensure_future(self._stopping.wait())
        query.asked.clear()
        asked = asyncio.ensure_future(query.asked.wait())
        try:
            # One after the other: Spark keeps each Python process that plans a query, and one can plan all. Many
            # processes that start at once on few cores need longer than the ten seconds that Spark waits for each.
            async with self._starting:
                try:
                    streaming = await loop.run_in_executor(threads, self._started, application, query, checkpoint)
                except Exception as error:  # of Spark or Py4J: the JVM may be gone
                    return _reason(str(error))
                ending = loop.run_in_executor(threads, _ended, streaming)
                starting: list[asyncio.Future[Any]] = [ending, stopping, asked]
                await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
            begun.set()
            running: list[asyncio.Future[Any]] = [ending, stopping]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                # The JVM may be gone.
                with suppress(Exception):
                    await loop.run_in_executor(threads, streaming.stop)
                await ending
                return None
            return await ending
        finally:
            stopping.cancel()
            asked.cancel()
            query.give_turn_back()
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _started(self, application: SparkApplication, query: Query, checkpoint: Path) -> StreamingQuery:
        spark, link = self._spark, self._link
        assert spark is not None
        assert link is not None
        # The session of this thread, in which Spark looks for the sink: only the main thread has one.
        type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        # A query inherits the pool of the thread that starts it.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", application.name)
        options = {
            source.LINK: link.path,
            source.QUERY: query.name,
            source.APPLICATION: application.file_name,
            source.ROWS_MAX: str(application.rows_max),
        }
        every = f"{application.settings.commit_interval_ms} milliseconds"
        trigger: dict[str, Any] = {"availableNow": True} if self._once else {"processingTime": every}
        return (
            spark.readStream.format(source.SOURCE)
            .options(**options)
            .load()
            .writeStream.format(source.SINK)
            .options(**options)
            .option("checkpointLocation", checkpoint.as_uri())
            .queryName(query.name)
            .trigger(**trigger)
            .start()
        )

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        if self._link is not None:
            self._link.close()
        for each in self.applications:
            await each.client.close()
        if self._spark is not None:
            # The JVM may be gone.
            with suppress(Exception):
                await loop.run_in_executor(self._threads, self._spark.stop)
        self._threads.shutdown(wait=False)
        self._delete()

    def _delete(self) -> None:
        for directory in (self._directory, self._checkpoints):
            shutil.rmtree(directory, ignore_errors=True)


async def _settled(query: Query) -> None:
    """Abort what is open. Without it, the brokers do so after the timeout of the transaction."""
    with suppress(ClientError, StreamsError):
        await query.settle()


async def _tell(begun: list[asyncio.Event], started: Callable[[], None]) -> None:
    for each in begun:
        await each.wait()
    started()


def _ended(streaming: StreamingQuery) -> str | None:
    """Wait for the end of a query; returns the reason of a failure."""
    try:
        streaming.awaitTermination()
    except Exception as error:  # of Spark or Py4J, with the stack traces of both
        return _reason(str(error))
    return None


def _reason(text: str) -> str:
    """The line of a stack trace that says most: the last error of Python, or the exception of Java."""
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    errors = [each for each in lines if re.match(r"[\w.]*(Error|Attempt)\b: ", each)]
    # Py4J's first line names its own object.
    java = [each.removeprefix(": ") for each in lines if not each.startswith(("An error occurred", "at "))]
    return (errors[-1:] or java or ["no reason was given"])[0]


def _batches(config: Mapping[str, Any]) -> int:
    found: int | None = read(config).get(BATCHES_MAX)
    return max(2, os.cpu_count() or 1) if found is None else found
