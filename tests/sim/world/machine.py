"""One machine of the world with its disk, its clocks and, while it runs, one real broker.

The process ends in the middle of a call to the disk (disks.die_at), between two turns of its loop, or by a clean stop.
The file is long because a machine is one state: starts, ends and faults depend on what the others left.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from broker_cy.config import BrokerConfig
from broker_cy.core.randomness import Randomness
from broker_cy.events import own_topic
from broker_cy.handlers import load_handlers
from broker_cy.network.seams import Seams
from broker_cy.network.sockets import Buffers
from broker_cy.server.controller_lifecycle import ControllerServer
from broker_cy.server.lifecycle import BrokerServer
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.jobs import run_inline
from tests.sim.world import blocking, disks
from tests.sim.world.checks import check_partitions
from tests.sim.world.clock import MachineClock
from tests.sim.world.cluster import node_of
from tests.sim.world.coordinators import (
    check_groups,
    check_reloads,
    check_transactions,
    check_waiting,
    has_staged,
    is_ending,
)
from tests.sim.world.directories import (
    CLUSTER_ID,
    TARGET_ID,
    bootstrap_records,
    format_another,
    format_directory,
    format_voter,
    key_of,
)
from tests.sim.world.disk_array import SLOW_US, DiskArray, State
from tests.sim.world.disks import End
from tests.sim.world.groups import CONSUMERS_MAX, SESSION_MS, SIZE_MAX
from tests.sim.world.loop import SimLoop
from tests.sim.world.network import PORT, Gathering
from tests.sim.world.outgoing import Outgoing
from tests.sim.world.workers import Workers
from tests.support.power import Disk, PowerCut

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.quorum.voters import ReplicaKey
    from broker_cy.replica.partition import Partition
    from tests.sim.world.cluster import Cluster
    from tests.sim.world.network import Listening
    from tests.sim.world.world import World

T = TypeVar("T")
# Now: worlds have no worker thread that imports a handler with its first request.
load_handlers()
# Seeds are recorded with this bound: with another one, files have other sizes, and faults of disks draw otherwise.
own_topic.COMPRESS_BYTES = 512
# Turns between two checks of the coordinators, and of the state that a start would find, also while the disk fails.
COORDINATORS_EVERY, RELOADS_EVERY, RELOADS_EVERY_BROKEN = 10, 500, 10
# A clean stop may take this long, and a broker that failed to start is started again after this time.
STOP_US = 20_000_000
RESTART_US = 300_000
# Few internal partitions, and short intervals: a world lasts for seconds.
SETTINGS = {
    "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.max.size": str(SIZE_MAX),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "transactional.id.expiration.ms": "2000",
    # Samples contain CPU and memory of the real process.
    "brokercy.metrics.sample.interval.ms": "0",
}
# The same for groups of the consumer protocol; the last one, which each second world has, lets members that come or go
# share an assignment.
CONSUMER_GROUPS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.max.size": str(CONSUMERS_MAX),
}
ASSIGNMENT_INTERVALS_MS = (0, 400)
# The same for share groups.
SHARE_GROUPS = {
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.partition.max.record.locks": "100",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.write.timeout.ms": "300",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
# The same for streams groups.
STREAMS_GROUPS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.max.size": str(CONSUMERS_MAX),
}
# The same for instances of an application: others take the tasks of one that stands still, before its requests time
# out. One that was killed is a member until its session ends.
INSTANCES = {
    "group.streams.session.timeout.ms": "1500",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.max.size": "50",
}
INITIAL_DELAYS_MS = (0, 0, 600)
# The same for machines with several disks: more copies run at the same time, and steps of a move take some time.
SEVERAL_DISKS = {"num.replica.alter.log.dirs.threads": "2", "log.dir.failure.timeout.ms": "60000"}
# The same for the metadata log: a snapshot replaces several segments.
SMALL_METADATA_LOGS = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "1",
}
METADATA_SEGMENT_BYTES = 700


def share_groups(world: World) -> dict[str, str]:
    interval_ms = ASSIGNMENT_INTERVALS_MS[world.plan.seed % 2]
    return {
        **SHARE_GROUPS,
        "group.share.assignment.interval.ms": str(interval_ms),
        "group.share.record.lock.duration.ms": str(world.shares.lock_ms),
        "group.share.delivery.count.limit": str(world.shares.limit),
    }


def streams_groups(world: World) -> dict[str, str]:
    seed = world.plan.seed
    return {
        **STREAMS_GROUPS,
        "group.streams.assignment.interval.ms": str(ASSIGNMENT_INTERVALS_MS[seed % 2]),
        "group.streams.initial.rebalance.delay.ms": str(INITIAL_DELAYS_MS[seed % 3]),
        "group.streams.num.standby.replicas": str(standby_replicas(world)),
    }


def standby_replicas(world: World) -> int:
    return world.plan.seed // 2 % 2


class Machine:
    """A broker named `host` on a disk in `root`."""

    def __init__(self, world: World, host: str, root: str, settings: dict[str, str], rate: float) -> None:
        self.world = world
        self.host = host
        # The world sets it.
        self.cluster: Cluster
        # The directory of the data, and that of the metadata log.
        self.data = self.metadata = root
        # All data directories.
        self.data_paths = [root]
        self.settings = {**SETTINGS, "node.id": str(node_of(host)), "log.dirs": root, **settings}
        if world.plan.has_consumers:
            interval_ms = ASSIGNMENT_INTERVALS_MS[world.plan.seed % 2]
            self.settings |= CONSUMER_GROUPS | {"group.consumer.assignment.interval.ms": str(interval_ms)}
        if world.plan.has_shares:
            self.settings |= share_groups(world)
        if world.plan.has_streams or world.plan.instances:
            self.settings |= streams_groups(world)
        if world.plan.instances:
            self.settings |= INSTANCES
        if world.plan.has_metadata_disks:
            self.data, self.metadata = f"{root}/data", f"{root}/metadata"
            self.data_paths = [self.data]
            self.settings |= {"log.dirs": self.data, "metadata.log.dir": self.metadata}
        if world.plan.data_disks:
            self.data_paths = [f"{root}/disk{number}" for number in range(world.plan.data_disks)]
            self.data, self.metadata = self.data_paths[0], f"{root}/metadata"
            self.settings |= SEVERAL_DISKS | {"log.dirs": ",".join(self.data_paths), "metadata.log.dir": self.metadata}
        if world.plan.has_small_metadata_logs:
            self.settings |= SMALL_METADATA_LOGS
        self.settings.setdefault("advertised.listeners", f"PLAINTEXT://{host}:{PORT}")
        self.is_broker = "broker" in self.settings.get("process.roles", "broker")
        self.draw = world.draws(host)
        # How many disks were replaced by empty ones.
        self.disks_replaced = 0
        if world.plan.voters:
            format_voter(world.plan, host, root, 0)
        elif world.plan.is_cluster:
            records = bootstrap_records(world.plan)
            cluster_id = TARGET_ID if host in world.plan.targets else CLUSTER_ID
            node_id = int(self.settings["node.id"])
            format_directory(self.data_paths, node_id, self.draw, self.metadata, records, cluster_id)
        self.disk: Disk | DiskArray
        if world.plan.data_disks:
            self.disk = DiskArray(root, self.data_paths, self.metadata, world.draws(f"{host}/disk"))
        else:
            self.disk = Disk(root, world.draws(f"{host}/disk"))
            self.disk.takes_notes = True
        self.clock = MachineClock(world.time, rate)
        self.boot = 0
        self.server: BrokerServer | ControllerServer | None = None
        self.loop: SimLoop | None = None
        self.listening: list[Listening] = []
        self._gathering = Gathering()
        # Connections of this process to others, in the order of their beginnings.
        self.outgoing: dict[Outgoing, None] = {}
        self.paused_until_us = 0
        # The start is complete; a clean stop is in progress; the process ends after this turn.
        self.is_started = self.is_stopping = self.has_failed = False
        self.stays_down = False
        # Called once, when a transaction is decided and its markers are not all written.
        self.when_ending: Callable[[], object] | None = None
        # Called once records of a group coordinator are in the log and not committed.
        self.when_in_flight: Callable[[], object] | None = None
        # Called once this node leads the metadata quorum, and its own removal is in its log.
        self.when_leaving: Callable[[], object] | None = None
        self.ends = 0
        # Until then a fault has effects; when the last start was over.
        self.disturbed_until_us = self.started_us = 0
        # When the process has its next turn, and, in a cluster, all times for which there is an event of it. Elsewhere
        # there may be several for a time: see SimLoop.
        self._turn_at_us = -1
        self._planned_us: set[int] = set()
        self._directories: list[DataDirectory] = []
        # In this life of the process: the last high watermark and log end, and by (topic id, partition) the offset
        # before which records were deleted. An unclean end may bring deleted records back, as in Kafka.
        self.high_watermarks: dict[Partition, tuple[int, int, int]] = {}
        self.floors: dict[tuple[UUID, int], int] = {}
        # By (group, member id) that was given out but has not joined yet: the time.
        self.pending_since_us: dict[tuple[str, str], int] = {}
        self.turns = 0

    # --- life

    def start(self) -> None:
        """Start the broker; it is tried again later if the disk fails."""
        if self.server is not None or self.stays_down:
            return
        self.world.note(f"{self.host} starts")
        self.loop = SimLoop(
            self.clock,
            self.draw,
            self._wake,
            self._wake_now,
            lambda: disks.current.is_dead,
            forgets_tasks_at_once=not self.world.plan.is_cluster,
        )
        self.high_watermarks.clear()
        self.floors.clear()
        self.pending_since_us.clear()
        config = BrokerConfig.from_properties(self.settings)
        if self.world.plan.has_small_metadata_logs:
            # Kafka's minimum is 8 MiB.
            config._values["metadata.log.segment.bytes"] = METADATA_SEGMENT_BYTES
        with self._inside():
            seams = Seams(self.clock.given, Randomness(self.draw), self.loop.as_loop, self, self)
            server = BrokerServer(config, seams) if self.is_broker else ControllerServer(config, seams)
            self.server = server
            starting = self.loop.create_task(server.start())

        def started(_: object) -> None:
            if self.server is not server or disks.current.is_dead:
                return
            error = starting.exception()
            if error is None:
                self.is_started = True
                self.started_us = self.world.time.now_us
            elif self.disk.faults.active or self.disk.broken or disks.is_dead(self.disk):
                self.world.note(f"{self.host} cannot start: {type(error).__name__}")
                self.has_failed = True
            else:
                raise error

        starting.add_done_callback(started)
        self._schedule()

    def stop(self) -> None:
        """Stop cleanly, and start again."""
        if self.server is None or self.loop is None or self.is_stopping or not self.is_started:
            return
        self.world.note(f"{self.host} stops")
        self.is_stopping = True
        task = self.loop.create_task(self.server.stop())
        server = self.server

        def stopped(_: object) -> None:
            if self.server is server:
                if not self.disk.faults.active and (error := task.exception()) is not None:
                    raise error
                self.world.note(f"{self.host} has stopped")
                self._end(End.KILLED)

        task.add_done_callback(stopped)

        def check() -> None:
            assert self.server is not server, f"{self.host} did not stop within {STOP_US / 1e6} s"

        self.world.at(self.world.time.now_us + STOP_US, check)

    def end(self, how: End) -> None:
        """End the process between two turns."""
        if self.server is not None:
            self._end(how)

    def _end(self, how: End) -> None:
        self.world.note(f"{self.host}: {how.value}")
        loop = self.loop
        assert loop is not None
        self.ends += 1
        self.is_started = self.is_stopping = self.has_failed = False
        with self._inside(is_dead=True):
            # Packets that the broker wrote before its end are on their way, and its closed connections are closed.
            self._gathering.collect()
            for listening in self.listening:
                listening.end(silently=how is End.POWER_LOST)
            self.listening.clear()
            for outgoing in list(self.outgoing):
                outgoing.end(silently=how is End.POWER_LOST)
            self.outgoing.clear()
            loop.kill()
            self.server = self.loop = None
            for directory in self._directories:
                directory.close()
            self._directories.clear()
        disks.stay_alive(self.disk)
        with disks.use(None):
            self.boot += how is End.POWER_LOST
            if isinstance(self.disk, DiskArray):
                self.disk.end_process(loses_power=how is End.POWER_LOST, is_synced=self.world.plan.is_synced)
                self.fit_disks()
            elif how is End.POWER_LOST:
                self.disk.cut()
            else:
                self.disk.kill(evicts=False)
        delay_us = self.draw.choice([0, RESTART_US, 4 * RESTART_US, 20 * RESTART_US])
        if self.world.recovers and self.world.plan.is_cluster:
            # All are stopped then, and all must be there again: every second world would wait for 6 s.
            delay_us = min(delay_us, RESTART_US)
        self.world.at(self.world.time.now_us + delay_us + 1, self.start)

    def fit_disks(self) -> None:
        """Format those that were replaced by empty ones while the process ran."""
        assert isinstance(self.disk, DiskArray)
        for member in self.disk.data:
            if member.is_replaced:
                member.is_replaced = False
                shutil.rmtree(member.root)
                os.mkdir(member.root)
                format_another(member.root, node_of(self.host), self.draw)
                member.begin_again()

    def replace_disk(self) -> None:
        """End the process, and start it with an empty disk, which was formatted for a node of this cluster."""
        assert isinstance(self.disk, Disk)
        self.end(End.KILLED)
        self.disks_replaced += 1
        with disks.use(None):
            shutil.rmtree(self.disk.root)
            os.mkdir(self.disk.root)
            format_voter(self.world.plan, self.host, self.disk.root, self.disks_replaced)
            self.disk.begin_again()

    @property
    def key(self) -> ReplicaKey:
        """The identity of this machine in a quorum with kraft.version 1: its id, and its current directory's id."""
        return key_of(self.world.plan.seed, self.host, self.disks_replaced)

    def discard(self) -> None:
        """End the process, if there is one: the world is over."""
        if self.loop is not None:
            self._end(End.KILLED)
        self._gathering.close()

    # --- turns

    def _wake(self, monotonic_s: float) -> None:
        """The loop has something to do at that time."""
        if not self._is_due:
            self._schedule_at(self.clock.world_us(monotonic_s))

    def _wake_now(self) -> None:
        if not self._is_due:
            self._schedule_at(self.world.time.now_us)

    @property
    def _is_due(self) -> bool:
        """Whether the next turn is due already: nothing can make it come earlier."""
        return 0 <= self._turn_at_us <= self.world.time.now_us

    def _schedule(self) -> None:
        if self.loop is not None and not self._is_due and (due_s := self.loop.next_s()) is not None:
            self._wake(due_s)

    def _schedule_at(self, at_us: int) -> None:
        at_us = max(at_us, self.world.time.now_us, self.paused_until_us)
        if self._turn_at_us < 0 or at_us < self._turn_at_us:
            self._turn_at_us = at_us
            # The time of a timer is asked for after each turn.
            if at_us not in self._planned_us:
                if self.world.plan.is_cluster:
                    self._planned_us.add(at_us)
                self.world.at(at_us + self.draw.randint(1, 60), lambda: self._turn(at_us))

    def _turn(self, planned_us: int) -> None:
        self._planned_us.discard(planned_us)
        if planned_us != self._turn_at_us:
            return
        self._turn_at_us = -1
        if self.loop is None:
            return
        if self.world.time.now_us < self.paused_until_us:
            self._schedule_at(self.paused_until_us)
            return
        self.run(self._make_turn)
        self._gathering.collect()
        if self.world.cluster.committed is not None:
            self.world.cluster.committed.check(self)
        if self.is_started and self.world.plan.is_cluster:
            self.cluster.check(self)
            if self.world.mirrors is not None:
                self.world.mirrors.check(self)
        if self.is_started and self.is_broker:
            check_partitions(self)
            check_waiting(self)
            if self.world.plan.has_shares:
                self.world.shares.check(self)
            self.turns += 1
            if self.turns % COORDINATORS_EVERY == 0:
                check_groups(self)
                check_transactions(self)
                every = RELOADS_EVERY_BROKEN if self.disk.faults.active else RELOADS_EVERY
                if self.turns % every == 0:
                    check_reloads(self)
        if self.is_started and self.server is not None and self.server.broker.controller.halted.done():
            # As the process does (broker_cy.main).
            self._end(End.KILLED)
        if self.when_ending is not None and self.is_started and is_ending(self):
            begin, self.when_ending = self.when_ending, None
            begin()
        if self.when_in_flight is not None and self.is_started and self.is_broker and has_staged(self):
            begin, self.when_in_flight = self.when_in_flight, None
            begin()
        if self.when_leaving is not None and self.is_started and self._is_leaving():
            begin, self.when_leaving = self.when_leaving, None
            begin()
        self._schedule()

    def _is_leaving(self) -> bool:
        """Whether this node leads the metadata quorum, and its log has voters without it."""
        assert self.server is not None
        controller = self.server.broker.controller
        return controller.is_active and self.key not in controller._driver.quorum.voters.keys

    def _make_turn(self) -> None:
        assert self.loop is not None
        with blocking.turn_of(self.host, is_watched=self.is_started and not self.is_stopping):
            self.loop.turn()

    def run(self, work: Callable[[], object]) -> None:
        """Let the process work; it may end in the meantime. Raises the exception that its loop caught."""
        loop = self.loop
        assert loop is not None
        with self._inside():
            with suppress(PowerCut):
                work()
            if disks.current.is_dead:
                self._end(disks.current.end)
                return
        if self.has_failed:
            self._end(End.KILLED)
        elif loop.failure is not None:
            raise loop.failure

    def is_calm_since(self, us: int) -> bool:
        """Whether the broker has run since then without any fault."""
        return self.is_started and not self.is_stopping and max(self.started_us, self.disturbed_until_us) < us

    def pause(self, us: int) -> None:
        self.paused_until_us = max(self.paused_until_us, self.world.time.now_us + us)

    # --- what the broker is given

    def _inside(self, *, is_dead: bool = False) -> disks.use:
        """Code that runs in it belongs to this machine: its time, and its disk."""
        self.clock.sync()
        return disks.use(self.disk, is_dead=is_dead)

    def boot_id(self) -> bytes:
        """Another one after each power cut."""
        return f"{self.host}-{self.boot}".encode()

    def directory(self, path: str) -> DataDirectory:
        """A data directory, whose lock ends with the process."""
        self._directories.append(DataDirectory(path))
        return self._directories[-1]

    # --- the network and the workers of network.seams

    def listen(self, name: str, host: str, port: int, backlog: int, buffers: Buffers) -> Listening:
        self.listening.append(self.world.network.listen(self.host, port, self._schedule, self._gathering))
        return self.listening[-1]

    async def connect(self, protocol: asyncio.BufferedProtocol, host: str, port: int, tls: object = None) -> None:
        assert tls is None, "the network of a simulation has no TLS"
        await Outgoing(self, protocol, host, port).open()

    async def addresses(self, host: str) -> list[str]:
        return [host]

    def own_name(self) -> str:
        return self.host

    def pool(self, name: str, workers_max: int) -> Workers:
        loop = self.loop

        def start(job: Callable[[], None]) -> None:
            def run() -> None:
                if self.loop is loop and loop is not None:
                    self.run(job)
                    self._schedule()

            delay_us = self.draw.choice([5, 50, 500, 5_000, 50_000]) + self._slowness_us(name)
            self.world.at(self.world.time.now_us + self.draw.randint(1, delay_us), run)

        return Workers(workers_max, start)

    def _slowness_us(self, name: str) -> int:
        """How much longer each job of a pool takes: those of a data directory end with its number."""
        if not isinstance(self.disk, DiskArray):
            return 0
        kind, _, number = name.partition("-")
        is_slow = kind in ("sync", "note", "files") and self.disk.data[int(number)].state is State.SLOW
        return SLOW_US if is_slow else 0

    def run_all(self, jobs: Sequence[tuple[str, Callable[[], T]]], threads: int) -> Iterator[T | Exception]:
        return run_inline(jobs, threads)
