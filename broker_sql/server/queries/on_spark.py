"""Persistent queries on Spark: one driver for all of them, which starts with the server.

Each query is an application of its own in the driver, with a pool of Spark's fair scheduler. A query that an error ends
begins again at its last commit, after pauses that grow up to PAUSE_MAX_S; one that another driver has taken over stays
in the state ERROR. So one server of a service id has its queries on Spark.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from broker_cy.client.errors import ClientError, Failure
from broker_sql.server.queries.persistent import ERROR as FAILING
from broker_sql.server.queries.persistent import PAUSED, RUNNING, PersistentQuery, QueryError
from broker_streams.hosts.settings import EXACTLY_ONCE
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Topology

if TYPE_CHECKING:
    from broker_streams.hosts.spark.application import SparkApplication
    from broker_streams.hosts.spark.host import SparkHost

PAUSE_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0

_LOG = logging.getLogger(__name__)


class SparkDriver:
    """Use it as a context manager around the queries. Raises ClientError: Spark is missing, or does not start."""

    def __init__(self, master: str | None = None) -> None:
        """`master` None: all cores of this machine."""
        self._master = master
        self._host: SparkHost | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def host(self) -> SparkHost:
        if self._host is None:
            raise ClientError(Failure.REFUSED, "it has not been started", what="the driver on Spark")
        return self._host

    async def __aenter__(self) -> SparkDriver:
        try:
            from broker_streams.hosts.spark.host import SparkHost
            from spark_analytics.errors import SetUpError
        except ImportError as error:
            reason = f"{error}: pip install 'broker-cy[spark]', or set brokercy.sql.host=embedded"
            raise ClientError(Failure.REFUSED, reason, what="Spark") from None
        host = SparkHost([], master=self._master, serves=True)
        try:
            await asyncio.to_thread(host.start, _LOG.info)
        except SetUpError as error:
            raise ClientError(Failure.REFUSED, str(error), what="Spark") from None
        self._host, self._running = host, asyncio.create_task(host.run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.host.stop()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    def query(self, query_id: str, topology: Topology, config: Mapping[str, Any]) -> SparkQuery:
        return SparkQuery(self, query_id, topology, config)


class SparkQuery(PersistentQuery):
    """A query in the driver. Pausing ends its application, which goes on at its last commit."""

    def __init__(self, driver: SparkDriver, query_id: str, topology: Topology, config: Mapping[str, Any]) -> None:
        # Tasks on Spark are exact by themselves; ksqlDB's default is at_least_once.
        super().__init__(query_id, topology, {**config, "processing.guarantee": EXACTLY_ONCE})
        self._driver = driver
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        return PAUSED if self._is_paused else FAILING if self._is_failing else RUNNING

    def start(self) -> None:
        if not self._is_paused:
            self._task = asyncio.create_task(self._run(self._task))

    def pause(self) -> None:
        self._is_paused = True
        if self._task is not None:
            self._task.cancel()

    def resume(self) -> None:
        self._is_paused = False
        self.start()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        """Run the application again and again, until this task is cancelled: then it ends at its last commit."""
        if before is not None:
            await asyncio.wait([before])
        failures = 0
        while True:
            error = await self._attempt()
            self._is_failing = True
            self.errors.append(QueryError(time.time_ns() // 1_000_000, str(error)))
            _LOG.warning("query %s: %s", self.id, error)
            if _is_superseded(error):
                return
            failures += 1
            await asyncio.sleep(min(PAUSE_MAX_S, PAUSE_S * 2 ** min(failures, 10)))

    async def _attempt(self) -> BaseException:
        """Run the application until an error ends it; returns the error."""
        from broker_streams.hosts.spark.application import SparkApplication

        host = self._driver.host
        try:
            application = SparkApplication(self.topology, self.config)
            await host.add(application)
        except (StreamsError, ValueError, ClientError) as error:
            return error
        try:
            watching = asyncio.create_task(self._watch(application))
            await host.ended(application.name)
            return application.life.error or StreamsError("the driver has ended")
        finally:
            watching.cancel()
            # Also when the query is cancelled: nothing of it runs when this task has ended.
            with suppress(ValueError):
                await host.remove(application.name)

    async def _watch(self, application: SparkApplication) -> None:
        """Note that the query runs again after an error."""
        await application.begun.wait()
        self._is_failing = False


def _is_superseded(error: BaseException) -> bool:
    from broker_streams.hosts.spark.query import Superseded

    return isinstance(error, Superseded)
