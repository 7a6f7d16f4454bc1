"""Persistent queries: each is an application of broker_streams in a thread of the server, until it is terminated.

The group of its application divides the work among the servers of the service id. An error ends the tasks; they begin
again at their last commit, with growing pauses (see KafkaStreams), and the query is in the state ERROR until they run.

Bounds: ERRORS_MAX errors of a query are kept. CLOSE_S is how long a stop of the server waits for its queries.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.reset import ResetKind, ResetRule
from broker_cy.client.errors import ClientError
from broker_streams.hosts.measures import State
from broker_streams.hosts.resetting import Wanted, apply_reset, plan_reset
from broker_streams.hosts.settings import HostSettings
from broker_streams.kafka_streams import KafkaStreams, StreamThreadExceptionResponse
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Topology

ERRORS_MAX: Final = 10
CLOSE_S: Final = 20.0
RUNNING: Final = "RUNNING"
ERROR: Final = "ERROR"
PAUSED: Final = "PAUSED"
_DELAYS: Final = ("streams.initial.rebalance.delay.ms", "streams.assignment.interval.ms")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryError:
    """An error that ended the tasks of a query, at a time in ms."""

    timestamp_ms: int
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"timestamp": self.timestamp_ms, "errorMessage": self.message, "type": "UNKNOWN"}


class PersistentQuery:
    """One query on this server. It is made stopped."""

    def __init__(self, query_id: str, topology: Topology, config: Mapping[str, Any]) -> None:
        self.id = query_id
        self.topology = topology
        self.config = dict(config)
        self.errors: deque[QueryError] = deque(maxlen=ERRORS_MAX)
        self._is_failing = False
        self._is_paused = False
        self._streams: KafkaStreams | None = None

    @property
    def application_id(self) -> str:
        return str(self.config["application.id"])

    @property
    def state(self) -> str:
        if self._is_paused:
            return PAUSED
        streams = self._streams
        has_ended = streams is not None and streams.state() is State.ERROR
        return ERROR if self._is_failing or has_ended else RUNNING

    @property
    def streams(self) -> KafkaStreams | None:
        return self._streams

    def start(self) -> None:
        """Start its thread. A setting or topology that cannot be is an error of the query, and not of the caller."""
        try:
            streams = KafkaStreams(self.topology, self.config)
            streams.set_uncaught_exception_handler(self._failed)
            streams.set_state_listener(self._changed)
            if self._is_paused:
                streams.pause()
            streams.start()
        except (StreamsError, ValueError, ClientError) as error:
            self._failed(error)
            return
        self._streams = streams

    def _failed(self, error: Exception) -> StreamThreadExceptionResponse:
        """In the thread of the query."""
        self._is_failing = True
        self.errors.append(QueryError(time.time_ns() // 1_000_000, str(error)))
        _LOG.warning("query %s: %s", self.id, error)
        return StreamThreadExceptionResponse.REPLACE_THREAD

    def _changed(self, new: State, old: State) -> None:
        """In the thread of the query."""
        if new is State.RUNNING:
            self._is_failing = False

    def pause(self) -> None:
        self._is_paused = True
        if self._streams is not None:
            self._streams.pause()

    def resume(self) -> None:
        self._is_paused = False
        if self._streams is not None:
            self._streams.resume()

    async def close(self) -> None:
        """Commit, and end the thread."""
        if self._streams is not None and not await asyncio.to_thread(self._streams.close, CLOSE_S):
            _LOG.warning("query %s did not end within %g s", self.id, CLOSE_S)


async def prepare(client: AdminClient, query: PersistentQuery) -> None:
    """Let the group of a new query give out its tasks at once: a statement should run when it is answered. Without the
    right to alter the group, the query starts after the delays of the cluster.
    """
    await _alter(client, query, [ConfigChange(name, AlterOp.SET, "0") for name in _DELAYS])


async def _alter(client: AdminClient, query: PersistentQuery, changes: Sequence[ConfigChange]) -> None:
    resource = ConfigResource(ResourceType.GROUP, query.application_id)
    try:
        (await client.configs.alter({resource: changes})).whole()
    except ClientError as error:
        _LOG.info("query %s: its group has the delays of the cluster: %s", query.id, error)


async def clean_up(client: AdminClient, query: PersistentQuery) -> None:
    """Delete the internal topics and the state of a query that was terminated. Another server may do it first, or still
    have members; what is left is named in the log.
    """
    try:
        settings = HostSettings.of(query.config)
        wanted = Wanted(ResetRule(ResetKind.EARLIEST), inputs=(), state_dir=Path(settings.state_dir))
        plan = await plan_reset(client, query.application_id, wanted, query.topology)
        await apply_reset(client, plan)
        (await client.groups.delete([query.application_id])).whole()
        await _alter(client, query, [ConfigChange(name, AlterOp.DELETE) for name in _DELAYS])
    except (ClientError, StreamsError, ValueError, OSError) as error:
        _LOG.info("query %s was terminated; its state is left: %s", query.id, error)
