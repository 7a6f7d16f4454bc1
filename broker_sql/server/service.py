"""One server: its client of the brokers, the command topic, the state of its commands, and the queries that run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.produce import Producer
from broker_cy.client.errors import ClientError, Failure
from broker_sql.analysis.settings import PYTHON_FUNCTIONS, TOPIC_PREFIX, TopicInfo
from broker_sql.functions import Environment, standard
from broker_sql.server.command_log import CommandLog
from broker_sql.server.commands import Command
from broker_sql.server.config import HOST, SPARK, SPARK_MASTER, ServerConfig, streams_of
from broker_sql.server.engine import Engine, WantedQuery
from broker_sql.server.entities import CommandStatus
from broker_sql.server.processing_log import ProcessingLog
from broker_sql.server.queries.by_key import ByKey
from broker_sql.server.queries.on_spark import SparkDriver
from broker_sql.server.queries.persistent import PersistentQuery
from broker_sql.server.queries.push import PushPlan, PushQuery
from broker_sql.server.runner import Runner
from broker_sql.server.views.views import Views

_HANDLER: Final = "deserialization.exception.handler"
DEFAULTS: Final = {
    # As ksqlDB's: what it reads is what is new, and a record that cannot be read does not end a query.
    "auto.offset.reset": "latest",
    _HANDLER: "LogAndContinueExceptionHandler",
}
_BROKERS_S: Final = 5.0

_LOG = logging.getLogger(__name__)


class Service:
    """`async with Service(config, connect)`: in the block the state is that of the whole command topic. `connect`
    returns a client of the running loop, which the service closes; `security` are the settings of connections of
    queries. `host` is the name and port of this server.
    """

    def __init__(
        self,
        config: ServerConfig,
        connect: Callable[[], AdminClient],
        *,
        bootstrap: str,
        security: Mapping[str, str],
        host: tuple[str, int],
        registry: Any = None,
        state_dir: Path | None = None,
    ) -> None:
        self.config = config
        self.host = host
        self._connect = connect
        self._bootstrap = bootstrap
        self._security = dict(security)
        self._state_dir = state_dir
        self.registry = registry
        self.cluster_id = ""
        planning = {name: value for name, value in config.values.items() if name.startswith("ksql.persistence.")}
        planning |= {name: config.values[name] for name in (TOPIC_PREFIX, PYTHON_FUNCTIONS)}
        decided = [int(each) for each in config.values["brokercy.sql.set.aside"]]
        limits = {name: str(value) for name, value in config.values.items() if name.startswith("ksql.functions.")}
        self.engine = Engine(standard(Environment(settings=limits)), planning, registry=registry, decided=decided)
        self.client: AdminClient
        self.producer: Producer
        self.commands: CommandLog
        self.processing_log: ProcessingLog
        self.runner: Runner
        self.views: Views
        self._is_loaded = False
        self.push_queries: dict[str, PushQuery] = {}
        self.by_key = ByKey()
        # Pull queries whose rows are sent now.
        self.pulls = 0
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Service:
        async with contextlib.AsyncExitStack() as stack:
            self.client = await stack.enter_async_context(self._connect())
            self.producer = Producer(self.client.caller)
            cluster = await self.client.cluster.describe()
            self.cluster_id = cluster.cluster_id
            config = self.config
            replicas = max(1, min(config.values["ksql.internal.topic.replicas"], len(cluster.brokers)))
            make: Any = PersistentQuery
            if config.values[HOST] == SPARK:
                driver = await stack.enter_async_context(SparkDriver(config.values[SPARK_MASTER]))
                make = driver.query
            self.runner = Runner(self.client, lambda: self.engine.queries, self.query_config, make)
            self.processing_log = await stack.enter_async_context(ProcessingLog(config, self.client, self.producer))
            # Before the first statement is planned.
            self.engine.on_error = self.processing_log.expression
            self.commands = CommandLog(
                self.client, config.command_topic, config.service_id, replicas, self._take, self.engine.take_bad
            )
            await stack.enter_async_context(self.commands)
            self._is_loaded = True
            self.views = await stack.enter_async_context(Views(self.client, self.registry))
            await stack.enter_async_context(self.runner)
            stack.push_async_callback(self._close_push_queries)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _take(self, command: Command) -> None:
        self.engine.apply(command)
        self.by_key.forget()
        if self._is_loaded:
            self.views.keep(self.engine.catalog.sources)
            self.runner.note()

    # ---- for requests

    @property
    def is_following(self) -> bool:
        """Whether the state is still that of the command topic."""
        return self.commands.is_following

    async def reaches_brokers(self) -> bool:
        try:
            async with asyncio.timeout(_BROKERS_S):
                await self.client.cluster.describe()
        except (ClientError, TimeoutError):
            return False
        return True

    def query_config(self, query: WantedQuery) -> dict[str, Any]:
        """Return the settings of the application of a persistent query."""
        return self._streams_config(self.config.query_prefix + query.id, query.id, query.properties)

    def _streams_config(self, application_id: str, query_id: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        host, port = self.host
        found = {**DEFAULTS, **self.config.streams, **streams_of(self.engine.altered), **streams_of(properties)}
        found |= {**self._security, **self.config.registry}
        if self._state_dir is not None:
            found.setdefault("state.dir", str(self._state_dir))
        # A handler of this process does not go to Spark's workers.
        if found[_HANDLER] == DEFAULTS[_HANDLER] and self.config.values[HOST] != SPARK:
            found[_HANDLER] = self.processing_log.handler(query_id)
        found["application.id"] = application_id
        found["bootstrap.servers"] = self._bootstrap
        found.setdefault("application.server", f"{host}:{port}")
        # The address is that of this server, which listens there.
        found["brokercy.streams.listener"] = "none"
        return {name: value for name, value in found.items() if value is not None}

    async def topics(self) -> dict[str, TopicInfo]:
        """Return the topics of the cluster. Raises ClientError."""
        return {
            each.name: TopicInfo(len(each.partitions), each.replication_factor)
            for each in await self.client.topics.list_all()
        }

    async def run_command(self, make: Callable[[int], Command]) -> tuple[Command, CommandStatus, int]:
        """Append a command, and return it with its status and offset. Raises SqlError of `make`, and ClientError."""
        made: list[Command] = []

        def kept(offset: int) -> Command:
            made.append(make(offset))
            return made[-1]

        offset = await self.commands.write(kept)
        command = made[-1]
        status = self.engine.statuses.get(str(command.id)) or CommandStatus("QUEUED", "Statement written")
        return command, status, offset

    async def wait_for(self, sequence: int) -> None:
        """Wait until the command of this offset was taken. Raises TimeoutError."""
        wait_s = self.config.values["ksql.server.command.response.timeout.ms"] / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self.commands.read_to(sequence + 1)
        except ClientError as error:
            if error.failure is Failure.TIMED_OUT:
                raise TimeoutError from None
            raise

    # ---- push queries

    async def open_push_query(self, plan: PushPlan, properties: Mapping[str, Any]) -> PushQuery:
        """Begin a push query, which `close_push_query` ends. Raises ClientError, StatementError, StreamsError."""
        prefix = f"_confluent-ksql-{self.config.service_id}"
        config = self._streams_config(prefix + plan.id, plan.id, properties)
        query = PushQuery(replace(plan, config=config), self.client)
        await query.open()
        self.push_queries[query.id] = query
        return query

    async def close_push_query(self, query_id: str) -> bool:
        """Return whether there was such a query."""
        query = self.push_queries.pop(query_id, None)
        if query is None:
            return False
        await query.close()
        return True

    async def _close_push_queries(self) -> None:
        for query_id in list(self.push_queries):
            await self.close_push_query(query_id)

    async def cluster_status(self) -> dict[str, Any]:
        """Return the servers that take part in the persistent queries, and this one."""
        now_ms = time.time_ns() // 1_000_000
        found: dict[str, Any] = {}
        host, port = self.host
        hosts: dict[str, dict[str, Any]] = {f"{host}:{port}": {}}
        for query_id, query in self.runner.running.items():
            streams = query.streams
            if streams is None:
                continue
            try:
                members = await asyncio.to_thread(streams.metadata_for_all_streams_clients)
            except (LookupError, TimeoutError):
                continue
            for each in members:
                name = f"{each.place[0]}:{each.place[1]}"
                hosts.setdefault(name, {})[query_id] = {
                    "activeStores": sorted(each.stores),
                    "activePartitions": _partitions(each.partitions),
                    "standByStores": sorted(each.standby_stores),
                    "standByPartitions": _partitions(each.standby_partitions),
                }
        for name, queries in hosts.items():
            found[name] = {
                "hostAlive": True,
                "lastStatusUpdateMs": now_ms,
                "activeStandbyPerQuery": queries,
                "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
            }
        return found


def _partitions(parts: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(parts)]
