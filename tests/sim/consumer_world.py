"""The world of consumer groups (KIP-848): members that join, leave, crash, hang and come back, members of the classic
protocol and those that change it, regular expressions, topics that come, grow and go, late requests, failing disks,
restarts, compaction, and coordinators that move.

The coordinator's log is a partition of the broker, on files. The world keeps the members' knowledge apart from the
coordinator's state, and compares the two after each step.
"""

from __future__ import annotations

import random
from typing import Any, cast

from broker_cy.coordinator import expiry
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group import GroupType
from broker_cy.coordinator.settings import ConsumerGroupSettings, MigrationPolicy
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Place, Topics
from tests.sim import consumer_classic, consumer_protocol
from tests.sim.consumer_checks import check, check_compaction, check_written
from tests.sim.consumer_clients import (
    GROUPS,
    MEMBERS_MAX,
    REBALANCE_MS,
    SESSION_MS,
    TOPICS,
    Consumer,
    ConsumerCoordinator,
    Past,
)
from tests.sim.consumer_settling import settle
from tests.sim.group_clients import LOG, PAST_MAX
from tests.sim.real_partitions import Partitions

REGEXES = ("t", "[tu]", "v.*")
RETRIABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def assigned_at_once_max(seed: int) -> int:
    """In every fourth world, each group is a large one, which is assigned in the background."""
    return 0 if seed % 4 == 3 else 2_000


