"""The world of the share state simulation: one state machine of the share coordinator, with leaders of partitions that
read and write share state, old leaders that go on, a group coordinator that initializes, alters and deletes, failing
disks and restarts. The coordinator also moves to other brokers; the old one continues until it learns of the move.

The coordinator's log is a partition of the broker, on files. The world keeps what the clients know apart from the
coordinator's state, and compares the two after each step.
"""

from __future__ import annotations

import random
from typing import Any, cast
from uuid import UUID

from broker_cy.coordinator.share_state.state import NO_EPOCH, NO_START_OFFSET, SharePartitionKey, StateBatch
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.topics import TopicImage
from tests.sim.real_partitions import Partitions
from tests.sim.share_state_checks import Acked, check
from tests.sim.share_state_clients import LOG, Leader, LoggedHarness, Request

GROUPS = ("a", "b")
PARTITIONS = 2
OFFSETS = 30
COLD_MS = 60_000
# Codes of requests whose outcome is unknown, or that another coordinator answers.
RETRIABLE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class World:
    """`root` is an empty directory."""

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.store = Partitions(root, {LOG[0]: 1})
        self.limit = self.rng.choice([0, 1, 3, 6])
        self.harness = LoggedHarness(self.store, updates_per_snapshot=self.limit, cold_snapshot_interval_ms=COLD_MS)
        for topic in list(self.harness.image.topics):
            self.harness.image.topics.remove(topic.topic_id)
        self.topics: list[UUID] = []
        self.leaders: dict[SharePartitionKey, list[Leader]] = {}
        self.waiting: dict[object, Request] = {}
        self.acked = Acked()
        self.counter = 0
        self.epochs = 0
        self.checked: object = None
        """The log when it was read last."""
        self.moves = self.cuts = self.writes = self.refusals = 0
        self.new_topic()

    def token(self) -> object:
        self.counter += 1
        return f"r{self.counter}"

    # ---- what can happen ----

    def step(self) -> None:
        actions = [
            (self.new_topic, 1),
            (self.initialize, 2),
            (self.elect_leader, 3),
            (self.read_again, 6),
            (self.write, 30),
            (self.write_without_epochs, 2),
            (self.write_with_wrong_epochs, 2),
            (self.delete, 0.5),
            (self.delete_topic, 0.2),
            (self.summary, 3),
            (self.advance, 6),
            (self.sweep, 2),
            (self.hang, 0.5),
            (self.cut, 3),
            (self.toggle_hold, 6),
            (self.fail_disk, 2),
            (self.time_out, 1),
            (self.restart, 1),
            (self.move, 1),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        check(self)

    def new_topic(self) -> None:
        if len(self.topics) >= 2:
            return
        self.counter += 1
        topic_id = UUID(int=0x1000 + self.counter)
        self.topics.append(topic_id)
        partitions: Any = dict.fromkeys(range(PARTITIONS))
        # Other machines keep the image that they have.
        self.harness.image = self.harness.image.copy()
        self.harness.image.topics.put(TopicImage(f"t{self.counter}", topic_id, partitions))
        self.harness.machine.take_image(self.harness.image)

    def some_key(self) -> SharePartitionKey | None:
        if not self.topics:
            return None
        return SharePartitionKey(self.rng.choice(GROUPS), self.rng.choice(self.topics), self.rng.randrange(PARTITIONS))

    def ask(self, request: Request, send: Any) -> None:
        token = self.token()
        self.waiting[token] = request
        send(token)

    def initialize(self) -> None:
        """The group coordinator begins to read a partition, or an administrator alters its offset."""
        key = self.some_key()
        if key is None or any(r.kind == "initialize" and r.key == key for r in self.waiting.values()):
            return
        self.epochs += 1
        epoch = self.epochs
        start_offset = self.rng.choice([NO_START_OFFSET, self.rng.randrange(OFFSETS)])
        self.ask(
            Request("initialize", key, None, epoch, start_offset),
            lambda token: self.harness.initialize(key, epoch, start_offset, token=token),
        )

    def elect_leader(self) -> None:
        """A broker becomes the leader of a partition, and reads its share state; the old one may not know yet."""
        key = self.some_key()
        if key is None:
            return
        known = self.leaders.setdefault(key, [])
        leader = Leader(key, max((each.epoch for each in known), default=0) + 1)
        known.append(leader)
        del known[:-3]
        self._read(leader)

    def read_again(self) -> None:
        """A leader that does not know the state reads it, as after each refusal of a write."""
        lost = [leader for known in self.leaders.values() for leader in known[-1:] if leader.state_epoch is None]
        if lost:
            self._read(self.rng.choice(lost))

    def _read(self, leader: Leader) -> None:
        request = Request("read", leader.key, leader)
        self.ask(request, lambda token: self.harness.read(leader.key, leader.epoch, token=token))

    def write(self) -> None:
        """A leader writes what its consumers have acknowledged; the last but one may be a leader of the past."""
        ready = [leader for known in self.leaders.values() for leader in known[-2:] if leader.state_epoch is not None]
        if not ready:
            return
        leader = self.rng.choice(ready)
        self._write(leader, leader.epoch, cast(int, leader.state_epoch))

    def write_without_epochs(self) -> None:
        leader = self._current()
        if leader is not None:
            self._write(leader, NO_EPOCH, NO_EPOCH)

    def write_with_wrong_epochs(self) -> None:
        """A request with epochs of the future changes no epoch."""
        leader = self._current()
        if leader is not None:
            self._write(leader, leader.epoch + 5, cast(int, leader.state_epoch) + 5)

    def _current(self) -> Leader | None:
        ready = [leader for known in self.leaders.values() for leader in known if self.is_current(leader)]
        return self.rng.choice(ready) if ready else None

    def is_current(self, leader: Leader) -> bool:
        """Whether nothing has happened, or may happen, that refuses the writes of this leader."""
        entry = self.harness.machine.entries.get(leader.key)
        return (
            leader.state_epoch is not None
            and leader is self.leaders[leader.key][-1]
            and entry is not None
            and entry.state.state_epoch == leader.state_epoch
        )

    def _write(self, leader: Leader, epoch: int, state_epoch: int) -> None:
        key = leader.key
        batches = []
        for _ in range(self.rng.randrange(3)):
            first = self.rng.randrange(OFFSETS)
            batches.append(
                StateBatch(first, first + self.rng.randrange(6), self.rng.randrange(1, 5), self.rng.choice([0, 2, 4]))
            )
        start_offset = NO_START_OFFSET
        if self.rng.random() < 0.3:
            start_offset = leader.start_offset = min(max(leader.start_offset, 0) + self.rng.randrange(4), OFFSETS)
        complete = self.rng.randrange(5)
        request = Request(
            "write",
            key,
            leader,
            cast(int, leader.state_epoch),
            start_offset,
            tuple(batches),
            was_fenced=leader.is_fenced and epoch != NO_EPOCH,
            is_current=self.is_current(leader),
        )
        self.ask(
            request,
            lambda token: self.harness.write(
                *batches,
                of=key,
                state_epoch=state_epoch,
                leader_epoch=epoch,
                start_offset=start_offset,
                complete=complete,
                token=token,
            ),
        )

    def delete(self) -> None:
        key = self.some_key()
        if key is not None:
            entry = self.harness.machine.entries.get(key)
            epoch = entry.state.state_epoch if entry is not None else NO_EPOCH
            self.acked.maybe_deleted.add((key, epoch))
            self.ask(Request("delete", key, None, epoch), lambda token: self.harness.delete(key, token=token))

    def delete_topic(self) -> None:
        if self.topics:
            self.harness.delete_topics([self.forget_topic()])

    def forget_topic(self) -> UUID:
        topic_id = self.topics.pop(self.rng.randrange(len(self.topics)))
        self.leaders = {key: known for key, known in self.leaders.items() if key.topic_id != topic_id}
        return topic_id

    def summary(self) -> None:
        key = self.some_key()
        if key is not None:
            self.ask(Request("summary", key), lambda token: self.harness.summary(key, token=token))

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 500, 5_000, COLD_MS // 2, COLD_MS]))

    def sweep(self) -> None:
        self.harness.snapshot_cold()

    def hang(self) -> None:
        """A follower hangs for so long that old snapshots are due more than once."""
        self.harness.hold = True
        for _ in range(3):
            self.harness.advance(COLD_MS)
            self.sweep()
            self.initialize()

    def cut(self) -> None:
        before = self.harness.partition.log.log_start_offset
        self.harness.cut()
        self.cuts += self.harness.partition.log.log_start_offset > before

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write_held()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.harness.fail()

    def time_out(self) -> None:
        """Let the records that are being written take too long: all requests that wait for them are answered."""
        if self.harness.held:
            self.harness.time_out()

    def restart(self) -> None:
        """Kill the broker and start it again: unwritten records and all connections are lost. A topic may be deleted
        meanwhile.
        """
        self.waiting.clear()
        if self.topics and self.rng.random() < 0.2:
            self.harness.image = self.harness.image.copy()
            self.harness.image.topics.remove(self.forget_topic())
        self.harness.restart()

    def move(self) -> None:
        """Elect another broker, which has a part of the unacknowledged records. The old coordinator gets some more
        writes before it learns of it.
        """
        old = self.harness
        self.moves += 1
        self.harness = old.successor(self.rng.randrange(len(old.held) + 1))
        late = []
        for known in self.leaders.values():
            for leader in known[-1:]:
                if leader.state_epoch is not None:
                    late.append(self.token())
                    poison = StateBatch(0, OFFSETS, 9, 4)
                    old.write(poison, of=leader.key, leader_epoch=leader.epoch, complete=0, token=late[-1])
        if old.held and self.rng.random() < 0.5:
            old.write_held()
        old.learn()
        for token in late:
            assert old.answers[token].code is not ErrorCode.NONE, "a deposed coordinator acknowledges a write"

    # ---- answers ----

    def deliver(self) -> None:
        for token in [token for token in self.waiting if token in self.harness.answers]:
            self.answered(self.waiting.pop(token), self.harness.answers[token])

    def answered(self, request: Request, answer: Any) -> None:
        key, code = request.key, answer.code
        if code in RETRIABLE or key.topic_id not in self.topics:
            return
        if request.kind == "read":
            self.read(request, answer)
        elif request.kind == "write":
            self.wrote(request, code)
        elif code is ErrorCode.NONE and request.kind == "initialize":
            self.acked.initialized(key, request.state_epoch)
        elif code is ErrorCode.NONE and request.kind == "delete":
            self.acked.deleted(key, request.state_epoch)
        elif request.kind == "initialize":
            raise AssertionError(f"an initialization of {key} in the newest state epoch gets {code.name}")

    def read(self, request: Request, answer: Any) -> None:
        leader = request.leader
        assert leader is not None
        known = self.leaders.get(request.key, [])
        if answer.code is not ErrorCode.NONE:
            self.refusals += 1
            assert answer.code is not ErrorCode.FENCED_LEADER_EPOCH or leader is not known[-1], (
                f"the newest leader of {request.key} is fenced at its first read"
            )
            return
        leader.state_epoch, leader.start_offset = answer.state_epoch, answer.start_offset
        for other in known:
            other.is_fenced = other.is_fenced or other.epoch < leader.epoch
        self.acked.check_read(request.key, answer)

    def wrote(self, request: Request, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            assert not request.was_fenced, f"a write to {request.key} by a replaced leader is accepted"
            self.writes += 1
            self.acked.wrote(request.key, request.state_epoch, request.start_offset, request.batches)
            return
        self.refusals += 1
        if request.leader is not None:
            request.leader.state_epoch = None
        assert not request.is_current, f"the only leader of {request.key} gets {code.name}"
