"""A seeded run of one group coordinator with members that join, leave, crash, hang and come back, disks that fail, and
restarts.

After each step the invariants of the coordinator are checked. A failure prints the seed, and GROUP_SIM_SEED=<seed> runs
it again.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker_cy.coordinator.group import GroupState
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import Harness, durable, replayed, subscription

STEPS = 3_000
SEEDS = [int(os.environ["GROUP_SIM_SEED"])] if "GROUP_SIM_SEED" in os.environ else list(range(1, 9))
GROUPS = ("a", "b", "c")
SESSION_MS = 10_000
REBALANCE_MS = 20_000
# No request may wait for longer: a new member's join is given up after 5 minutes, everything else is sooner.
ANSWER_WITHIN_MS = 300_000 + 2 * REBALANCE_MS + 10_000


@dataclass
class Client:
    """One consumer: what it believes, and the request it waits for."""

    name: str
    group_id: str
    instance_id: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    members: list[str] = field(default_factory=list)
    waiting: object | None = None
    waits_for: str = ""
    since_ms: int = 0
    alive: bool = True
    topics: tuple[str, ...] = ("t",)


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.harness = Harness(initial_rebalance_delay_ms=self.rng.choice([0, 500, 3_000]), group_max_size=6)
        self.clients: list[Client] = []
        self.counter = 0
        self.abandoned: dict[object, int] = {}
        # (group, generation) -> member -> assignment, as members were told.
        self.told: dict[tuple[str, int, int], dict[str, bytes]] = {}
        self.leaders: dict[tuple[str, int, int], str] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.awaited_commits: dict[object, tuple[str, int, int]] = {}
        # Which group by an id this is: it is another after it was deleted, or loaded again.
        self.incarnations: dict[str, tuple[object, int]] = {}

    def incarnation(self, group_id: str) -> int:
        group = self.harness.machine.groups.get(group_id)
        before, number = self.incarnations.get(group_id, (None, 0))
        if group is not before:
            number += 1
            self.incarnations[group_id] = (group, number)
        return number

    def token(self) -> object:
        self.counter += 1
        return self.counter

    # ---- what can happen ----

    def step(self) -> None:
        actions = [
            (self.new_client, 3),
            (self.act, 30),
            (self.crash, 2),
            (self.hang_up, 2),
            (self.leave, 2),
            (self.commit, 6),
            (self.advance, 10),
            (self.jump_wall, 1),
            (self.toggle_hold, 3),
            (self.fail_disk, 1),
            (self.restart, 1),
            (self.admin, 2),
            (self.sweep, 1),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        self.check()

    def new_client(self) -> None:
        if sum(client.alive for client in self.clients) >= 12:
            return
        self.counter += 1
        static = self.rng.random() < 0.3
        self.clients.append(
            Client(
                f"c{self.counter}",
                self.rng.choice(GROUPS),
                f"static-{self.rng.randrange(4)}" if static else None,
                version=self.rng.choice([5, 9]) if static else self.rng.choice([0, 3, 4, 9]),
            )
        )

    def pick(self, **wanted: Any) -> Client | None:
        found = [c for c in self.clients if c.alive and all(getattr(c, k) == v for k, v in wanted.items())]
        return self.rng.choice(found) if found else None

    def act(self) -> None:
        """One client does what a consumer does next."""
        client = self.pick(waiting=None)
        if client is None:
            return
        if client.generation < 0:
            self.send_join(client)
        elif client.waits_for == "sync":
            self.send_sync(client)
        else:
            code = self.harness.heartbeat(
                client.member_id, client.generation, instance_id=client.instance_id, group_id=client.group_id
            )
            self.react(client, code)
            if code is ErrorCode.NONE and self.rng.random() < 0.05:
                client.topics = (*client.topics[:1], f"t{self.rng.randrange(3)}")
                client.generation = -1

    def send_join(self, client: Client) -> None:
        client.waiting, client.waits_for, client.since_ms = self.token(), "join", self.harness.mono_ms
        protocols = [("range", subscription(*client.topics)), ("sticky", b"s" * self.rng.randrange(3))]
        self.rng.shuffle(protocols)
        self.harness.join(
            client.waiting,
            client.member_id,
            version=client.version,
            group_id=client.group_id,
            instance_id=client.instance_id,
            protocols=protocols,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            client_id=client.name,
        )

    def send_sync(self, client: Client) -> None:
        client.waiting, client.since_ms = self.token(), self.harness.mono_ms
        assignments = None
        if client.is_leader:
            assignments = {m: f"{client.generation}:{i}".encode() for i, m in enumerate(client.members)}
        self.harness.sync(
            client.waiting,
            client.member_id,
            client.generation,
            assignments,
            group_id=client.group_id,
            instance_id=client.instance_id,
        )

    def crash(self) -> None:
        """A client is gone for good; nobody reads its answer."""
        client = self.pick()
        if client is not None:
            client.alive = False
            self.give_up(client)

    def hang_up(self) -> None:
        """A client loses its connection, forgets the answer it waits for and begins again."""
        client = self.pick()
        if client is not None and client.waiting is not None:
            self.give_up(client)
            client.generation, client.waits_for = -1, ""
            if client.instance_id is not None and self.rng.random() < 0.5:
                client.member_id = ""

    def give_up(self, client: Client) -> None:
        if client.waiting is not None:
            self.abandoned[client.waiting] = client.since_ms
            client.waiting = None

    def leave(self) -> None:
        client = self.pick(waiting=None)
        if client is not None and client.member_id:
            self.harness.leave(self.token(), (client.member_id, client.instance_id), group_id=client.group_id)
            client.alive = False

    def commit(self) -> None:
        client = self.pick(waiting=None, waits_for="")
        if client is None or client.generation < 0:
            return
        token, offset = self.token(), self.rng.randrange(1000)
        partition = self.rng.randrange(4)
        self.awaited_commits[token] = (client.group_id, partition, offset)
        self.harness.commit(
            token,
            offset,
            member_id=client.member_id,
            generation=client.generation,
            group_id=client.group_id,
            instance_id=client.instance_id,
            partition=partition,
        )

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 50, 500, 3_000, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))

    def jump_wall(self) -> None:
        self.harness.wall_ms += self.rng.choice([-3_600_000, -1, 1, 3_600_000])

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.harness.fail()

    def restart(self) -> None:
        """The broker dies: what was not written is gone, and so is every connection."""
        for client in self.clients:
            if client.waiting is not None:
                client.waiting, client.waits_for, client.generation = None, "", -1
        self.abandoned.clear()
        self.awaited_commits.clear()
        self.harness.restart()

    def admin(self) -> None:
        group_id = self.rng.choice(GROUPS)
        if self.rng.random() < 0.3:
            codes = self.harness.delete_groups(self.token(), group_id)
            if codes.get(group_id, ErrorCode.NONE) is ErrorCode.NONE:
                self.committed = {key: v for key, v in self.committed.items() if key[0] != group_id}
                # Commits that are being written came before the deletion.
                self.awaited_commits = {t: c for t, c in self.awaited_commits.items() if c[0] != group_id}
        else:
            self.harness.machine.describe(group_id, 6)
            self.harness.machine.list_groups([], [])

    def sweep(self) -> None:
        self.harness.take(self.harness.machine.sweep(self.harness.now))

    # ---- what clients are told ----

    def deliver(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting in self.harness.answers:
                answer = self.harness.answers[client.waiting]
                client.waiting = None
                if client.waits_for == "join":
                    self.joined(client, answer)
                else:
                    self.synced(client, answer)
        for token in [t for t in self.abandoned if t in self.harness.answers]:
            del self.abandoned[token]
        for token in [t for t in self.awaited_commits if t in self.harness.answers]:
            group_id, partition, offset = self.awaited_commits.pop(token)
            if self.harness.answers[token].topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.committed[group_id, partition] = offset

    def joined(self, client: Client, answer: Any) -> None:
        client.waits_for = ""
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            return
        if answer.error_code != ErrorCode.NONE:
            self.react(client, ErrorCode(answer.error_code))
            return
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.is_leader = answer.leader == answer.member_id
        client.members = [member.member_id for member in answer.members]
        assert bool(client.members) == client.is_leader
        client.waits_for = "" if answer.skip_assignment else "sync"
        if answer.skip_assignment or not client.is_leader:
            client.waits_for = "sync"
            client.is_leader = client.is_leader and not answer.skip_assignment
        elif client.is_leader:
            key = (client.group_id, client.generation, self.incarnation(client.group_id))
            before = self.leaders.setdefault(key, client.member_id)
            assert before == client.member_id or client.instance_id, f"two leaders of {key}"

    def synced(self, client: Client, answer: Any) -> None:
        client.waits_for = ""
        if answer.error_code != ErrorCode.NONE:
            self.react(client, ErrorCode(answer.error_code))
            return
        if not answer.assignment:
            return
        # An assignment is given to one member of a generation only, or to the one that took its place.
        told = self.told.setdefault((client.group_id, client.generation, self.incarnation(client.group_id)), {})
        for other, assignment in told.items():
            if assignment == answer.assignment and other != client.member_id:
                assert client.instance_id is not None, f"{other} and {client.member_id} own {assignment!r}"
        told[client.member_id] = answer.assignment

    def react(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        client.generation, client.waits_for = -1, ""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            client.member_id = ""
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            client.alive = False
        else:
            assert code in (
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ), code

    # ---- what must always hold ----

    def check(self) -> None:
        machine = self.harness.machine
        waiting_tokens: set[object] = set()
        for group_id in GROUPS:
            self.incarnation(group_id)
        for group in machine.groups.values():
            members = group.members
            assert group.leader_id in members if members else group.leader_id is None
            assert group.waiting_joins == sum(m.join_token is not None for m in members.values())
            assert group.pending_sync <= members.keys()
            assert not group.pending_members & members.keys()
            statics = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
            assert statics == group.static_members
            assert (group.state is GroupState.EMPTY) <= (not members)
            for member in members.values():
                waiting_tokens |= {member.join_token, member.sync_token} - {None}
                assert member.sync_token is None or group.state is GroupState.COMPLETING_REBALANCE
            if group.state is GroupState.STABLE:
                assert group.protocol_name is not None
                assert all(any(p == group.protocol_name for p, _ in m.protocols) for m in members.values())
        known = self.harness.answers.keys()
        now_ms = self.harness.mono_ms
        for client in self.clients:
            if client.waiting is not None:
                # Each request is waiting in exactly one place, or its answer depends on a record that is being written.
                assert client.waiting in waiting_tokens or self.harness.held, f"the request of {client.name} is lost"
                assert now_ms - client.since_ms <= ANSWER_WITHIN_MS, f"{client.name} waits for {client.waits_for}"
        for token, since_ms in self.abandoned.items():
            assert token in known or token in waiting_tokens or self.harness.held
            assert now_ms - since_ms <= ANSWER_WITHIN_MS
        if not self.harness.held:
            again = replayed(self.harness.log, self.harness.settings, self.harness.now)
            assert durable(again) == durable(machine)
            for (group_id, partition), offset in self.committed.items():
                found = machine.offsets.get(group_id, "t", partition)
                assert found is not None, "an acknowledged commit is lost"
                assert found.committed_offset == offset, "an acknowledged commit went back"


@pytest.mark.parametrize("seed", SEEDS)
def test_members_come_and_go_and_nothing_acknowledged_is_lost(seed: int) -> None:
    """Else: consumers hang in a rebalance forever, two of them read the same partition, or an offset goes back."""
    world = World(seed)
    for number in range(STEPS):
        try:
            world.step()
        except AssertionError as error:
            command = f"GROUP_SIM_SEED={seed} python -m pytest tests/sim/test_group_simulation.py"
            raise AssertionError(f"seed {seed}, step {number}: {error}\nagain with: {command}") from error
    assert len(world.leaders) > 10, "the run was idle"
    assert len(world.told) > 10, "the run was idle"