class ConsumerWorld:
    """`root` is an empty directory."""

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.store = Partitions(root, {LOG[0]: 1})
        self.topics = Topics(t=4, u=3)
        consumer = ConsumerGroupSettings(
            max_size=MEMBERS_MAX,
            assignment_interval_ms=self.rng.choice([0, 1_000]),
            migration_policy=self.rng.choice([MigrationPolicy.BIDIRECTIONAL, *MigrationPolicy]),
            assigned_at_once_max=assigned_at_once_max(seed),
        )
        self.harness = ConsumerCoordinator(
            self.store, self.topics, consumer=consumer, group_max_size=self.rng.choice([2, MEMBERS_MAX])
        )
        self.retriable = RETRIABLE
        # The type of each group after the last step.
        self.kinds: dict[str, GroupType] = {}
        # The groups without members after the last step.
        self.empty: set[str] = set()
        self.clients: list[Consumer] = []
        self.past: list[Past] = []
        # The newest epoch that a member of each group has received.
        self.newest: dict[str, int] = {}
        # Since when a member has no client, and since when it has to give these partitions up.
        self.silent: dict[tuple[str, str], tuple[int, object]] = {}
        self.stuck: dict[tuple[str, str], tuple[int, object]] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.awaited_commits: dict[object, tuple[str, str, int, int]] = {}
        self.late_commits: list[tuple[str, str, int, int]] = []
        self.move_weight = seed % 2
        self.counter = 0
        self.moves = 0
        self.assignments = 0
        self.settled = 0

    def token(self) -> object:
        self.counter += 1
        return self.counter

    # ---- what can happen ----

    def step(self) -> None:
        actions = [
            (self.new_client, 5),
            (self.act, 40),
            (self.crash, 1),
            (self.hang_up, 3),
            (self.leave, 2),
            (self.commit, 6),
            (self.late, 5),
            (self.advance, 10),
            (self.change_topics, 1),
            (self.toggle_hold, 3),
            (self.fail_disk, 1),
            (self.time_out, 1),
            (self.restart, 1),
            (self.move, self.move_weight),
            (self.delete, 1),
            (self.sweep, 1),
            (self.compact, 1),
            (self.work, 5),
            (self.change_protocol, 2),
            (lambda: settle(self), 1),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        check(self)

    def new_client(self) -> None:
        if sum(client.alive for client in self.clients) >= 12:
            return
        name = f"c{self.token()}"
        self.clients = [client for client in self.clients if client.alive]
        is_classic = self.rng.random() < 0.35
        static = self.rng.randrange(3) if self.rng.random() < 0.3 else None
        topics = tuple(self.rng.sample(TOPICS, self.rng.choice([1, 1, 2]))) if self.rng.random() < 0.95 else ()
        regex = self.rng.choice(REGEXES) if not is_classic and self.rng.random() < 0.3 else None
        self.clients.append(
            Consumer(
                name,
                self.rng.choice(GROUPS),
                None if static is None else f"static-{static}",
                # A classic group does not look at the topics of a static member that comes back.
                topics if static is None else (TOPICS[static],),
                self.rng.choice([None, None, "uniform", "range"]),
                "" if is_classic else f"m-{name}",
                is_slow=self.rng.random() < 0.05,
                regex=regex if static is None else None,
                is_classic=is_classic,
            )
        )

    def pick(self, **wanted: Any) -> Consumer | None:
        found = [c for c in self.clients if c.alive and all(getattr(c, k) == v for k, v in wanted.items())]
        return self.rng.choice(found) if found else None

    def act(self) -> None:
        """Let one consumer do what it does next."""
        client = self.pick(waiting=None)
        if client is None:
            return
        if client.is_classic:
            consumer_classic.act(self, client)
            return
        if client.is_member and client.instance_id is None and self.rng.random() < 0.03:
            client.topics = tuple(self.rng.sample(TOPICS, self.rng.choice([1, 2])))
            client.regex = self.rng.choice([None, None, *REGEXES])
            client.is_full = True
        if client.lost and not client.is_slow and self.rng.random() < 0.7:
            client.lost = set()
        consumer_protocol.beat(self, client)

    def note_past(self, client: Consumer) -> None:
        if client.epoch > 0:
            self.past.append(Past(client.group_id, client.member_id, client.epoch, frozenset(client.owned)))
            del self.past[:-PAST_MAX]

    def crash(self) -> None:
        """End a client without leaving the group."""
        client = self.pick()
        if client is not None:
            self.note_past(client)
            client.alive, client.waiting = False, None

    def hang_up(self) -> None:
        """Let a client lose its connection, with the answer that it waits for, or start again without membership."""
        client = self.pick()
        if client is None or client.waiting is None:
            return
        client.waiting, client.is_full = None, True
        client.must_join, client.phase = True, ""
        if self.rng.random() < 0.2:
            self.note_past(client)
            client.gone()
            if client.is_classic:
                client.member_id = ""

    def change_protocol(self) -> None:
        client = self.pick(waiting=None)
        if client is not None and client.is_member:
            consumer_classic.change_protocol(self, client)

    def work(self) -> None:
        """Let searches for topics and assignments end."""
        self.harness.work()

    def exists(self, place: Place) -> bool:
        return self.topics.image.topics.by_name(place[0]) is not None

    def leave(self) -> None:
        client = self.pick(waiting=None)
        if client is None or not client.is_member:
            return
        self.note_past(client)
        if client.is_classic:
            consumer_classic.leave(self, client)
            client.gone()
            client.alive = False
            return
        is_back_later = client.instance_id is not None and self.rng.random() < 0.7
        epoch = -2 if is_back_later else -1
        self.harness.beat(
            self.token(), client.member_id, epoch, group_id=client.group_id, instance_id=client.instance_id
        )
        client.gone()
        if is_back_later and self.rng.random() < 0.8:
            client.member_id = f"m-{self.token()}"
        else:
            client.alive = False

    # ---- offsets ----

    def commit(self) -> None:
        """Commit in a partition that the client owns, which must be accepted unless it is no longer a member."""
        client = self.pick()
        if client is None or not client.is_member or not client.owned | client.lost:
            return
        place = self.rng.choice(sorted(client.owned | client.lost))
        self.send_commit(client.group_id, client.member_id, client.epoch, place, client)

    def late(self) -> None:
        """Deliver a delayed commit of a membership that may be over."""
        if self.past:
            past = self.rng.choice(self.past)
            if past.owned:
                self.send_commit(past.group_id, past.member_id, past.epoch, self.rng.choice(sorted(past.owned)), None)

    def send_commit(self, group_id: str, member_id: str, epoch: int, place: Place, owner: Consumer | None) -> None:
        known = self.topics.image.topics.by_name(place[0])
        if known is None or place[1] not in known.partitions:
            # The handler refuses partitions that do not exist.
            return
        token, offset = self.token(), self.rng.randrange(1000)
        group = self.harness.machine.groups.get(group_id)
        members = group.members if isinstance(group, ConsumerGroup) else {}
        others = [
            client.name
            for client in self.clients
            if client.is_member
            and client.group_id == group_id
            and client.member_id in members
            and client.member_id != member_id
            and place in client.owned | client.lost
        ]
        self.awaited_commits[token] = (group_id, *place, offset)
        self.harness.commit(
            token,
            offset,
            member_id=member_id,
            generation=epoch,
            group_id=group_id,
            topic=place[0],
            topic_id=known.topic_id,
            partition=place[1],
        )
        answer = self.harness.answers.get(token)
        code = None if answer is None else ErrorCode(answer.topics[0].partitions[0].error_code)
        is_accepted = code in (None, ErrorCode.NONE)
        if is_accepted and isinstance(group, ConsumerGroup):
            assert not others, f"a commit of {member_id} in {place} is accepted, and {others} own it"
            assert member_id in members, f"a commit of {member_id}, which is not a member, is accepted"
        if owner is not None and member_id in members and not owner.is_classic:
            assert is_accepted, f"a commit of {owner.name} in its own {place} is refused: {code}"

    # ---- the rest of the world ----

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 50, 500, 1_000, 5_000, REBALANCE_MS, SESSION_MS // 2, SESSION_MS]))

    def change_topics(self) -> None:
        name = self.rng.choice(TOPICS)
        known = self.topics.image.topics.by_name(name)
        if known is None:
            delta = self.topics.put(name, self.rng.randrange(1, 5))
        elif self.rng.random() < 0.5 and len(known.partitions) < 6:
            delta = self.topics.put(name, len(known.partitions) + 1)
        else:
            delta = self.topics.delete(name)
            self.committed = {key: offset for key, offset in self.committed.items() if key[1] != name}
            self.awaited_commits = {t: c for t, c in self.awaited_commits.items() if c[1] != name}
            self.late_commits = [c for c in self.late_commits if c[1] != name]
            for client in self.clients:
                # A client cannot read a deleted topic, and reports it by its old id, which we leave out.
                client.owned = {place for place in client.owned if place[0] != name}
                client.lost = {place for place in client.lost if place[0] != name}
        self.harness.change(delta)
        for client in self.clients:
            # The leader of a classic group shares the partitions again.
            client.must_join = client.must_join or (client.is_classic and client.is_member)

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write()
            self.take_late()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.harness.fail()
            self.late_commits.clear()
            self.forget_deadlines()

    def time_out(self) -> None:
        if self.harness.held:
            self.harness.time_out()
            self.deliver()
            assert not self.awaited_commits, f"commits are not answered in time: {self.awaited_commits}"

    def take_late(self) -> None:
        """Records that were not written in time are in the log now."""
        for group_id, topic, partition, offset in self.late_commits:
            found = self.harness.machine.offsets.get(group_id, topic, partition)
            if found is not None and found.committed_offset == offset:
                self.committed[group_id, topic, partition] = offset
        self.late_commits.clear()

    def forget_deadlines(self) -> None:
        """All sessions begin again."""
        self.silent.clear()
        self.stuck.clear()

    def lose_answers(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting not in self.harness.answers:
                client.waiting, client.is_full = None, True
                client.must_join, client.phase = True, ""
        self.harness.works = []
        self.awaited_commits.clear()
        self.late_commits.clear()
        self.forget_deadlines()

    def restart(self) -> None:
        """Kill the broker and start it again: unwritten records and all connections are lost."""
        self.deliver()
        self.harness.restart()
        self.lose_answers()
        self.forget_gone_groups()

    def move(self) -> None:
        """Elect another broker, which has a part of the unacknowledged records."""
        old = self.harness
        self.moves += 1
        kept = self.rng.randrange(len(old.held) + 1)
        self.harness = cast(ConsumerCoordinator, old.successor(kept))
        self.late_commits += self.awaited_commits.values()
        self.take_late()
        if old.held and self.rng.random() < 0.5:
            old.write()
        old.learn()
        self.deliver()
        self.lose_answers()
        self.forget_gone_groups()

    def delete(self) -> None:
        group_id = self.rng.choice(GROUPS)
        group = self.harness.machine.groups.get(group_id)
        has_members = isinstance(group, ConsumerGroup | ClassicGroup) and bool(group.members)
        codes = self.harness.delete_groups(self.token(), group_id)
        if has_members:
            assert codes.get(group_id) is not ErrorCode.NONE, f"{group_id} was deleted under its members"
        else:
            self.forget_group(group_id)

    def sweep(self) -> None:
        self.harness.run(expiry.sweep)
        self.forget_gone_groups()

    def forget_gone_groups(self) -> None:
        for group_id in GROUPS:
            if group_id not in self.harness.machine.groups:
                self.forget_group(group_id)

    def forget_group(self, group_id: str) -> None:
        """The group may be deleted, and another one of its id begin."""
        self.newest.pop(group_id, None)
        self.committed = {key: offset for key, offset in self.committed.items() if key[0] != group_id}
        self.awaited_commits = {t: c for t, c in self.awaited_commits.items() if c[0] != group_id}
        self.late_commits = [c for c in self.late_commits if c[0] != group_id]

    def compact(self) -> None:
        check_compaction(self)
        check_written(self, self.rng.choice(GROUPS))

    # ---- answers ----

    def deliver(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting in self.harness.answers:
                answer = self.harness.answers[client.waiting]
                client.waiting = None
                if client.is_classic:
                    consumer_classic.answered(self, client, answer)
                else:
                    consumer_protocol.answered(self, client, answer)
        for token in [t for t in self.awaited_commits if t in self.harness.answers]:
            group_id, topic, partition, offset = self.awaited_commits.pop(token)
            code = self.harness.answers[token].topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                self.committed[group_id, topic, partition] = offset
            elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.late_commits.append((group_id, topic, partition, offset))

    def learned(self, client: Consumer) -> None:
        """A member has an epoch that the log has; it may have left its group since, or the group may be another one."""
        group = self.harness.machine.groups.get(client.group_id)
        if isinstance(group, ConsumerGroup | ClassicGroup) and client.member_id in group.members:
            self.newest[client.group_id] = max(self.newest.get(client.group_id, 0), client.epoch)
