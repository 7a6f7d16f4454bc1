"""One application in a driver on Spark: its settings, its queries, and what is seen of it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from broker_cy import __version__
from broker_cy.admin import AdminClient
from broker_cy.admin.streams_drivers import DRIVERS, FAILED, RUNS, STOPPED, TOPIC, DriverRecord, PartOfDriver
from broker_cy.client.errors import ClientError
from broker_streams.hosts.announced import announced
from broker_streams.hosts.batches import QueryBatches
from broker_streams.hosts.clients import client_of
from broker_streams.hosts.connecting import connected
from broker_streams.hosts.figures import TaskFigures
from broker_streams.hosts.measures import Life, Measures, State
from broker_streams.hosts.settings import EXACTLY_ONCE, HostSettings
from broker_streams.hosts.spark import progress, shipped, worker
from broker_streams.hosts.spark.query import Query, Superseded
from broker_streams.hosts.spark.topics import Topics, prepared
from broker_streams.hosts.task_timeout import TaskTimeout
from broker_streams.plan.topology import Topology
from broker_streams.settings import read

_LOG = logging.getLogger("broker_streams")
# Consoles show so much of the text of an error.
ERROR_CHARS_MAX: Final = 1_000
# Offsets of one batch of a query, at most.
ROWS_MAX: Final = "spark.streams.batch.records.max"
# Batches of all queries of a driver that run at a time; by default as many as this machine has cores, and two at least.
BATCHES_MAX: Final = "spark.streams.concurrent.batches.max"
# A batch takes longer than a commit of the embedded host.
TRANSACTION_MS: Final = 60_000


class SparkApplication:
    """One application in the driver. It has the attributes of a view (broker_streams/seen/view.py)."""

    host: Final = "spark"
    # The driver is no member of the group, and does not read rows of stores.
    member: Final = ""
    stores: None = None
    waits: tuple[str, ...] = ()

    def __init__(self, topology: Topology, config: Mapping[str, Any], directory: Path | None = None) -> None:
        """`directory` has the modules that the application's file imports. Raises ValueError: a setting that cannot be
        on Spark, or an object in a function that cannot be copied.
        """
        config = {"transaction.timeout.ms": TRANSACTION_MS, **config}
        settings = HostSettings.of(config)
        if not settings.is_exactly_once:
            raise ValueError(f"processing.guarantee is {settings.guarantee}; on Spark {EXACTLY_ONCE} is allowed")
        self.rows_max: int = read(config).get(ROWS_MAX)
        batches_at_a_time(config)
        self.topology, self.config, self.settings = topology, config, settings
        self.data = shipped.packed(shipped.Shipped(topology, config), directory)
        self.file_name = worker.file_name(settings.application_id, self.data)
        name = settings.application_id
        self.client: AdminClient = client_of(config, name, name, timeout_s=worker.CALL_S)
        self.process, self.life, self.measures = str(uuid.uuid4()), Life(), Measures()
        self.queries = [Query(self.client, topology, part, settings) for part in topology.subtopologies()]
        for query in self.queries:
            query.measures.measures = self.measures
        self._preparing = asyncio.Lock()
        # Set to end its queries.
        self.stopping = asyncio.Event()
        # Set when all queries have run.
        self.begun = asyncio.Event()
        # The queries that run.
        self._up: set[str] = set()
        # Empty until it is announced.
        self._parts: tuple[PartOfDriver, ...] = ()

    @property
    def name(self) -> str:
        return self.settings.application_id

    @property
    def plan(self) -> Topology:
        return self.topology

    def tasks(self) -> Sequence[TaskFigures]:
        return [each for query in self.queries for each in query.tasks()]

    def batches(self) -> Sequence[QueryBatches]:
        return [query.measures.batches for query in self.queries]

    def begins(self, query: Query) -> None:
        """A query begins, again after a failure."""
        self._up.discard(query.name)
        self.life.enter(State.REBALANCING)

    def runs(self, query: Query, *, once: bool) -> None:
        """A query runs; with `once`, queries run one after the other."""
        self._up.add(query.name)
        if once or len(self._up) == len(self.queries):
            self.life.enter(State.RUNNING)
            self.begun.set()

    def ends(self, error: BaseException | None = None) -> None:
        """All queries have ended. The first error stays the reason."""
        if self.life.error is not None:
            return
        self.life.enter(State.PENDING_SHUTDOWN if error is None else State.PENDING_ERROR, error)
        self.life.enter(State.NOT_RUNNING if error is None else State.ERROR, error)

    async def connected(self, stopping: asyncio.Event) -> bool:
        """Wait until a broker answers. False: the driver stops first. Raises ClientError."""
        return await connected(self.client, TaskTimeout(self.settings.task_timeout_ms), stopping)

    async def prepared(self) -> Topics:
        """Raises TopologyError, ClientError."""
        async with self._preparing:
            await progress.ensure_topic(self.client)
            found = await prepared(self.client, self.topology, self.settings)
            if not self._parts:
                self._parts = self._parts_of(found)
                await self._announce(RUNS)
            return found

    def _parts_of(self, topics: Topics) -> tuple[PartOfDriver, ...]:
        """The sub-topologies, as consoles draw them."""
        counts = {part.number: len(topics.inputs(part)) for part in self.topology.subtopologies()}
        return tuple(
            PartOfDriver(
                each.subtopology_id,
                counts[int(each.subtopology_id)],
                tuple(each.source_topics),
                tuple(topic.name for topic in each.repartition_source_topics),
                tuple(each.repartition_sink_topics),
                tuple(topic.name for topic in each.state_changelog_topics),
            )
            for each in announced(self.topology, self.name).subtopologies
        )

    async def announce_end(self) -> None:
        """Tell consoles that the driver ends, unless another one has begun since."""
        error = self.life.error
        if not self._parts or (isinstance(error, Superseded)):
            return
        await self._announce(STOPPED if error is None else FAILED, "" if error is None else str(error))

    async def _announce(self, state: str, error: str = "") -> None:
        now_ms, settings = time.time_ns() // 1_000_000, self.settings
        said = DriverRecord(
            self.name,
            self.process,
            state,
            now_ms,
            self.life.begin_ms,
            socket.gethostname(),
            settings.endpoint or None,
            __version__,
            error[:ERROR_CHARS_MAX],
            self._parts,
        )
        try:
            producer = self.client.records.producer()
            await producer.send(TOPIC, [said.record()], partition=DRIVERS.partition)
        except ClientError as refused:
            _LOG.warning("consoles do not see application %s: %s", self.name, refused)


def batches_at_a_time(config: Mapping[str, Any]) -> int:
    found: int | None = read(config).get(BATCHES_MAX)
    return max(2, os.cpu_count() or 1) if found is None else found
