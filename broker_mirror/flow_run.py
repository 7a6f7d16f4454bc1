"""One run of a flow in this process, from its connections until it fails or is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.mirror_status import FlowStatus, PartitionState
from broker_cy.core.errors import ErrorCode
from broker_mirror.filters import NameFilter
from broker_mirror.flows import SUPPORT, ClientSettings, Flow, FlowKind
from broker_mirror.link.tasks import LinkTasks
from broker_mirror.member import FlowMember
from broker_mirror.merged import Role, Side
from broker_mirror.sharing import Share
from broker_mirror.tasks.host import FlowTasks

CLIENT_ID: Final = "broker-mirror"
FAILED_TURN_S: Final = 30.0
"""The longest time to the next turn of a task whose last turn failed."""
STOP_S: Final = 3.5
"""How long copying may take to commit at its end: a process ends within 5 s."""
FENCED_MAX: Final = 100
"""Transactional ids of other owners that are fenced before a leader gives shares out."""


class Copier(Protocol):
    """The copying of partitions: broker_mirror.copy.host.CopyFlow."""

    async def start(self, partitions: Iterable[TopicPartition]) -> None: ...
    def assign(self, partitions: Iterable[TopicPartition]) -> None: ...
    async def stop(self, timeout_s: float = ...) -> None: ...
    async def ended(self) -> Any: ...
    def status(self) -> Any: ...


CopierOf = Callable[[Flow, AdminClient, AdminClient, Share], Copier]


def connect(settings: ClientSettings, timeout_s: float = DEFAULT_TIMEOUT_S, client_id: str = CLIENT_ID) -> AdminClient:
    """Return a client with the settings of a flow. Reads the files of its login. Raises ClientError."""
    entry = ClusterEntry(settings.bootstrap, parse_addresses(settings.bootstrap), secured=settings.security)
    security = entry.security
    return AdminClient(
        entry.bootstrap, timeout_s=timeout_s, client_id=client_id, login=security.login, tls=security.tls
    )


class FlowRun:
    """`run` returns the reason for which the flow has ended; it ends quietly when it is cancelled."""

    def __init__(self, flow: Flow, copier_of: CopierOf, returning: NameFilter | None = None) -> None:
        self.flow = flow
        self._copier_of, self._returning = copier_of, returning
        self._clients: dict[tuple[str, float, tuple[tuple[str, str], ...]], AdminClient] = {}
        self._tasks: FlowTasks | None = None
        self._member: FlowMember | None = None
        self._copier: Copier | None = None
        self._share: Share | None = None
        self._copying: asyncio.Task[Any] | None = None
        self._loops: set[asyncio.Task[None]] = set()
        self._link: LinkTasks | None = None
        # The last failure of each task.
        self.failed_turns: dict[str, str] = {}

    # ------------------------------------------------------------------------------------------------ the run

    async def run(self) -> str:
        """Run the flow until it fails; returns the cause. Raises ClientError if it cannot begin."""
        try:
            source, target = self.client(Side.SOURCE, Role.ADMIN), self.client(Side.TARGET, Role.ADMIN)
            async with FlowTasks(self.flow, source, target, self._returning) as self._tasks:
                self._member = FlowMember(target, self.flow.pair, self._prepare, self._take, self._give_up)
                membership = asyncio.create_task(self._member.run())
                try:
                    return await self._first_end(membership)
                finally:
                    membership.cancel()
                    await asyncio.gather(membership, return_exceptions=True)
                    await self._member.leave()
        finally:
            for client in self._clients.values():
                await client.close()
            self._clients.clear()

    async def _first_end(self, membership: asyncio.Task[None]) -> str:
        """Wait until the membership or the copying ends."""
        while True:
            waiting = [membership, *([] if self._copying is None else [self._copying])]
            # The copying of a new share is seen within a second.
            done, _ = await asyncio.wait(waiting, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            if membership in done:
                await membership
            if self._copying is not None and self._copying in done:
                status = self._copying.result()
                return status.error or f"copying ended: {status.state.value}"

    @property
    def _copies(self) -> bool:
        return self.flow.copies and self.flow.kind is FlowKind.COPY

    def client(self, side: Side, role: Role) -> AdminClient:
        """Return the client of a role; roles with equal settings share one."""
        settings = self.flow.clients[side, role]
        timeout_ms = (
            self.flow.values["admin.timeout.ms"] if role is Role.ADMIN else settings.values["request.timeout.ms"]
        )
        timeout_s = max(1, timeout_ms) / 1000
        key = settings.bootstrap, timeout_s, tuple(sorted(settings.security.items()))
        if key not in self._clients:
            self._clients[key] = connect(settings, timeout_s)
        return self._clients[key]

    # ------------------------------------------------------------------------------------------------ the share

    async def _prepare(self) -> None:
        """Fence producers of former owners that a new share would not fence: those with a number of no member."""
        if not self._copies or not self.flow.is_exactly_once:
            return
        target = self.client(Side.TARGET, Role.PRODUCER)
        prefix = transactional_prefix(self.flow)
        outcome = await target.transactions.list_all()
        names = [each.transactional_id for listed in outcome.whole().values() for each in listed]
        for name in [each for each in names if each.startswith(prefix)][:FENCED_MAX]:
            try:
                await target.transactional_producer(name).begin()
            except ClientError as error:
                # Such a flow copies without transactions, or reports it when it begins.
                if error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise

    async def _take(self, share: Share) -> None:
        """Begin the work of a share."""
        assert self._tasks is not None
        self._share = share
        if self._copies:
            plan = await self._tasks.refresh_topics(changes=share.leads)
            self._copier = self._copier_of(
                self.flow,
                self.client(Side.SOURCE, Role.CONSUMER),
                self.client(Side.TARGET, Role.PRODUCER),
                share,
            )
            await self._copier.start(share.of(plan.partitions))
            self._copying = asyncio.create_task(self._copier.ended())
            self._every("refresh.topics", self._refresh_topics, begins=False)
        if share.leads:
            self._begin_single_tasks(self._tasks)
            if self.flow.copies and self.flow.kind is FlowKind.LINK:
                self._begin_link_tasks(self._tasks)

    def _begin_single_tasks(self, tasks: FlowTasks) -> None:
        self._every("emit.heartbeats", tasks.emit_heartbeat)
        values = self.flow.values
        if not self._copies:
            return
        self._every("sync.topic.configs", tasks.sync_topic_configs)
        self._every("sync.topic.acls", tasks.sync_topic_acls)
        if not values["emit.checkpoints.enabled"] or not values["emit.offset-syncs.enabled"]:
            return
        self._every("refresh.groups", tasks.refresh_groups)
        self._every("emit.checkpoints", self._emit_checkpoints)
        self._every("sync.group.offsets", tasks.sync_group_offsets)

    def _begin_link_tasks(self, tasks: FlowTasks) -> None:
        source, target = self.client(Side.SOURCE, Role.ADMIN), self.client(Side.TARGET, Role.ADMIN)
        link = self._link = LinkTasks(self.flow, source, target, tasks)
        self._every("refresh.topics", link.refresh_topics)
        self._every("sync.topic.configs", tasks.sync_topic_configs, begins=False)
        self._every("sync.topic.acls", tasks.sync_topic_acls, begins=False)
        self._every("refresh.groups", link.refresh_mirrors, begins=False)
        if self.flow.interval_s("sync.group.offsets") is not None:
            interval_s = self.flow.values["brokercy.link.groups.interval.ms"] / 1000
            self._loops.add(asyncio.create_task(self._loop("sync.group.offsets", link.sync_groups, interval_s)))

    async def _emit_checkpoints(self) -> None:
        assert self._tasks is not None
        if not self._tasks.has_groups:
            await self._tasks.refresh_groups()
        await self._tasks.emit_checkpoints()

    async def _refresh_topics(self) -> None:
        assert self._tasks is not None
        share, copier = self._share, self._copier
        if share is None or copier is None:
            return
        before = self._tasks.plan.partitions
        plan = await self._tasks.refresh_topics(changes=share.leads)
        if plan.partitions != before and self._copier is copier:
            copier.assign(share.of(plan.partitions))

    async def _give_up(self) -> None:
        """End the work of a share: what was copied is committed."""
        self._share = self._link = None
        loops, self._loops = self._loops, set()
        for each in loops:
            each.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        copying, self._copying = self._copying, None
        copier, self._copier = self._copier, None
        if copier is not None:
            await copier.stop(STOP_S)
        if copying is not None:
            copying.cancel()
            await asyncio.gather(copying, return_exceptions=True)

    def _every(self, task: str, turn: Callable[[], Awaitable[None]], *, begins: bool = True) -> None:
        """Run a task at its interval; with `begins`, the first time immediately."""
        interval_s = self.flow.interval_s(task)
        if interval_s is not None:
            self._loops.add(asyncio.create_task(self._loop(task, turn, float(interval_s), begins=begins)))

    async def _loop(
        self, task: str, turn: Callable[[], Awaitable[None]], interval_s: float, *, begins: bool = True
    ) -> None:
        wait_s = 0.0 if begins else interval_s
        while True:
            await asyncio.sleep(wait_s)
            wait_s = interval_s
            try:
                await turn()
                self.failed_turns.pop(task, None)
            except ClientError as error:
                self.failed_turns[task] = str(error)
                wait_s = min(interval_s, FAILED_TURN_S)

    # ------------------------------------------------------------------------------------------------ status

    def status(self) -> FlowStatus:
        """Return the state of the run. `state` is starting until it has a share."""
        share, tasks = self._share, self._tasks
        copied = None if self._copier is None else self._copier.status()
        problems = dict(self.failed_turns)
        if tasks is not None:
            for task, found in tasks.problems.items():
                problems |= {f"{task}: {what}": text for what, text in found.items()}
        if self._link is not None:
            problems |= {f"sync.group.offsets: {what}": text for what, text in self._link.groups.problems.items()}
        if copied is not None and copied.error:
            problems["copy"] = copied.error
        if copied is not None and copied.note:
            problems[SUPPORT] = copied.note
        return FlowStatus(
            source=self.flow.source,
            target=self.flow.target,
            kind=self.flow.kind.value,
            state="starting" if share is None else "running",
            share=None if share is None else f"{share.number + 1} of {share.members}",
            leads=share is not None and share.leads,
            partitions=() if copied is None else tuple(map(partition_state, copied.partitions)),
            problems=problems,
            loops=() if tasks is None else tasks.plan.cycles,
            groups=self._groups(),
            checkpoint_ms=None if tasks is None else tasks.checkpoint_ms,
            checkpoint_at_ms=None if tasks is None else tasks.checkpoint_at_ms,
        )

    def _groups(self) -> dict[str, int]:
        if self._link is not None:
            return dict(self._link.groups.carried)
        return {} if self._tasks is None else dict(self._tasks.translated)

    def counts(self) -> tuple[int, int]:
        """Return the records and bytes that were copied since the begin of the share."""
        copied = None if self._copier is None else self._copier.status()
        return (0, 0) if copied is None else (copied.records, copied.bytes)


def transactional_prefix(flow: Flow) -> str:
    """Return the begin of the transactional ids of all owners; they are those of MirrorMaker 2's tasks."""
    return f"{flow.pair.source}-mm2-MirrorSourceConnector-"


def partition_state(part: Any) -> PartitionState:
    """Return a partition of the copier's status."""
    names: Mapping[str, Any] = {name: getattr(part, name) for name in PartitionState.__slots__}
    return PartitionState(**names)
