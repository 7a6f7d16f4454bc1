"""A process of broker-mirror on a machine of its own: the real flow, with its membership, its tasks and its copying,
over the simulated network. It has no disk. It ends at any time, stands still, or is stopped, and another one starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.admin import client as admin_client
from broker_cy.client.group_member import MemberSettings
from broker_cy.client.outgoing import Outgoing as ClientOutgoing
from broker_cy.client.turns import Turns
from broker_cy.core.clock import ManualClock
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_mirror import member, service
from broker_mirror.config import parse_config
from broker_mirror.copy import announcing, loading
from broker_mirror.copy import host as copy_host
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.host import CopyFlow
from broker_mirror.flows import Flow, flows_of
from broker_mirror.merged import Pair
from broker_mirror.service import FlowKeeper
from broker_mirror.sharing import Share
from broker_mirror.tasks import host as tasks_host
from tests.sim.world.clock import EPOCH_MS
from tests.sim.world.loop import SimLoop
from tests.sim.world.network import PORT
from tests.sim.world.process import Program, connect_from, running_in

if TYPE_CHECKING:
    from broker_cy.admin import AdminClient
    from tests.sim.world.world import World

# In place of 10 s, 30 s and 60 s: a world lasts for seconds.
SESSION_MS, REBALANCE_MS, PAUSE_MAX_S = 2_000, 6_000, 2.0
# The time between two looks at the status of a process that has found records deleted.
LOOK_S = 0.2
# The aliases of the clusters.
SOURCE, TARGET_ALIAS = "A", "B"


def syncs_in_target(world: World) -> bool:
    """Whether offset syncs are written in the transactions of the records."""
    return world.plan.seed % 2 == 0


def flow_of(world: World) -> Flow:
    """The flow of the processes, with short intervals."""
    plan = world.plan
    servers = {
        alias: ",".join(f"{host}:{PORT}" for host in plan.hosts if (host in plan.targets) == is_target)
        for alias, is_target in ((SOURCE, False), (TARGET_ALIAS, True))
    }
    sizes = {SOURCE: len(plan.hosts) - len(plan.targets), TARGET_ALIAS: len(plan.targets)}
    syncs = TARGET_ALIAS if syncs_in_target(world) else SOURCE
    given = {
        "clusters": f"{SOURCE}, {TARGET_ALIAS}",
        **{f"{alias}.bootstrap.servers": text for alias, text in servers.items()},
        f"{SOURCE}->{TARGET_ALIAS}.enabled": "true",
        "topics": "t0|t1|c0",
        "groups": "committed-.*",
        "replication.factor": str(sizes[TARGET_ALIAS]),
        "offset-syncs.topic.replication.factor": str(sizes[syncs]),
        "checkpoints.topic.replication.factor": str(sizes[TARGET_ALIAS]),
        "heartbeats.topic.replication.factor": str(sizes[TARGET_ALIAS]),
        f"{TARGET_ALIAS}.offset.storage.replication.factor": str(sizes[TARGET_ALIAS]),
        f"{TARGET_ALIAS}.offset.storage.partitions": "2",
        "offset-syncs.topic.location": "target" if syncs_in_target(world) else "source",
        "sync.group.offsets.enabled": "true",
        "sync.topic.acls.enabled": "false",
        **{
            f"{task}.interval.seconds": "1"
            for task in (
                "refresh.topics",
                "refresh.groups",
                "emit.checkpoints",
                "sync.group.offsets",
                "emit.heartbeats",
                "sync.topic.configs",
            )
        },
        **{
            f"{alias}.{role}.request.timeout.ms": "3000"
            for alias in (SOURCE, TARGET_ALIAS)
            for role in ("consumer", "producer")
        },
        "admin.timeout.ms": "3000",
    }
    (flow,) = [each for each in flows_of(parse_config(given, "world")) if each.copies]
    return flow


class _Clock(NamedTuple):
    """The module `time`, as far as a mirror reads it."""

    time: Callable[[], float]


def seams(world: World) -> list[tuple[Any, str, Any]]:
    """Return the parts of the machine that the code of a process uses, and short times."""
    wall = _Clock(lambda: (EPOCH_MS + world.time.now_us // 1000) / 1000)

    right = CopyMachine.lost

    def lost(self: CopyMachine, key: tuple[str, int], offset: int, start: int) -> None:
        right(self, key, offset, start)
        process = running_in(world)
        assert isinstance(process, MirrorProcess)
        process.look_for_losses()

    async def pause(_: Turns) -> None:
        """The time of the real machine has no effect."""

    def settings(pair: Pair) -> MemberSettings:
        return MemberSettings(
            f"broker-mirror-{pair.source}-{pair.target}",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    return [
        (admin_client, "MACHINE", ClientOutgoing(partial(connect_from, world), ManualClock(EPOCH_MS))),
        (MACHINE_RANDOMNESS, "_source", world.draws("mirror processes")),
        (Turns, "pause", pause),
        *((each, "time", wall) for each in (announcing, copy_host, loading)),
        (tasks_host, "time", wall),
        (member, "member_settings", settings),
        (service, "PAUSE_MAX_S", PAUSE_MAX_S),
        (CopyMachine, "lost", lost),
    ]


class MirrorProcess(Program):
    """The process on `host`, from its start to its end, and the ones after it."""

    def __init__(self, world: World, host: str, rate: float) -> None:
        super().__init__(world, host, rate)
        self.flow = flow_of(world)
        self._keeper: FlowKeeper | None = None
        self._look: asyncio.TimerHandle | None = None

    def begin(self, loop: SimLoop) -> asyncio.Task[None]:
        self._keeper = FlowKeeper(self.flow, _copier_of, None, self.world.wall_ms)
        return loop.create_task(self._keeper.keep())

    def ask_to_stop(self, main: asyncio.Task[None]) -> None:
        main.cancel()

    def ended(self) -> None:
        self._keeper = self._look = None

    def look_for_losses(self) -> None:
        """Read the status now, and from time to time until the process ends: it names deleted records, but a problem of
        their partition may stand in their place for a while. The loop of the process is running.
        """
        if self._keeper is not None and self.world.copies is not None:
            self.world.copies.take_names(self._keeper.status())
            if self._look is not None:
                self._look.cancel()
            self._look = asyncio.get_running_loop().call_later(LOOK_S, self.look_for_losses)

    def describe(self) -> str:
        return "down" if self._keeper is None else str(self._keeper.status())


def _copier_of(flow: Flow, source: AdminClient, target: AdminClient, share: Share) -> CopyFlow:
    return CopyFlow(flow, source, target, owner=share.number, owners=share.members)
