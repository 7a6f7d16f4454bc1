"""The world of the share service simulation: the service and the handlers of one broker, with one share group on one
partition, on a real log. Members send requests, hang, die and come back on other connections; the share coordinator
answers late, with errors, or executes a write and loses the answer; the partition moves to another leader and back; an
operator changes records in flight.

The world keeps the records that members were given and that were settled, apart from the service, and compares both
after each step. tests/sim/share_world.py has the state machines alone, with more turns of the log. The file is long
because each act needs what the others left under way.
"""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from broker_cy.config.definitions import BROKER
from broker_cy.coordinator.share_state.answers import Outcome, StateRead
from broker_cy.coordinator.share_state.state import SharePartitionKey, StateBatch
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.share_acknowledge import share_acknowledge
from broker_cy.handlers.share_fetch import share_fetch
from broker_cy.replica.partition import Partition
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.share.sessions import SessionKey, TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey
from broker_cy.share_service.share_service import ShareService
from broker_cy.storage.log_deletion import delete_records_before
from broker_cy.wire import messages as m
from broker_cy.wire.records import Record, encode_batch
from tests.sim.real_partitions import Partitions
from tests.sim.share_service_operator import Operator

GROUP, NAME, TOPIC_ID = "g", "t", UUID(int=1)
TOPIC = TopicPartition(TOPIC_ID, 0)
KEY = ShareKey(GROUP, TOPIC)
LOCK_MS, WAIT_MS = 1000, 400
ACCEPT, RELEASE, REJECT = 1, 2, 3
NONE = ErrorCode.NONE
DEFAULTS = {name: setting.default for name, setting in BROKER.items()}
SETTINGS = {
    "group.share.max.share.sessions": 10,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "fetch.max.bytes": 1 << 20,
}


