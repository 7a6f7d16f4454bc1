import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from broker_cy.access.authorization import Authorization
from broker_cy.broker.broker import Broker
from broker_cy.broker.client_quotas import ClientQuotas
from broker_cy.broker.registry import Registration
from broker_cy.connections.buffers import BufferPool
from broker_cy.connections.connection import Connection
from broker_cy.connections.gate import Gate
from broker_cy.connections.listener import Ended
from broker_cy.core.clock import Clock
from broker_cy.events.log_events import LogEvents
from broker_cy.metrics.requests import RequestMetrics
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.storage.jobs import Jobs

class ServerCore(FlushGroup):
    """The state that all connections of a broker share."""

    broker: Broker
    log_events: LogEvents
    pool: BufferPool
    connections: set[Connection]
    connections_opened: int
    login_bytes: int
    connections_closed: int
    gate: Gate
    metrics: RequestMetrics
    requests: int
    request_bytes_max: int
    fetch_bytes_max: int
    cold_reader: Executor | None
    check_jobs: Jobs
    on_disk_error: Callable[[str, BaseException], None] | None
    authorization: Authorization | None
    quotas: ClientQuotas | None
    leader_throttle: ReplicaThrottle | None
    silence: FollowerSilence | None
    fetch_sessions: Any
    stopping: bool
    tasks: set[asyncio.Task[Any]]
    pending_answers: int

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log_events: LogEvents,
        broker: Broker,
        table: PartitionTable,
        registry: Mapping[int, Registration],
        request_bytes_max: int = ...,
        on_closed: Callable[[Connection | Ended], None] | None = None,
    ) -> None: ...
    def meter(self, quotas: ClientQuotas | None, generation: int) -> None: ...
    def left(self, ended: Ended) -> None: ...
    def close_idle(self, idle_ms: int) -> int: ...
    def close_least_active(self, listener: str) -> None: ...
    def stop_reading(self) -> None: ...
