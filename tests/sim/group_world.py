"""The world of the group simulation: one state machine of the group coordinator, with members that join, leave, crash,
hang and come back, late requests, failing disks and restarts. The coordinator also moves to other brokers; the old one
continues until it learns of the move.

The coordinator's log is a partition of the broker, on files. The world keeps the clients' knowledge apart from the
coordinator's state, and compares the two after each step.
The file is long because each act needs what the others left under way: requests, deadlines and late answers.
"""

from __future__ import annotations

import random
from typing import Any

from broker_cy.coordinator import expiry
from broker_cy.coordinator.group_machine import ClassicBefore
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import replayed, subscription
from tests.sim.group_checks import check
from tests.sim.group_clients import (
    DELAY_MAX_MS,
    GROUPS,
    LOG,
    MEMBERS_MAX,
    PAST_MAX,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    LoggedHarness,
    Past,
)
from tests.sim.real_partitions import Partitions


class World:
    """`root` is an empty directory."""

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.store = Partitions(root, {LOG[0]: 1})
        self.harness = LoggedHarness(
            self.store, initial_rebalance_delay_ms=self.rng.choice([0, 500, DELAY_MAX_MS]), group_max_size=MEMBERS_MAX
        )
        # Past memberships, and the newest generation that a member of each group has received.
        self.past: list[Past] = []
        self.newest: dict[tuple[str, int], int] = {}
        # The newest member id of an instance id, by group.
        self.holders: dict[tuple[str, int, str | None], str] = {}
        # The times since which a member of a group has no client, and since which a member id is pending.
        self.gone: dict[tuple[str, str], int] = {}
        self.pending: dict[tuple[str, str], int] = {}
        self.clients: list[Client] = []
        self.moves = 0
        # In half of the worlds the coordinator stays: defects of timers need long times without a reload.
        self.move_weight = seed % 2
        self.counter = 0
        self.abandoned: dict[object, int] = {}
        # (group, generation, incarnation) -> member -> assignment, as members received them.
        self.delivered: dict[tuple[str, int, int], dict[str, bytes]] = {}
        self.leaders: dict[tuple[str, int, int], str] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.awaited_commits: dict[object, tuple[str, int, int]] = {}
        # Those that were not written in time, and may be written later.
        self.late_commits: list[tuple[str, int, int]] = []
        # Requests to delete a group that had members.
        self.refused_deletions: dict[object, str] = {}
        # Counts the groups with one id: a group that was deleted and created again, or loaded again, is another one.
        self.incarnations: dict[str, tuple[object, int]] = {}

    def incarnation(self, group_id: str) -> int:
        group = self.harness.machine.classic(group_id)
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
            (self.new_client, 6),
            (self.act, 30),
            (self.crash, 1),
            (self.hang_up, 2),
            (self.leave, 1),
            (self.commit, 6),
            (self.late, 6),
            (self.advance, 10),
            (self.jump_wall, 1),
            (self.toggle_hold, 3),
            (self.fail_disk, 1),
            (self.time_out, 2),
            (self.restart, 1),
            (self.move, self.move_weight),
            (self.admin, 2),
            (self.sweep, 1),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        check(self)

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
        """Let one client do what a consumer does next."""
        client = self.pick(waiting=None)
        if client is None:
            return
        if client.generation < 0:
            self.send_join(client)
        elif client.waits_for == "sync":
            self.send_sync(client)
        else:
            client.waiting, client.waits_for, client.since_ms = self.token(), "heartbeat", self.harness.mono_ms
            self.harness.heartbeat(
                client.member_id,
                client.generation,
                token=client.waiting,
                instance_id=client.instance_id,
                group_id=client.group_id,
            )
            if any(step.records for step in self.harness.held):
                answer = self.harness.answers.get(client.waiting)
                assert answer is None or answer.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS), (
                    f"the heartbeat of {client.name} is answered before earlier records are written"
                )

    def heard(self, client: Client, code: ErrorCode) -> None:
        """A heartbeat is answered."""
        client.waits_for = ""
        self.check_heartbeat(client, code)
        self.react(client, code)
        if code is ErrorCode.NONE and self.rng.random() < 0.05:
            client.topics = (*client.topics[:1], f"t{self.rng.randrange(3)}")
            client.generation = -1

    def check_heartbeat(self, client: Client, code: ErrorCode) -> None:
        now_ms = self.harness.mono_ms
        if code is ErrorCode.NONE:
            of = client.group_id, self.incarnation(client.group_id)
            assert client.generation >= self.newest.get(of, -1), (
                f"{client.name} received no error with an old generation"
            )
            client.heard_ms = client.since_ms
        elif code is ErrorCode.UNKNOWN_MEMBER_ID and client.heard_ms is not None and client.instance_id is None:
            since_ms = now_ms - client.heard_ms
            assert since_ms >= SESSION_MS, f"{client.name} was dropped {since_ms} ms after its heartbeat"

    def forget_heartbeats(self) -> None:
        """Forget earlier heartbeats, because something happened that may end memberships."""
        for client in self.clients:
            client.heard_ms = None

    def note_past(self, client: Client) -> None:
        """Keep the membership of this client: delayed requests may still carry it."""
        if client.generation >= 0 and client.member_id:
            incarnation = self.incarnation(client.group_id)
            past = Past(client.group_id, incarnation, client.member_id, client.instance_id, client.generation)
            self.past.append(past)
            del self.past[:-PAST_MAX]

    def late(self) -> None:
        """Deliver a delayed request of a past membership, which must be refused."""
        over = [past for past in self.past if self.is_over(past)]
        if not over:
            return
        past = self.rng.choice(over)
        token = self.token()
        known: dict[str, Any] = {"group_id": past.group_id, "instance_id": past.instance_id}
        kind = self.rng.choice(["heartbeat", "commit", "sync"])
        if kind == "heartbeat":
            code: ErrorCode | None = self.harness.heartbeat(past.member_id, past.generation, **known)
        elif kind == "commit":
            code = self.harness.commit(token, -5, member_id=past.member_id, generation=past.generation, **known)
        else:
            answer = self.harness.sync(token, past.member_id, past.generation, **known)
            code = None if answer is None else ErrorCode(answer.error_code)
        assert code not in (None, ErrorCode.NONE), f"a late {kind} of {past} is accepted"

    def is_over(self, past: Past) -> bool:
        """Whether a member has received a later generation, or another member has its instance id."""
        if past.incarnation != self.incarnation(past.group_id):
            return False
        holder = self.holders.get((past.group_id, past.incarnation, past.instance_id))
        replaced = past.instance_id is not None and holder not in (None, past.member_id)
        return replaced or past.generation < self.newest.get((past.group_id, past.incarnation), -1)

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
        """End a client without leaving the group; nothing reads its responses."""
        client = self.pick()
        if client is not None:
            self.note_past(client)
            client.alive = False
            self.give_up(client)

    def hang_up(self) -> None:
        """Let a client lose its connection, drop the request that it waits for, and start again."""
        client = self.pick()
        if client is not None and client.waiting is not None:
            self.give_up(client)
            self.note_past(client)
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
            self.note_past(client)
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
            self.take_late()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.forget_heartbeats()
            self.harness.fail()
            self.late_commits.clear()

    def time_out(self) -> None:
        """Let the records that are being written take too long: all requests that wait for them are answered."""
        if not self.harness.held:
            return
        self.forget_heartbeats()
        self.harness.time_out()
        self.deliver()
        assert not self.awaited_commits, f"commits are not answered in time: {self.awaited_commits}"
        for group in self.harness.machine.classic_groups():
            leader = group.members.get(group.leader_id or "")
            assert leader is None or leader.sync_token is None, f"the leader of {group.group_id} waits for its record"

    def take_late(self) -> None:
        """Records that were not written in time are in the log now."""
        for group_id, partition, offset in self.late_commits:
            found = self.harness.machine.offsets.get(group_id, "t", partition)
            if found is not None and found.committed_offset == offset:
                self.committed[group_id, partition] = offset
        self.late_commits.clear()

    def restart(self) -> None:
        """Kill the broker and start it again: unwritten records and all connections are lost."""
        for client in self.clients:
            if client.waiting is not None:
                client.waiting, client.waits_for, client.generation = None, "", -1
        self.abandoned.clear()
        self.refused_deletions.clear()
        self.awaited_commits.clear()
        self.late_commits.clear()
        self.forget_heartbeats()
        # All sessions begin again.
        self.gone.clear()
        self.pending.clear()
        self.harness.restart()

    def move(self) -> None:
        """Elect another broker, which has a part of the unacknowledged records. The old coordinator gets some more
        commits before it learns of it.
        """
        old = self.harness
        self.moves += 1
        self.refused_deletions.clear()
        kept = self.rng.randrange(len(old.held) + 1)
        self.harness = old.successor(kept)
        # They are in the log, although no answer will acknowledge them.
        self.late_commits += self.awaited_commits.values()
        self.take_late()
        late = [(self.token(), client) for client in self.clients if client.alive and client.generation >= 0]
        for token, client in late:
            old.commit(
                token,
                self.rng.randrange(1000),
                member_id=client.member_id,
                generation=client.generation,
                group_id=client.group_id,
                instance_id=client.instance_id,
            )
        if old.held and self.rng.random() < 0.5:
            old.write()
        old.learn()
        for token, client in late:
            code = old.answers[token].topics[0].partitions[0].error_code
            assert code != ErrorCode.NONE, f"a commit of {client.name} is acknowledged by the old coordinator"
        # All sessions begin again.
        self.gone.clear()
        self.pending.clear()
        self.forget_heartbeats()

    def admin(self) -> None:
        group_id = self.rng.choice(GROUPS)
        if self.rng.random() < 0.3:
            group = self.harness.machine.classic(group_id)
            members = len(group.members) if group is not None else 0
            token = self.token()
            codes = self.harness.delete_groups(token, group_id)
            if members:
                self.refused_deletions[token] = group_id
            if codes.get(group_id) is ErrorCode.GROUP_ID_NOT_FOUND:
                written = replayed(self.harness.log, self.harness.settings, self.harness.now)
                assert group_id not in written.groups, f"{group_id} is not found while its deletion is being written"
            if not members and codes.get(group_id, ErrorCode.NONE) is ErrorCode.NONE:
                self.committed = {key: v for key, v in self.committed.items() if key[0] != group_id}
                # Commits that are being written were received before the deletion.
                self.awaited_commits = {t: c for t, c in self.awaited_commits.items() if c[0] != group_id}
                self.late_commits = [c for c in self.late_commits if c[0] != group_id]
        else:
            self.read(group_id)

    def read(self, group_id: str) -> None:
        """List and describe groups: the answers are those of a coordinator that has the written records alone."""
        listed = {group.group_id: group for group in self.harness.list_groups()}
        found = self.harness.describe(group_id)
        assert (found.error_code == ErrorCode.NONE) == (group_id in listed)
        written = replayed(self.harness.log, self.harness.settings, self.harness.now)
        assert written.groups.keys() <= listed.keys(), f"{written.groups.keys() - listed.keys()} are not listed"
        for each in listed.keys() - written.groups.keys():
            group = self.harness.machine.classic(each)
            assert group is not None, f"{each} is listed, and its deletion is written"
            # A group whose last offset was deleted stays until a sweep or a restart. A group that a member has joined
            # exists before its record is written.
            assert group.record is None or self.is_being_created(each), f"{each} is listed, and is not written"

    def is_being_created(self, group_id: str) -> bool:
        """Whether the first record of a group that was joined is being written."""
        return any(
            isinstance(before, ClassicBefore) and before.group_id == group_id and before.record is None
            for step in self.harness.held
            for before in step.before
        )

    def sweep(self) -> None:
        self.harness.run(expiry.sweep)

    # ---- answers ----

    def deliver(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting in self.harness.answers:
                answer = self.harness.answers[client.waiting]
                client.waiting = None
                if client.waits_for == "join":
                    self.joined(client, answer)
                elif client.waits_for == "heartbeat":
                    self.heard(client, ErrorCode(answer.error_code))
                else:
                    self.synced(client, answer)
        for token in [t for t in self.abandoned if t in self.harness.answers]:
            del self.abandoned[token]
        for token in [t for t in self.refused_deletions if t in self.harness.answers]:
            group_id = self.refused_deletions.pop(token)
            (result,) = self.harness.answers[token].results
            assert result.error_code != ErrorCode.NONE, f"{group_id} was deleted under its members"
        for token in [t for t in self.awaited_commits if t in self.harness.answers]:
            group_id, partition, offset = self.awaited_commits.pop(token)
            code = self.harness.answers[token].topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                self.committed[group_id, partition] = offset
            elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.late_commits.append((group_id, partition, offset))

    def joined(self, client: Client, answer: Any) -> None:
        client.waits_for = ""
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            return
        if answer.error_code != ErrorCode.NONE:
            self.react(client, ErrorCode(answer.error_code))
            return
        self.note_past(client)
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.heard_ms = None
        of = client.group_id, self.incarnation(client.group_id)
        self.newest[of] = max(self.newest.get(of, -1), client.generation)
        if client.instance_id is not None:
            self.holders[*of, client.instance_id] = client.member_id
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
        generation = answer.assignment.partition(b":")[0]
        assert generation == b"%d" % client.generation, f"{client.name} got an assignment of generation {generation!r}"
        # An assignment is given to only one member of a generation, or to the member that replaced it.
        delivered = self.delivered.setdefault(
            (client.group_id, client.generation, self.incarnation(client.group_id)), {}
        )
        for other, assignment in delivered.items():
            if assignment == answer.assignment and other != client.member_id:
                assert client.instance_id is not None, f"{other} and {client.member_id} both have {assignment!r}"
        delivered[client.member_id] = answer.assignment

    def react(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        self.note_past(client)
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
