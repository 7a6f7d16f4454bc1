"""The world of share groups (KIP-932): members that join, leave, crash, hang and come back, topics that come, grow and
go, administrators, a share coordinator that fails or whose answers are lost or late, failing disks, restarts,
compaction, and coordinators that move.

The coordinator's log is a partition of the broker, on files. The world keeps the members' knowledge and the state of
share partitions apart from the coordinator's state, and compares them after each step. The file is long because each
act needs what the others left under way: requests, deadlines, calls and late answers.
"""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from broker_cy.coordinator.settings import ShareGroupSettings
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.sim.consumer_checks import check_compaction
from tests.sim.group_clients import LOG, PAST_MAX
from tests.sim.real_partitions import Partitions
from tests.sim.share_members_checks import check, check_settled, check_written
from tests.sim.share_members_clients import (
    CHANGES_OF,
    GROUPS,
    MEMBERS_MAX,
    MEMBERS_OF,
    PARTITIONS_MAX,
    QUIET_ROUNDS,
    RETRY_MS,
    ROUND_MS,
    SESSION_MS,
    SETTLE_ROUNDS,
    TOPICS,
    Past,
    ShareCoordinator,
    Sharer,
)

RETRIABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def assigned_at_once_max(seed: int) -> int:
    """In every fourth world, each group is a large one, which is assigned in the background."""
    return 0 if seed % 4 == 3 else 500


