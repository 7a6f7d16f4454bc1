"""One instance of the registry: the topic, the state that it follows, the checks, and the writer."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, TypeVar

from broker_cy.admin import AdminClient
from broker_cy.admin.topic_log import LogSettings, Loss, TopicLog
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError, Failure
from broker_registry.checker import Checker
from broker_registry.checks import Check
from broker_registry.election import Election
from broker_registry.leadership import ElectionSettings
from broker_registry.metrics import RequestCounts, Sizes
from broker_registry.operations.plan import Operation
from broker_registry.rights import ElectedRight, FencingRight, Right
from broker_registry.store.applied import Applied
from broker_registry.store.state import Defaults, State
from broker_registry.writer import Writer

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
TOPIC: Final = "_schemas"
REPLICATION: Final = 3
TIMEOUT_S: Final = 10.0
GROUP: Final = "schema-registry"
SCHEMAS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """`replication` is that of a topic that is created; fewer brokers give it fewer replicas. `timeout_s` bounds a
    change from its call to its answer. `group` is the name of the registry in its metadata. An answer has
    `schemas_default` schemas, and at most `schemas_max`. With `election`, the group elects the instance that writes;
    `election_tls` is for requests to it.
    """

    topic: str = TOPIC
    replication: int = REPLICATION
    timeout_s: float = TIMEOUT_S
    group: str = GROUP
    schemas_default: int = SCHEMAS_MAX
    schemas_max: int = SCHEMAS_MAX
    defaults: Defaults = field(default_factory=Defaults)
    election: ElectionSettings | None = None
    election_tls: ssl.SSLContext | None = None


class Service:
    """`async with Service(connect, settings) as service`: in the block the state is that of the whole topic."""

    def __init__(self, connect: Callable[[], AdminClient], settings: ServiceSettings | None = None) -> None:
        """`connect` returns a client of the running loop, which the service closes."""
        self.settings = settings or ServiceSettings()
        self._connect = connect
        self._client: AdminClient | None = None
        self.state = State(self.settings.defaults)
        self.applied = Applied(self.state)
        self.checker = Checker()
        self.requests = RequestCounts()
        self.cluster_id = ""
        self._log: TopicLog | None = None
        self._writer: Writer | None = None
        self.election: Election | None = None

    async def __aenter__(self) -> Service:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def _open(self) -> None:
        self._client = client = self._connect()
        cluster = await client.cluster.describe()
        self.cluster_id = cluster.cluster_id
        create = NewTopic(self.settings.topic, 1, max(1, min(self.settings.replication, len(cluster.brokers))))
        settings = LogSettings(create=create, on_loss=Loss.WARN, warn=_LOG.warning)
        self._log = client.topic_log(self.settings.topic, self.applied.take, settings)
        await self._log.__aenter__()
        if (partitions := len(self._log.positions)) != 1:
            # The order of records in several partitions is not known, and so neither is the state.
            reason = f"the topic has {partitions} partitions; that of a registry has one"
            raise ClientError(Failure.REFUSED, reason, what=f"topic {self.settings.topic}")
        self._writer = Writer(
            self._right(client), self._log, self.applied, self.checker, timeout_s=self.settings.timeout_s
        )
        self._writer.start()

    def _right(self, client: AdminClient) -> Right:
        topic, settings = self.settings.topic, self.settings.election
        if settings is None:
            return FencingRight(client, topic)
        self.election = Election(client, self.settings.group, settings, self.settings.election_tls)
        self.election.start()
        return ElectedRight(client, topic, self.election)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        if self.election is not None:
            await self.election.close()
        if self._log is not None:
            await self._log.close()
        await self.checker.close()
        if self._client is not None:
            await self._client.close()

    async def write(self, operation: Operation[T]) -> T:
        """Carry out a change. Raises RegistryError, and NotLeader if another instance has to."""
        assert self._writer is not None
        return await self._writer.run(operation)

    async def check(self, steps: Generator[Check, Any, T]) -> T:
        """Run checks that change nothing. Raises RegistryError."""
        return await self.checker.drive(steps)

    async def failed(self) -> Exception:
        """Wait until the topic can no longer be followed; returns why."""
        assert self._log is not None
        return await self._log.failed()

    @property
    def is_following(self) -> bool:
        """Whether the state is still that of the topic."""
        return self._log is not None and self._log.failure is None

    @property
    def takeovers(self) -> int:
        return 0 if self._writer is None else self._writer.takeovers

    @property
    def changes(self) -> int:
        """Parts of the topic that were applied."""
        return self.applied.changes

    @property
    def problems(self) -> int:
        """Records of the topic that were not taken."""
        return self.state.problems_total

    def sizes(self) -> Sizes:
        return Sizes(*self.state.sizes())