class Coordinator:
    """The share coordinator, as the persister reaches it: requests wait until the world decides their fate."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.leader_epoch = 0
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}
        self.waiting: list[tuple[asyncio.Future[Any], Any]] = []

    def read(self, _key: SharePartitionKey, leader_epoch: int) -> asyncio.Future[StateRead]:
        return self._ask(lambda: self._read(leader_epoch))

    def write(self, _key: SharePartitionKey, *write: Any) -> asyncio.Future[Outcome]:
        return self._ask(lambda: self._write(*write))

    def _ask(self, execute: Any) -> asyncio.Future[Any]:
        future = self._world.loop.create_future()
        self.waiting.append((future, execute))
        return future

    def answer(self, fate: str) -> None:
        """Decide the fate of one request: done, failed, or lost (executed, and answered with an error)."""
        future, execute = self.waiting.pop(self._world.rng.randrange(len(self.waiting)))
        result = execute() if fate != "failed" else None
        if fate != "done" and not isinstance(result, StateRead):
            result = Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost")
        elif result is None or fate == "lost":
            result = StateRead(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost", 0, 0, ())
        future.set_result(result)

    def _read(self, leader_epoch: int) -> StateRead:
        if leader_epoch < self.leader_epoch:
            return StateRead(ErrorCode.FENCED_LEADER_EPOCH, None, 0, 0, ())
        self.leader_epoch = leader_epoch
        # The delivery counts of records in flight are not persisted.
        self._world.deliveries = {}
        batches = tuple(StateBatch(offset, offset, *state) for offset, state in sorted(self.states.items()))
        return StateRead(NONE, None, 0, self.start, batches)

    def _write(
        self, _state_epoch: int, leader_epoch: int, start_offset: int, _finished: int, batches: list[StateBatch]
    ) -> Outcome:
        if leader_epoch < self.leader_epoch:
            return Outcome(ErrorCode.FENCED_LEADER_EPOCH, "fenced")
        self.start = start_offset
        for first, last, count, state in batches:
            for offset in range(first, last + 1):
                self.states[offset] = max(self.states.get(offset, (0, 0)), (count, state))
        self.states = {offset: state for offset, state in self.states.items() if offset >= start_offset}
        return Outcome()


class Member:
    def __init__(self, name: str) -> None:
        self.name = name
        self.connection = ""
        self.epoch = 0
        self.held: set[int] = set()
        self.task: asyncio.Task[Any] | None = None


class CountingService(ShareService):
    """Counts how often fetches look at share partitions."""

    looks = 0

    def obtain(self, key: ShareKey) -> tuple[SharePartition, Partition]:
        self.looks += 1
        return super().obtain(key)


class World:
    """`root` is an empty directory."""

    group_id, topic_id = GROUP, TOPIC_ID

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.store = Partitions(root, {NAME: 1})
        self.loop = self.store.loop
        self.place = (NAME, 0)
        self.table = PartitionTable()
        self.leads = True
        self.epoch = self.store.leader_epoch
        self.coordinator = Coordinator(self)
        self.limit = self.rng.choice([2, 3, 5])
        settings = {
            **DEFAULTS,
            **SETTINGS,
            "group.share.delivery.count.limit": self.limit,
            "group.share.partition.max.record.locks": self.rng.choice([12, 2000]),
        }
        self.clock = cast(ManualClock, self.store.group.clock)
        self.service = CountingService(
            settings,
            self.clock,
            self.loop.as_loop,
            self.table,
            cast(Any, None),
            lambda: cast(Any, self.image()),
            cast(Any, self.coordinator),
            cast(Any, None),
        )
        self.config = settings
        self.table.add(self.store[self.place])
        self.members = [Member(name) for name in "abc"]
        self.connections = 0
        # Connections that ended at the client, and whose end the broker has not seen.
        self.ending: list[str] = []
        self.settled: set[int] = set()
        self.excused: set[int] = set()
        # Acknowledged by a member that no longer had the lock.
        self.late: set[int] = set()
        self.deliveries: dict[int, int] = {}
        self.locks: dict[int, tuple[Member, int]] = {}
        self.verified = 0
        self.failed_ms = -LOCK_MS
        self.end = 0
        self.counts = dict.fromkeys(("delivered", "settled", "redelivered", "moves", "refused"), 0)
        self.operator = Operator(self)
        self._produce()

    def image(self) -> Any:
        """The metadata, as far as the service and the handlers look at them."""
        partition = SimpleNamespace(leader=1 if self.leads else 2, leader_epoch=self.epoch)
        topic = SimpleNamespace(name=NAME, topic_id=TOPIC_ID, partitions={0: partition})
        return SimpleNamespace(
            features=SimpleNamespace(served=lambda _: 1),
            configs=SimpleNamespace(resource=lambda *_: {}),
            topics=SimpleNamespace(by_id=lambda topic_id: topic if topic_id == TOPIC_ID else None),
            brokers={},
        )

    @property
    def share(self) -> SharePartition | None:
        return self.service.table.get(KEY)

    # ---- steps

    def step(self) -> None:
        acts = {
            self._request: 20, self._answer: 20, self.loop.turn: 20, self._produce: 5, self._tick: 6, self._die: 2,
            self._disconnect: 3, self._close: 2, self._move: 2, self._move_log_start: 1, self.operator.act: 2,
        }  # fmt: skip
        self.rng.choices(list(acts), list(acts.values()))[0]()
        self.check()

    def _produce(self) -> None:
        partition = self.store[self.place]
        share = self.service.table.get(KEY)
        is_full = share is not None and share.is_active and not share.can_acquire() and not self.loop.soon
        looks = self.service.looks
        for _ in range(self.rng.randint(1, 3)):
            count = self.rng.randint(1, 5)
            batch = encode_batch([Record(timestamp=0, value=b"v")] * count)
            partition.append_records(batch, 0)
            self.end += count
        self.loop.settle()
        assert not is_full or self.service.looks == looks, "a fetch looks at a share partition that is full"

    def _tick(self, ms: int = 0) -> None:
        ms = ms or self.rng.choice([10, 200, LOCK_MS // 2, LOCK_MS])
        self.clock.advance_ms(ms)
        self.loop.advance(ms / 1000)
        now_ms = self.service.now_ms()
        self.locks = {offset: lock for offset, lock in self.locks.items() if lock[1] > now_ms}

    def _move_log_start(self) -> None:
        partition = self.store[self.place]
        start = partition.log.log_start_offset
        offset = self.rng.randint(start, min(self.end, start + 6))
        delete_records_before(partition.log, offset, 0)
        self.locks = {each: lock for each, lock in self.locks.items() if each >= offset}
        self.excused.update(range(start, offset))

    def _answer(self, fate: str = "") -> None:
        if self.coordinator.waiting:
            fate = fate or self.rng.choices(["done", "failed", "lost"], [8, 1, 1])[0]
            self.coordinator.answer(fate)
            if fate != "done":
                # Records are locked again for their member, whose session may have ended meanwhile.
                self.failed_ms = self.service.now_ms()
            if self.rng.random() < 0.5:
                self.loop.settle()

    def _move(self) -> None:
        """The partition moves to another leader, which reads the state, or comes back."""
        self.counts["moves"] += 1
        self.epoch += 1
        if self.leads:
            self.leads = False
            self.table.remove(*self.place)
            self.coordinator.leader_epoch = self.epoch
        else:
            self.leads = True
            self.store[self.place].lead(self.epoch)
            self.table.add(self.store[self.place])
        topic = self.image().topics.by_id(TOPIC_ID)
        delta = SimpleNamespace(topics=[(topic, topic)], features=[], configs=[])
        self.service.apply(cast(Any, delta), cast(Any, self.image()))
        self.locks = {}
        self.loop.settle()
        waiting = [member.name for member in self.members if member.task is not None]
        if not self.leads and not self.coordinator.waiting:
            assert not waiting, f"{waiting} wait for a partition that this broker does not lead"

    # ---- members

    def _request(self) -> None:
        member = self.rng.choice(self.members)
        if member.task is not None:
            return
        if not member.connection:
            self.connections += 1
            member.connection, member.epoch = f"c{self.connections}", 0
        acks = self._acks(member) if member.epoch else {}
        if member.epoch and self.rng.random() < 0.3:
            self._send(member, self._acknowledge(member, acks, member.epoch))
        else:
            self._send(member, self._fetch(member, acks, member.epoch))

    def _send(self, member: Member, request: Any) -> None:
        member.epoch += 1
        member.task = self.loop.create_task(request)
        if self.rng.random() < 0.5:
            self.loop.settle()

    def _close(self) -> None:
        member = self.rng.choice(self.members)
        if member.connection and member.epoch and member.task is None:
            acks = self._acks(member)
            member.held.clear()
            self._send(member, self._acknowledge(member, acks, -1))
            self._unlock(member)
            member.epoch = 0

    def _die(self) -> None:
        """The client ends; the broker still works on its request."""
        member = self.rng.choice(self.members)
        if member.connection:
            self.ending.append(member.connection)
            self.members[self.members.index(member)] = Member(member.name)

    def _disconnect(self) -> None:
        if not self.ending:
            return
        self.service.disconnected(self.ending.pop(self.rng.randrange(len(self.ending))))
        for member in self.members:
            if self.service.sessions.get(SessionKey(GROUP, member.name)) is None:
                self._unlock(member)
        self.loop.settle()

    def _unlock(self, member: Member) -> None:
        self.locks = {offset: lock for offset, lock in self.locks.items() if lock[0].name != member.name}

    def _acks(self, member: Member) -> dict[int, int]:
        offsets = sorted(member.held)[: self.rng.choice([0, 1, 3, 100])]
        member.held.difference_update(offsets)
        kinds = self.rng.choice([(ACCEPT,), (ACCEPT,), (ACCEPT, ACCEPT, RELEASE, REJECT), (RELEASE,)])
        chosen = {offset: self.rng.choice(kinds) for offset in offsets}
        self.excused.update(offset for offset, kind in chosen.items() if kind != RELEASE)
        return chosen

    def _executes(self, member: Member, acks: dict[int, int]) -> None:
        """The broker executes acknowledgements now. As in Kafka, those before the start offset have no error,
        and no effect.
        """
        self.late |= {offset for offset in acks if self.locks.pop(offset, (None, 0))[0] is not member}

    def context(self, member: Member) -> Any:
        broker = SimpleNamespace(
            share=self.service, image=self.image(), config=self.config, quotas=SimpleNamespace(is_on=False)
        )
        return SimpleNamespace(
            broker=broker,
            version=2,
            connection_id=member.connection,
            client_id="c",
            principal="User:c",
            listener="L",
            allows=lambda *_: True,
            allowed=lambda _operation, _kind, names: set(names),
        )

    async def _fetch(self, member: Member, acks: dict[int, int], epoch: int) -> None:
        request = m.ShareFetchRequest
        batches = [
            request.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset, kind in acks.items()
        ]
        part = request.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        connection = member.connection
        self._executes(member, acks)
        answer = await share_fetch(
            self.context(member),
            request(
                group_id=GROUP,
                member_id=member.name,
                share_session_epoch=epoch,
                max_wait_ms=self.rng.choice([0, WAIT_MS]),
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=self.rng.choice([1, 4, 100]),
                batch_size=100,
                share_acquire_mode=self.rng.choice([0, 0, 1]),
                topics=[request.FetchTopic(topic_id=TOPIC_ID, partitions=[part])] if not epoch or batches else [],
            ),
        )
        member.task = None
        is_dead = member not in self.members
        if answer.error_code:
            assert is_dead, f"the session of {member.name} is refused: {answer.error_code}"
            return
        for _topic, parts in answer.topics:
            for each in parts:
                self._acknowledged(acks, each.acknowledge_error_code, is_dead=is_dead)
                if each.error_code:
                    self.counts["refused"] += 1
                self._delivered(member, each.acquired, is_gone=is_dead or connection not in self.live())

    def live(self) -> set[str]:
        return {member.connection for member in self.members} | set(self.ending)

    async def _acknowledge(self, member: Member, acks: dict[int, int], epoch: int) -> None:
        request = m.ShareAcknowledgeRequest
        batches = [
            request.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset, kind in acks.items()
        ]
        part = request.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = [request.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[part])] if batches else []
        self._executes(member, acks)
        answer = await share_acknowledge(
            self.context(member),
            request(group_id=GROUP, member_id=member.name, share_session_epoch=epoch, topics=topics),
        )
        member.task = None
        is_dead = member not in self.members
        assert not answer.error_code or is_dead, f"the session of {member.name} is refused: {answer.error_code}"
        for topic in answer.responses:
            for each in topic.partitions:
                self._acknowledged(acks, each.error_code, is_dead=is_dead)

    def _acknowledged(self, acks: dict[int, int], code: int, *, is_dead: bool) -> None:
        if not code and not is_dead:
            done = {offset for offset, kind in acks.items() if kind != RELEASE} - self.late
            self.settled |= done
            self.counts["settled"] += len(done)

    def _delivered(self, member: Member, acquired: list[tuple[int, int, int]], *, is_gone: bool) -> None:
        now_ms = self.service.now_ms()
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                redrives = self.operator.redrives.get(offset, 0)
                most = self.limit + 2 * redrives
                assert count <= most, f"offset {offset} is delivered the {count}th time of {most}"
                assert offset not in self.settled, f"{offset} is delivered after its acknowledgement was answered"
                holder, until = self.locks.get(offset, (member, 0))
                assert until <= now_ms or holder.name == member.name, f"{holder.name} has the lock of {offset}"
                self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
                assert self.deliveries[offset] <= self.limit + redrives, f"offset {offset} is delivered too often"
                self.counts["delivered"] += 1
                self.counts["redelivered"] += count > 1
                if count >= self.limit:
                    self.excused.add(offset)
                if not is_gone:
                    self.locks[offset] = (member, now_ms + LOCK_MS)
                    member.held.add(offset)

    # ---- what must hold

    def check(self) -> None:
        for task in [task for task in self.loop.tasks if task.done()]:
            del self.loop.tasks[task]
            task.result()
        share = self.service.table.get(KEY)
        if share is None or not share.is_active:
            return
        for offset in range(self.verified, share.start_offset):
            assert offset in self.settled | self.excused, f"the start offset passes {offset}"
        self.verified = max(self.verified, share.start_offset)
        if self.loop.soon:
            return
        names = {member.name for member in self.members if member.task is not None}
        for _first, _last, state, _count, holder, deadline_ms, is_pending in share.in_flight():
            if state == 1 and not is_pending:
                assert deadline_ms > self.service.now_ms() - 2, "a lock has not ended"
                has_session = self.service.sessions.get(SessionKey(GROUP, holder or "")) is not None
                assert has_session or holder in names or self.service.now_ms() <= self.failed_ms + LOCK_MS, (
                    f"{holder} has no session, and holds records"
                )
        waiting = [name for name in names if self.service.table.waiting(KEY)]
        assert not waiting or not self._has_records(share), f"{waiting} wait although there are records"

    def _has_records(self, share: SharePartition) -> bool:
        return share.can_acquire() and share.next_fetch_offset() < self.end

    def drain(self) -> None:
        """Without further faults every record is settled in the end."""
        if not self.leads:
            self._move()
        while self.ending:
            self._disconnect()
        for number in range(600):
            if number % 100 == 99:
                # As in Kafka, the start offset may stay before finished records that were loaded behind a gap, until
                # newer ones are acquired.
                self._produce()
            self.loop.settle()
            while self.coordinator.waiting:
                self._answer("done")
                self.loop.settle()
            self.check()
            share = self.service.table.get(KEY)
            if share is not None and share.is_active and share.start_offset >= self.end:
                return
            for member in self.members:
                if member.task is None:
                    if not member.connection:
                        self.connections += 1
                        member.connection, member.epoch = f"c{self.connections}", 0
                    acks = dict.fromkeys(sorted(member.held), ACCEPT) if member.epoch else {}
                    member.held.difference_update(acks)
                    self.excused.update(acks)
                    self._send(member, self._fetch(member, acks, member.epoch))
            self._tick(LOCK_MS)
        raise AssertionError(f"the start offset does not reach {self.end}: {share and share.in_flight()}")

    def close(self) -> None:
        self.loop.close()
        self.store.close()