class ShareMembersWorld:
    """`root` is an empty directory."""

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.store = Partitions(root, {LOG[0]: 1})
        self.topics = Topics(t=4, u=3)
        share = ShareGroupSettings(
            max_size=MEMBERS_MAX,
            assignment_interval_ms=self.rng.choice([0, 1_000]),
            initialize_retry_interval_ms=RETRY_MS,
            assigned_at_once_max=assigned_at_once_max(seed),
        )
        self.is_large = not share.assigned_at_once_max
        self.harness = ShareCoordinator(self.store, self.topics, share=share)
        self.clients: list[Sharer] = []
        self.past: list[Past] = []
        # The newest epoch that a member of each group has received.
        self.newest: dict[str, int] = {}
        # Since when a member has no client.
        self.silent: dict[tuple[str, str], int] = {}
        # Alterations that are not answered yet, and those that were: the offset of each share partition.
        self.alterations: dict[object, dict[SharePartitionKey, int]] = {}
        self.move_weight = seed % 2
        self.counter = 0
        self.moves = 0
        self.assignments = 0
        self.settled = 0
        self.altered = 0
        self.deleted = 0

    def token(self) -> int:
        self.counter += 1
        return self.counter

    # ---- what can happen ----

    def step(self) -> None:
        actions = [
            (self.new_client, 5),
            (self.act, 40),
            (self.crash, 1),
            (self.hang_up, 3),
            (self.leave, 3),
            (self.late, 5),
            (self.consume, 6),
            (self.serve, 15),
            (self.advance, 10),
            (self.change_topics, 1),
            (self.alter, 2),
            (self.alter_without_note, 2),
            (self.delete_offsets, 1),
            (self.delete_group, 1),
            (self.toggle_hold, 3),
            (self.fail_disk, 1),
            (self.time_out, 1),
            (self.restart, 1),
            (self.move, self.move_weight),
            (self.compact, 1),
            (self.settle, 1),
            (self.work, 3 if self.is_large else 0),
            (self.come_back, 8 if self.is_large else 0),
            (self.alter_again, 4 if self.is_large else 0),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        check(self)

    def new_client(self) -> None:
        if sum(client.alive for client in self.clients) >= 8:
            return
        self.clients = [client for client in self.clients if client.alive]
        topics = tuple(self.rng.sample(TOPICS, self.rng.choice([1, 1, 2, 3])))
        (group_id,) = self.rng.choices(GROUPS, MEMBERS_OF)
        self.clients.append(Sharer(f"c{self.token()}", group_id, topics))

    def pick(self, **wanted: Any) -> Sharer | None:
        found = [c for c in self.clients if c.alive and all(getattr(c, k) == v for k, v in wanted.items())]
        return self.rng.choice(found) if found else None

    def act(self) -> None:
        """Let one client do what it does next."""
        client = self.pick(waiting=None)
        if client is None:
            return
        if self.rng.random() < 0.05:
            client.topics = tuple(self.rng.sample(TOPICS, self.rng.choice([1, 2])))
            client.is_full = True
        self.beat(client)

    def beat(self, client: Sharer) -> None:
        client.waiting, client.waits_epoch = self.token(), client.epoch
        names = client.topics if client.epoch == 0 or client.is_full else None
        self.harness.beat(client.waiting, client.name, client.epoch, names, group_id=client.group_id)

    def crash(self) -> None:
        client = self.pick()
        if client is not None:
            client.alive, client.waiting = False, None
            self.note_past(client)

    def hang_up(self) -> None:
        """The connection of a client closes: the answer to its request is lost."""
        waiting = [client for client in self.clients if client.alive and client.waiting is not None]
        if waiting:
            client = self.rng.choice(waiting)
            client.waiting, client.is_full = None, True

    def leave(self) -> None:
        client = self.pick(waiting=None)
        if client is not None and client.epoch > 0:
            self.note_past(client)
            client.alive = False
            self.harness.beat(self.token(), client.name, -1, group_id=client.group_id)

    def come_back(self) -> None:
        """A member leaves, as it does when it unsubscribes, and joins again by the same id. Meanwhile an administrator
        may delete an offset, if it was the only member.
        """
        client = self.pick(waiting=None)
        if client is None or client.epoch <= 0:
            return
        self.note_past(client)
        client.gone()
        self.harness.beat(self.token(), client.name, -1, group_id=client.group_id)
        if self.rng.random() < 0.7:
            token = ("delete offsets", self.token())
            self.harness.delete_start_offsets(token, self.rng.choice(client.topics), group_id=client.group_id)
        self.beat(client)
        if self.rng.random() < 0.5:
            # The result of an assignment from before comes now.
            self.deliver()
            self.work()

    def work(self) -> None:
        """Let assignments end."""
        self.harness.work()

    def note_past(self, client: Sharer) -> None:
        if client.epoch > 0:
            self.past = [*self.past[-PAST_MAX:], Past(client.group_id, client.name, client.epoch)]

    def late(self) -> None:
        """A request of an old membership arrives."""
        if not self.past:
            return
        past = self.rng.choice(self.past)
        group = self.harness.machine.groups.get(past.group_id)
        token = self.token()
        is_member = isinstance(group, ShareGroup) and past.member_id in group.members
        self.harness.beat(token, past.member_id, past.epoch, group_id=past.group_id)
        answer = self.harness.answers.get(token)
        is_refused = answer is not None and answer.error_code != ErrorCode.NONE
        assert is_member or is_refused, f"the removed member {past.member_id} can send heartbeats"
        # It was alive for the coordinator.
        self.silent.pop((past.group_id, past.member_id), None)

    def consume(self) -> None:
        """A member acknowledges records of one of its partitions."""
        client = self.pick()
        group = None if client is None else self.harness.machine.groups.get(client.group_id)
        if client is None or not client.owned or not isinstance(group, ShareGroup) or client.name not in group.members:
            return
        topic, partition = self.rng.choice(sorted(client.owned))
        known = self.topics.image.topics.by_name(topic)
        if known is None or partition not in known.partitions:
            return
        key, model = SharePartitionKey(client.group_id, known.topic_id, partition), self.harness.model
        if key in model.states and known.topic_id not in group.share_partitions.deleting:
            epoch, offset = model.states[key]
            model.states[key] = (epoch, offset + 1)
            model.precious.add(key)

    def serve(self) -> None:
        self.harness.serve_one(self.rng)

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 50, 500, 1_000, RETRY_MS, SESSION_MS // 2, SESSION_MS]))

    def change_topics(self) -> None:
        name = self.rng.choice(TOPICS)
        known = self.topics.image.topics.by_name(name)
        if known is None:
            delta = self.topics.put(name, self.rng.randrange(1, 5))
        elif self.rng.random() < 0.5 and len(known.partitions) < PARTITIONS_MAX:
            delta = self.topics.put(name, len(known.partitions) + 1)
        else:
            delta = self.topics.delete(name)
            states = self.harness.model.states
            for key in [key for key in states if key.topic_id == known.topic_id]:
                del states[key]
            for client in self.clients:
                client.owned = {place for place in client.owned if place[0] != name}
        self.harness.change(delta)

    # ---- administrators ----

    def pick_group(self) -> str:
        return self.rng.choices(GROUPS, CHANGES_OF)[0]

    def alter(self, place: tuple[str, str] | None = None) -> None:
        """Alter offsets of a group in a topic."""
        group_id, name = place or (self.pick_group(), self.rng.choice(TOPICS))
        topic = self.topics.image.topics.by_name(name)
        if topic is None:
            return
        token = ("alter", self.token())
        offsets = {partition: self.rng.randrange(1_000) for partition in topic.partitions if self.rng.random() < 0.7}
        keys = {SharePartitionKey(group_id, topic.topic_id, each): offset for each, offset in offsets.items()}
        self.alterations[token] = keys
        self.harness.alter(token, *((topic.name, each, offset) for each, offset in offsets.items()), group_id=group_id)

    def alter_without_note(self, place: tuple[str, str] | None = None) -> None:
        """The share coordinator has altered offsets, and the disk of the group coordinator is full then."""
        if self.harness.hold or self.harness.held:
            return
        self.alter(place)
        if self.harness.calls:
            self.harness.hold = True
            self.harness.serve_one(self.rng)
            self.fail_disk()
            self.harness.hold = False

    def alter_again(self) -> None:
        """The note of an alteration could not be written, and the next one may fail."""
        place = self.pick_group(), self.rng.choice(TOPICS)
        self.alter_without_note(place)
        self.deliver()
        self.alter(place)
        self.serve()

    def delete_offsets(self) -> None:
        token = ("delete offsets", self.token())
        self.harness.delete_start_offsets(token, self.rng.choice(TOPICS), group_id=self.pick_group())

    def delete_group(self) -> None:
        group_id = self.pick_group()
        group = self.harness.machine.groups.get(group_id)
        has_members = isinstance(group, ShareGroup) and bool(group.members)
        token = ("delete", self.token())
        self.harness.delete_share_groups(token, group_id)
        answer = self.harness.answers.get(token)
        if has_members and answer is not None:
            assert answer.get(group_id) is not ErrorCode.NONE, f"{group_id} was deleted under its members"

    def forget_state(self, group_id: str, topic_id: UUID) -> None:
        """The state of a topic is being deleted: it may be reset from now on."""
        model = self.harness.model
        model.precious = {key for key in model.precious if (key.group_id, key.topic_id) != (group_id, topic_id)}
        for keys in self.alterations.values():
            for key in [key for key in keys if (key.group_id, key.topic_id) == (group_id, topic_id)]:
                del keys[key]

    # ---- faults ----

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.harness.fail()
            self.silent.clear()

    def time_out(self) -> None:
        if self.harness.held:
            self.harness.time_out()

    def lose_answers(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting not in self.harness.answers:
                client.waiting, client.is_full = None, True
        self.harness.works = []
        self.silent.clear()
        self.forget_gone_groups()

    def restart(self) -> None:
        """Kill the broker and start it again: unwritten records and all connections are lost."""
        self.deliver()
        self.harness.lose_calls(self.rng)
        self.harness.restart()
        self.alterations = {token: keys for token, keys in self.alterations.items() if token in self.harness.answers}
        self.lose_answers()

    def move(self) -> None:
        """Elect another broker, which has a part of the unacknowledged records."""
        old = self.harness
        self.moves += 1
        old_calls = list(old.calls)
        self.harness = old.successor(self.rng.randrange(len(old.held) + 1))
        old.calls = old_calls
        if old.held and self.rng.random() < 0.5:
            old.write()
        old.learn()
        old.lose_calls(self.rng)
        self.deliver()
        self.lose_answers()

    def forget_gone_groups(self) -> None:
        for group_id in GROUPS:
            if group_id not in self.harness.machine.groups:
                self.newest.pop(group_id, None)
                model = self.harness.model
                model.precious = {key for key in model.precious if key.group_id != group_id}

    def compact(self) -> None:
        check_compaction(self)
        check_written(self, self.rng.choice(GROUPS))

    # ---- stable groups ----

    def settle(self) -> None:
        """Without further faults, each partition of the topics of a group is read."""
        if self.harness.hold:
            self.toggle_hold()
            self.deliver()
        epochs: dict[str, object] = {}
        for number in range(SETTLE_ROUNDS):
            if number == SETTLE_ROUNDS - QUIET_ROUNDS:
                epochs = {group_id: self.epoch_of(group_id) for group_id in GROUPS}
            self.harness.advance(ROUND_MS)
            self.harness.serve()
            self.harness.works_end()
            self.forget_gone_groups()
            for client in [client for client in self.clients if client.alive]:
                if client.waiting is None and client.alive:
                    self.beat(client)
                self.deliver()
                check(self)
        check_settled(self, epochs)
        self.settled += 1

    def epoch_of(self, group_id: str) -> object:
        group = self.harness.machine.groups.get(group_id)
        return (group.number, group.epoch) if isinstance(group, ShareGroup) else None

    # ---- answers ----

    def deliver(self) -> None:
        for client in self.clients:
            if client.waiting is not None and client.waiting in self.harness.answers:
                answer = self.harness.answers[client.waiting]
                client.waiting = None
                self.answered(client, answer)
        for token in [token for token in self.alterations if token in self.harness.answers]:
            self.alteration_answered(self.alterations.pop(token), self.harness.answers[token])
        self.forget_gone_groups()

    def alteration_answered(self, keys: dict[SharePartitionKey, int], answer: Any) -> None:
        """Partitions that were altered have their new offset, and keep it."""
        model = self.harness.model
        for topic in answer.responses if answer.error_code == ErrorCode.NONE else ():
            for each in topic.partitions:
                found = [key for key in keys if (key.topic_id, key.partition) == (topic.topic_id, each.partition_index)]
                for key in found:
                    if each.error_code == ErrorCode.NONE and self.topics.image.topics.by_id(key.topic_id) is not None:
                        assert model.states[key][1] >= keys[key], f"{key} has not the offset {keys[key]}"
                        model.precious.add(key)
                        self.altered += 1

    def answered(self, client: Sharer, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code in RETRIABLE:
            client.is_full = True
            return
        if code is not ErrorCode.NONE:
            self.refused(client, code)
            return
        assert answer.member_epoch >= client.waits_epoch, f"the epoch of {client.name} went back"
        if client.epoch != answer.member_epoch:
            self.note_past(client)
        client.epoch, client.is_full = answer.member_epoch, False
        group = self.harness.machine.groups.get(client.group_id)
        if isinstance(group, ShareGroup) and client.name in group.members:
            self.newest[client.group_id] = max(self.newest.get(client.group_id, 0), client.epoch)
        if answer.assignment is not None:
            self.assignments += 1
            places = self.topics.places({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})
            client.owned = {place for place in places if self.topics.image.topics.by_name(place[0]) is not None}

    def refused(self, client: Sharer, code: ErrorCode) -> None:
        self.note_past(client)
        was_join = client.waits_epoch == 0
        client.gone()
        if code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            client.alive = False
            return
        assert code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ), code
        assert not was_join, f"{client.name} cannot join: {code.name}"
