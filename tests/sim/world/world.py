"""One world: it runs a plan to its end, and checks the invariants.

Time goes from event to event: bytes that arrive, turns of loops, jobs of workers, faults. After the faults everything
is repaired, and each client must make progress within RECOVERY_S. Then the clients end, two consumers read all
remaining records, and the history is checked (tests.history.checker).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.storage import open_directories, written_points
from tests.history.checker import check
from tests.history.operations import Compact, Place, Recorder, Unclean
from tests.sim.world import blocking, disks, faults
from tests.sim.world.applications import Application
from tests.sim.world.clients.admins import Admin
from tests.sim.world.clients.app_admins import AppAdmin
from tests.sim.world.clients.base import Client, Spot
from tests.sim.world.clients.cluster_admins import ClusterAdmin
from tests.sim.world.clients.committers import Committer
from tests.sim.world.clients.consumers import Consumer
from tests.sim.world.clients.copiers import Copier
from tests.sim.world.clients.directors import Director
from tests.sim.world.clients.holders import Holder
from tests.sim.world.clients.managers import Manager
from tests.sim.world.clients.members import Member, StaticMember
from tests.sim.world.clients.metered import Metered
from tests.sim.world.clients.mirrored import MirrorAdmin, MirrorReader, MirrorWriter, SourceAdmin
from tests.sim.world.clients.mixed import MixedConsumer
from tests.sim.world.clients.movers import Mover
from tests.sim.world.clients.operators import Operator
from tests.sim.world.clients.producers import PlainProducer, RefusedProducer
from tests.sim.world.clients.readers import LastReader, Reader
from tests.sim.world.clients.share_members import LastShareConsumer, ShareConsumer
from tests.sim.world.clients.share_operators import ShareOperator
from tests.sim.world.clients.static_consumers import StaticConsumer
from tests.sim.world.clients.streams_threads import StreamsThread
from tests.sim.world.clients.transactions import Fencer, TransactionalProducer
from tests.sim.world.clients.unclean import UncleanAdmin
from tests.sim.world.clients.voters import VotersOperator
from tests.sim.world.clients.warden import Warden
from tests.sim.world.clock import EPOCH_MS, MachineClock, WorldTime
from tests.sim.world.cluster import CLUSTER, TARGET, Cluster, Lagging, Site, settings_of
from tests.sim.world.copies import Copies
from tests.sim.world.draws import ENTRIES_MAX, Draws, Trace
from tests.sim.world.fenced import Fenced
from tests.sim.world.groups import Groups
from tests.sim.world.instances import Instance
from tests.sim.world.jbod import misplaced
from tests.sim.world.loop import SimLoop
from tests.sim.world.machine import Machine
from tests.sim.world.mirror_process import MirrorProcess
from tests.sim.world.mirrors import Mirrors, links_of
from tests.sim.world.network import Network
from tests.sim.world.owners import Owners
from tests.sim.world.plan import MOVER, REPLACE_DISK, Fault, Plan
from tests.sim.world.process import Program
from tests.sim.world.rest import restless
from tests.sim.world.shares import Shares
from tests.support.power import replaced, steady_files

# The longest virtual times after the faults: until each client has made progress, has ended, and everything is read.
RECOVERY_S, ENDING_S, READING_S = 60, 120, 60
# The same until all replicas of a cluster are in sync.
IN_SYNC_S = 30
# The same until each replica is in one place, which the metadata name. Several moves may share the lowest throttle of
# clients.movers, and copy some 100,000 bytes.
IN_PLACE_S = 120
# The same until everything is copied: a group rebalances, and its members fail and start again, before that.
COPIED_S = 60
# The same until everything is processed, before and after a restart of all instances.
PROCESSED_S = 60
# The same until mirrors have everything that their sources have; and the time with faults after a reversal.
MIRRORED_S, REVERSAL_US = 30, 2_500_000
# The same until groups of members that read on are stable. A session, a rebalance, and the refresh of expressions,
# which takes 10 s, follow each other.
REST_S = 30
# The same until a member of a share group has settled every record.
SETTLING_S = 60
# A world with more events than this runs in an endless loop.
EVENTS_MAX = 2_000_000
KINDS: dict[str, type[Client]] = {
    "admin": Admin,
    "plain": PlainProducer,
    "refused": RefusedProducer,
    "txn": TransactionalProducer,
    "copier": Copier,
    "fencer": Fencer,
    "reader": Reader,
    "member": Member,
    "static": StaticMember,
    "operator": Operator,
    "voters": VotersOperator,
    "unclean": UncleanAdmin,
    "warden": Warden,
    "holder": Holder,
    "metered": Metered,
    MOVER: Mover,
    "consumer": Consumer,
    "instance": StaticConsumer,
    "mixed": MixedConsumer,
    "manager": Manager,
    "share": ShareConsumer,
    "shareoperator": ShareOperator,
    "streams": StreamsThread,
    "director": Director,
    "adminsource": SourceAdmin,
    "adminmirror": MirrorAdmin,
    "mirrorreader": MirrorReader,
    "mirrorwriter": MirrorWriter,
    "committer": Committer,
    "adminapp": AppAdmin,
}
# In a cluster, instead of the same.
IN_CLUSTER: dict[str, type[Client]] = {"admin": ClusterAdmin}
# These write to the metadata log in C; it may be on another disk than the data.
METADATA_WRITES = ("append", "truncate", "replace", "delete_log_before")
SYNCED = {"log.flush.interval.messages": "1"}


class Named(Protocol):
    """A client, or anything else that takes time."""

    @property
    def name(self) -> str: ...


class World:
    """Runs `plan` on disks below `root`, which must be in memory."""

    def __init__(self, plan: Plan, root: str, trace: Trace | None = None) -> None:
        self.plan, self.root = plan, root
        self.trace = trace or Trace()
        self.time = WorldTime()
        self.network = Network(self, self.draws("network"))
        self.recorder = Recorder()
        self.groups = Groups(self)
        self.owners = Owners(self)
        self.shares = Shares(self)
        self.fenced = Fenced()
        self._trims: set[Place] = set()
        self.acked = self.reads = self.steps = 0
        # The faults are over, and so is the work of the clients.
        self.recovers = self.over = False
        # Clients do nothing that changes groups: they come to rest.
        self.settles = False
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0
        # When the clients have their next turn, and all times for which there is an event of theirs.
        self._clients_turn_us = -1
        self._clients_planned_us: set[int] = set()
        self._addresses: dict[str, str] = {}
        self.machines: dict[str, Machine] = {}
        for host, drift in zip(plan.hosts, plan.drifts_ppm, strict=True):
            directory = os.path.join(root, host)
            os.mkdir(directory)
            settings = SYNCED if plan.is_synced else {}
            if plan.is_cluster:
                settings = settings | settings_of(plan, host)
            if plan.targets:
                settings = settings | links_of(plan, root)
            self.machines[host] = Machine(self, host, directory, settings, 1 + drift / 1e6)
        # The sites that clients talk to.
        self.sites: dict[str, Site] = dict(self.machines)
        self.clusters = {CLUSTER: self._cluster_of(set(plan.hosts) - set(plan.targets))}
        self.cluster = self.clusters[CLUSTER]
        if plan.targets:
            self.clusters[TARGET] = self._cluster_of(set(plan.targets))
        if plan.is_cluster:
            self.sites = dict(self.clusters)
        self.mirrors = Mirrors(self) if plan.targets and not plan.copiers else None
        self.copies = Copies(self) if plan.copiers else None
        self.application = Application(self) if plan.instances else None
        self.processes: dict[str, Program] = {
            host: MirrorProcess(self, host, 1 + drift / 1e6)
            for host, drift in zip(plan.copiers, plan.drifts_ppm, strict=False)
        }
        drifts = itertools.cycle(plan.drifts_ppm)
        self.processes |= {host: Instance(self, host, 1 + next(drifts) / 1e6) for host in plan.instances}
        # Written data that was not synced is never lost.
        self.keeps_unsynced = plan.is_synced or not any(
            each.kind.startswith("lose_power") for each in (*plan.faults, *plan.later)
        )
        # A record may be on one broker alone.
        self.keeps_single = self.keeps_unsynced and not any(each.kind == REPLACE_DISK for each in plan.faults)
        self.clients = SimLoop(
            MachineClock(self.time),
            self.draws("clients"),
            self._wake_clients,
            self._wake_clients_now,
            forgets_tasks_at_once=not plan.is_cluster,
        )
        self.all_clients: list[Client] = []

    def _cluster_of(self, hosts: set[str]) -> Cluster:
        machines = {host: machine for host, machine in self.machines.items() if host in hosts}
        cluster = Cluster(self, machines)
        for machine in machines.values():
            machine.cluster = cluster
        return cluster

    # --- what everything in the world uses

    def draws(self, name: str) -> Draws:
        return Draws(self.plan.seed, name, self.trace)

    def at(self, us: int, work: Callable[[], object]) -> None:
        """Do something at a time of the world. Among events at the same time, the one that was requested first comes
        first.
        """
        self._count += 1
        heapq.heappush(self._events, (us, self._count, work))

    def note(self, line: str) -> None:
        self.trace.add(f"{self.time.now_us} {line}")

    def wall_ms(self) -> int:
        """The clients' wall clock."""
        return EPOCH_MS + self.time.now_us // 1000

    def is_trimmed(self, spot: Spot) -> bool:
        """Whether a client has asked to delete records."""
        return spot.place in self._trims

    def trimming(self, spot: Spot) -> None:
        """Records may be deleted from now on."""
        self._trims.add(spot.place)

    def address(self, host: str) -> str:
        """The address of a host on its network."""
        if self.plan.is_one_machine:
            return "10.0.1.1"
        return self._addresses.setdefault(host, f"10.0.1.{len(self._addresses) + 1}")

    def trimmed(self, host: str, spot: Spot, low_watermark: int) -> None:
        """Records were deleted: until the process ends, the log does not start before that."""
        if host in self.machines:
            self.machines[host].floors[spot.topic_id, spot.partition] = low_watermark

    # --- the run

    def run(self) -> None:
        """Raises AssertionError if an invariant is violated, and any exception that a broker or a client raised."""
        # Modules that draw from the global stream.
        random.seed(self.plan.seed)
        try:
            with (
                self._disks_installed(),
                blocking.installed(),
                steady_files(),
                self._machines_installed(),
                self.copies.installed() if self.copies is not None else nullcontext(),
                self.application.installed() if self.application is not None else nullcontext(),
            ):
                self._run()
        finally:
            self._close()

    def _disks_installed(self) -> AbstractContextManager[None]:
        return disks.installed(has_arrays=self.plan.data_disks > 0)

    def _machines_installed(self) -> AbstractContextManager[None]:
        """Requests of a broker to its machine are answered by the machine whose disk is in use."""
        machines = {id(machine.disk): machine for machine in self.machines.values()}
        return replaced(
            [
                (written_points, "boot_id", lambda: machines[id(disks.current.disk)].boot_id()),
                (open_directories, "DataDirectory", lambda path: machines[id(disks.current.disk)].directory(path)),
                *((MetadataLog, name, disks.spared(getattr(MetadataLog, name))) for name in METADATA_WRITES),
            ]
        )

    def _run(self) -> None:
        for machine in self.machines.values():
            machine.start()
        for process in self.processes.values():
            process.start()
        for name, host in self.plan.clients:
            kind = name.partition("-")[0].rstrip("0123456789")
            kinds = KINDS | IN_CLUSTER if self.plan.is_cluster else KINDS
            self._add(kinds[kind](self, name, host))
        self._disturb(self.plan.faults, self.plan.duration_us)
        self._until(self.time.now_us + self.plan.calm_us)
        if self.plan.has_consumers or self.plan.has_streams:
            self.settles = True
            self._wait(REST_S, "to come to rest", lambda: restless(self))
        self._end_clients()
        if self.plan.is_cluster:
            if self.plan.data_disks:
                self._wait(IN_PLACE_S, "to be in place", lambda: misplaced(self))
            for client in self.all_clients:
                if isinstance(client, VotersOperator):
                    client.check_end()
        if self.plan.has_shares:
            sharer = self._add(LastShareConsumer(self, f"share-last-{CLUSTER}", CLUSTER))
            self._wait(SETTLING_S, f"to settle {self.shares.left()[:9]}", lambda: [] if sharer.is_done else [sharer])
        settled = self.recorder.now()
        last = [
            self._add(LastReader(self, f"last-{committed}-{host}", host, committed=committed))
            for host in self.sites
            if host != TARGET
            for committed in (False, True)
        ]
        if self.copies is not None:
            self._wait(COPIED_S, "to be copied", self.copies.behind)
        if self.application is not None:
            self._wait(PROCESSED_S, "to be processed", self.application.behind)
            self.application.restart()
            self._wait(PROCESSED_S, "to be restored", self.application.behind)
        if self.mirrors is not None:
            self._wait(MIRRORED_S, "to be mirrored", self.mirrors.behind)
            last += [self._add(client) for client in self.mirrors.last_readers()]
        self._wait(READING_S, "to read everything", lambda: [client for client in last if not client.is_done])
        compacted = {spot.place for client in last for spot in client.spots if spot.topic[0] == "c"}
        if self.plan.is_cluster:
            # Processes that copy, and leaders of mirrors, still write.
            self._wait(IN_SYNC_S, "to be in sync", self._out_of_sync)
            for cluster in self.clusters.values():
                cluster.compare_logs()
        if self.mirrors is not None:
            # Transactions that nothing ended have timed out in the meantime.
            self._wait(MIRRORED_S, "to be mirrored", self.mirrors.behind)
            self.mirrors.check_end()
        unclean = {spot.place for client in last for spot in client.spots if spot.topic[0] == "u"}
        known = [Compact(place) for place in sorted(compacted)]
        losses = [Unclean(place, settled) for place in sorted(unclean)]
        findings = check([*known, *losses, *self.recorder.operations])
        assert not findings, "\n".join(str(each) for each in findings)
        if self.mirrors is not None and self.plan.reverses:
            self._reverse(self.mirrors)

    def _disturb(self, planned: Sequence[Fault], duration_us: int) -> None:
        """Let the faults happen, end them, and wait until each client has made progress."""
        began_us = self.time.now_us
        self.recovers = False
        for fault in planned:
            # In a shortened plan, later faults would begin after everything has been repaired.
            if fault.at_us <= duration_us:
                self.at(began_us + fault.at_us, lambda fault=fault: faults.begin(self, fault))  # type: ignore[misc]
        self._until(began_us + duration_us)
        self.note("the faults are over")
        self.recovers = True
        faults.end_all(self)
        before = {client: client.successes for client in self.all_clients if not client.is_done}
        self._wait(
            RECOVERY_S, "to get on", lambda: [client for client, was in before.items() if client.successes == was]
        )

    def _end_clients(self) -> None:
        self.over = True
        self._wait(ENDING_S, "to end", lambda: [client for client in self.all_clients if not client.is_done])
        if self.plan.is_cluster:
            self._wait(IN_SYNC_S, "to be in sync", self._out_of_sync)

    def _out_of_sync(self) -> list[Lagging]:
        """See Cluster.out_of_sync."""
        return [each for cluster in self.clusters.values() for each in cluster.out_of_sync()]

    def _reverse(self, mirrors: Mirrors) -> None:
        """The first cluster mirrors what was promoted, under faults."""
        self.note("the mirrors are reversed")
        self.over = False
        for client in mirrors.reverse():
            self._add(client)
        self._disturb(self.plan.later, REVERSAL_US)
        self._end_clients()
        # A follower may still fetch what its leader has from the other cluster.
        self._wait(MIRRORED_S, "to be mirrored", lambda: [*mirrors.behind(), *self._out_of_sync()])
        for cluster in self.clusters.values():
            cluster.compare_logs()
        mirrors.check_end()

    def _add(self, client: Any) -> Any:
        self.all_clients.append(client)
        task = self.clients.create_task(client.run())

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

        task.add_done_callback(ended)
        return client

    def _until(self, end_us: int) -> None:
        while self._events and self._events[0][0] <= end_us:
            self.time.now_us, _, work = heapq.heappop(self._events)
            self.steps += 1
            self.trace.add(self.time.now_us)
            work()
        self.trace.digest_entries(ENTRIES_MAX)
        assert self.steps < EVENTS_MAX, f"{EVENTS_MAX} events"
        self.time.now_us = end_us

    def _wait(self, seconds: int, what: str, left: Callable[[], Sequence[Named]]) -> None:
        """Let the world run until nothing is left. Raises AssertionError after that many seconds."""
        end_us = self.time.now_us + seconds * 1_000_000
        while names := [client.name for client in left()]:
            assert self.time.now_us < end_us, f"{', '.join(names)} took more than {seconds} s {what}"
            self._until(self.time.now_us + 20_000)

    # --- turns

    def _wake_clients(self, at_s: float) -> None:
        self._wake_clients_at(self.clients.clock.world_us(at_s))

    def _wake_clients_now(self) -> None:
        self._wake_clients_at(self.time.now_us)

    def _wake_clients_at(self, at_us: int) -> None:
        at_us = max(at_us, self.time.now_us)
        if self._clients_turn_us < 0 or at_us < self._clients_turn_us:
            self._clients_turn_us = at_us
            if at_us not in self._clients_planned_us:
                self._clients_planned_us.add(at_us)
                self.at(at_us, lambda: self._turn_clients(at_us))

    def _turn_clients(self, planned_us: int) -> None:
        self._clients_planned_us.discard(planned_us)
        if planned_us != self._clients_turn_us:
            return
        self._clients_turn_us = -1
        self.clients.turn()
        if self.clients.failure is not None:
            raise self.clients.failure
        if (due_s := self.clients.next_s()) is not None:
            self._wake_clients(due_s)

    def _close(self) -> None:
        for process in self.processes.values():
            process.stays_down = True
            process.kill()
        for machine in self.machines.values():
            machine.stays_down = True
            disks.repair(machine.disk)
            disks.stay_alive(machine.disk)
        with self._disks_installed(), blocking.installed(), steady_files(), self._machines_installed():
            for machine in self.machines.values():
                machine.discard()
        self.clients.kill()
