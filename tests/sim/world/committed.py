"""The metadata log of a cluster whose voters change: its committed batches, and the nodes that may change it.

The world keeps every batch that was ever committed, and all sets of voters. Each node must have the same batches,
whatever disks were replaced since.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from broker_cy.quorum import wire_log
from broker_cy.quorum.step import Role
from broker_cy.quorum.voters import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from broker_cy.quorum.entries import Batch
    from broker_cy.quorum.state import QuorumState
    from tests.sim.world.machine import Machine
    from tests.sim.world.world import World

READ_BYTES = 1 << 20
NEVER = 1 << 62
# Clocks drift, and are read before a turn.
SLACK_US = 50_000
Voters = frozenset[ReplicaKey]


class Committed:
    """The batches that the nodes have committed. The first voters are committed from the beginning."""

    def __init__(self, world: World, first: Voters) -> None:
        self._world = world
        self._batches: dict[int, Batch] = {}
        # By node: its number of processes, and the offset up to which the log of the current one was compared.
        self._compared: dict[str, tuple[int, int]] = {}
        # By epoch of the quorum.
        self._leaders: dict[int, str] = {}
        # All sets of voters, in the order of their commits.
        self.voters: list[Voters] = [first]
        # The commits as (us, end offset), and the end of the last committed batch that is not a control batch.
        self._ends: list[tuple[int, int]] = [(-NEVER, 0)]
        self._data_end = 0
        # By node and directory: the end of its log.
        self._log_ends: dict[ReplicaKey, int] = {}

    # --- after each turn of a node

    def check(self, machine: Machine) -> None:
        """Raises AssertionError if a node has committed other batches than others, or leads and must not. A node may
        lead while it is starting.
        """
        controller = getattr(machine.server.broker, "controller", None) if machine.server is not None else None
        if controller is None or not hasattr(controller, "_driver"):
            return
        state = controller._driver.quorum._state
        self._log_ends[state.key] = state.log.end_offset
        if state.role is Role.LEADER:
            self._check_leader(machine, state)
        mark = state.high_watermark
        life, compared = self._compared.get(machine.host, (-1, 0))
        if life != machine.ends:
            compared = 0
        if mark > compared:
            log = controller._files.log
            at = max(compared, log.log_start_offset)
            while at < min(mark, log.written_end_offset):
                content = controller._files.read(at, mark, READ_BYTES)
                for batch in wire_log.batches_of(content):
                    self._note(machine.host, batch)
                    at = batch.end_offset
            compared = at
        self._compared[machine.host] = machine.ends, compared

    def _note(self, host: str, batch: Batch) -> None:
        known = self._batches.setdefault(batch.offset, batch)
        assert known == batch, f"{host} has {batch} committed, and others have {known}"
        if known is not batch:
            return
        end = self._ends[-1][1]
        assert batch.offset == end, f"{host} has {batch} committed, and the metadata log is committed up to {end}"
        self._ends.append((self._world.time.now_us, batch.end_offset))
        if not batch.control:
            self._data_end = batch.end_offset
        for entry in batch.control:
            if isinstance(entry, VoterSet):
                voters = frozenset(entry.keys)
                changed = self.voters[-1] ^ voters
                assert len(changed) <= 1, f"{host}: one change of the voters concerns {changed}"
                self.voters.append(voters)

    def _check_leader(self, machine: Machine, state: QuorumState) -> None:
        host = machine.host
        leader = self._leaders.setdefault(state.epoch, host)
        assert leader == host, f"{leader} and {host} lead the quorum in epoch {state.epoch}"
        newest, mark = state.history.newest, state.high_watermark
        assert state.is_voter or newest.offset >= mark, f"{host} leads, and it is committed that it is no voter"
        if newest.offset <= state.epoch_start_offset:
            return
        assert mark > state.epoch_start_offset, f"{host} has changed the voters before it committed anything"
        before = state.history.before_newest
        assert before is None or before.offset < mark, f"{host} has two changes of the voters that are not committed"
        if newest.offset >= mark:
            for key in frozenset(newest.voters.keys) - frozenset(before.voters.keys if before is not None else ()):
                self._check_added(key, state.timeouts.fetch_ms)

    def _check_added(self, key: ReplicaKey, fetch_ms: int) -> None:
        """An added voter exists with this disk and has caught up; otherwise it would delay the others."""
        machine = next(each for each in self._world.machines.values() if each.key.id == key.id)
        assert machine.key == key, f"{key} was made a voter, and {machine.host} has the disk {machine.key}"
        caught_up_us = self._world.time.now_us - fetch_ms * 1000 - SLACK_US
        needed = self._ends[bisect_right(self._ends, (caught_up_us, NEVER)) - 1][1]
        end = self._log_ends.get(key, 0)
        assert end >= needed, (
            f"{key} was made a voter with a log up to {end}, when {needed} had been committed long ago"
        )

    # --- what others ask

    def since(self, count: int) -> list[Voters]:
        """The voters when `count` sets of them had been committed, and since then."""
        return self.voters[count - 1 :]

    def behind(self) -> list[str]:
        """Return the nodes that lack committed batches, or have other voters than those that were committed last."""
        found = []
        for host, machine in self._world.machines.items():
            assert machine.server is not None
            quorum = machine.server.broker.controller._driver.quorum
            end = self._ends[-1][1]
            image = machine.server.broker.image
            # A leader's own control records are not in its image.
            has_all = quorum.high_watermark == quorum.end_offset == end and image.offset >= self._data_end - 1
            if not has_all or frozenset(quorum.voters.keys) != self.voters[-1]:
                found.append(host)
        return found
