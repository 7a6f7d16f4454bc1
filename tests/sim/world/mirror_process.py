"""A process of broker-mirror on a machine of its own: the real flow, with its membership, its tasks and its copying,
over the simulated network. It has no disk. It ends at any time, stands still, or is stopped, and another one starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from tests.sim.world.clock import EPOCH_MS, MachineClock
from tests.sim.world.loop import SimLoop
from tests.sim.world.network import PORT
from tests.sim.world.outgoing import Outgoing

if TYPE_CHECKING:
    from broker_cy.admin import AdminClient
    from tests.sim.world.world import World

# A killed process starts again, or another one, after one of these times.
RESTARTS_US = (0, 300_000, 2_000_000)
# A stopped process ends within this time: as its supervisor, the world kills it then.
STOP_US = 5_000_000
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

    def running() -> MirrorProcess:
        loop = asyncio.get_running_loop()
        return next(each for each in world.processes.values() if each.loop is not None and each.loop.as_loop is loop)

    async def connect(protocol: asyncio.BufferedProtocol, host: str, port: int, tls: object = None) -> None:
        await Outgoing(running(), protocol, host, port).open()

    right = CopyMachine.lost

    def lost(self: CopyMachine, key: tuple[str, int], offset: int, start: int) -> None:
        right(self, key, offset, start)
        running().look_for_losses()

    async def pause(_: Turns) -> None:
        """The time of the real machine has no effect."""

    def settings(pair: Pair) -> MemberSettings:
        return MemberSettings(
            f"broker-mirror-{pair.source}-{pair.target}",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    return [
        (admin_client, "MACHINE", ClientOutgoing(connect, ManualClock(EPOCH_MS))),
        (MACHINE_RANDOMNESS, "_source", world.draws("mirror processes")),
        (Turns, "pause", pause),
        *((each, "time", wall) for each in (announcing, copy_host, loading)),
        (tasks_host, "time", wall),
        (member, "member_settings", settings),
        (service, "PAUSE_MAX_S", PAUSE_MAX_S),
        (CopyMachine, "lost", lost),
    ]


class MirrorProcess:
    """The process on `host`, from its start to its end, and the ones after it."""

    def __init__(self, world: World, host: str, rate: float) -> None:
        self.world, self.host = world, host
        self.draw = world.draws(host)
        self.clock = MachineClock(world.time, rate)
        self.loop: SimLoop | None = None
        self.outgoing: dict[Outgoing, None] = {}
        self.flow = flow_of(world)
        self.paused_until_us = 0
        self.ends = 0
        self._keeper: FlowKeeper | None = None
        self._main: asyncio.Task[None] | None = None
        self._turn_at_us = -1
        self.is_stopping = self.stays_down = False
        self._look: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self.loop is not None or self.stays_down:
            return
        self.world.note(f"{self.host} starts")
        self.loop = SimLoop(self.clock, self.draw, self._wake, self._wake_now, forgets_tasks_at_once=False)
        self._keeper = FlowKeeper(self.flow, _copier_of, None, self.world.wall_ms)
        self.is_stopping = False
        self._main = self.loop.create_task(self._keeper.keep())
        self._schedule()

    def stop(self) -> None:
        """As by SIGTERM; another process follows."""
        if self.loop is None or self._main is None or self.is_stopping:
            return
        self.world.note(f"{self.host} stops")
        self.is_stopping = True
        main, loop = self._main, self.loop
        self._main.cancel()

        def ended(_: object) -> None:
            if self.loop is loop:
                self.world.at(self.world.time.now_us, lambda: self.kill(loop))

        main.add_done_callback(ended)
        self.world.at(self.world.time.now_us + STOP_US, lambda: self.kill(loop))

    def kill(self, which: SimLoop | None = None) -> None:
        """End the process between two turns, unless it is another one than that of `which`."""
        if self.loop is None or (which is not None and self.loop is not which):
            return
        self.world.note(f"{self.host} ends")
        self.ends += 1
        for outgoing in list(self.outgoing):
            outgoing.end(silently=False)
        self.outgoing.clear()
        self.loop.kill()
        self.loop = self._keeper = self._main = self._look = None
        delay_us = self.draw.choice(RESTARTS_US)
        self.world.at(self.world.time.now_us + delay_us + 1, self.start)

    def pause(self, us: int) -> None:
        self.paused_until_us = max(self.paused_until_us, self.world.time.now_us + us)

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

    def go_on(self) -> None:
        """It stands still no longer; one that has ended starts again."""
        self.paused_until_us = 0
        self.start()
        self._turn_at_us = -1
        self._schedule()

    # --- turns, as those of a machine

    def _wake(self, monotonic_s: float) -> None:
        self._schedule_at(self.clock.world_us(monotonic_s))

    def _wake_now(self) -> None:
        self._schedule_at(self.world.time.now_us)

    def _schedule(self) -> None:
        if self.loop is not None and (due_s := self.loop.next_s()) is not None:
            self._wake(due_s)

    def _schedule_at(self, at_us: int) -> None:
        at_us = max(at_us, self.world.time.now_us, self.paused_until_us)
        if self._turn_at_us < 0 or at_us < self._turn_at_us:
            self._turn_at_us = at_us
            self.world.at(at_us + self.draw.randint(1, 60), lambda: self._turn(at_us))

    def _turn(self, planned_us: int) -> None:
        if planned_us != self._turn_at_us:
            return
        self._turn_at_us = -1
        loop = self.loop
        if loop is None:
            return
        if self.world.time.now_us < self.paused_until_us:
            self._schedule_at(self.paused_until_us)
            return
        loop.turn()
        if loop.failure is not None:
            raise loop.failure
        self._schedule()


def _copier_of(flow: Flow, source: AdminClient, target: AdminClient, share: Share) -> CopyFlow:
    return CopyFlow(flow, source, target, owner=share.number, owners=share.members)
