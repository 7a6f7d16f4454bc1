"""The world of the share simulation: one share group on one partition, with members that fetch, acknowledge, hang, die
and come back on another connection; a log that grows, is compacted and loses its start; a share coordinator whose
writes succeed, fail, or succeed without an answer; leaders that change; and an operator (share_operator).

The world knows what clients were told, and compares it with the share partition after each step.
"""

from __future__ import annotations

import random
from typing import NamedTuple
from uuid import UUID

from broker_cy.core.errors import KafkaError
from broker_cy.share import acknowledging, acquiring
from broker_cy.share.read_batches import ReadBatches
from broker_cy.share.sessions import Closed, SessionKey, ShareSessions, TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey, SharePartitions
from broker_cy.share.state_write import AcknowledgeError, AcknowledgeType, StateWrite
from tests.sim.share_operator import Operator

ACQUIRED = 1
LOCK_MS = 100
TOPIC = TopicPartition(UUID(int=1), 0)
KEY = ShareKey("g", TopicPartition(UUID(int=1), 0))
TERMINAL = (AcknowledgeType.GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Store:
    """The states that the share coordinator has persisted, by offset."""

    def __init__(self) -> None:
        self.leader_epoch = 0
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}

    def read(self, leader_epoch: int) -> list[tuple[int, int, int, int]]:
        self.leader_epoch = leader_epoch
        found: list[tuple[int, int, int, int]] = []
        for offset, (count, state) in sorted(self.states.items()):
            if found and found[-1][1] + 1 == offset and found[-1][2:] == (count, state):
                found[-1] = (found[-1][0], offset, count, state)
            else:
                found.append((offset, offset, count, state))
        return found

    def write(self, write: StateWrite) -> bool:
        """Apply a write; False if its leader is no longer the newest one."""
        if write.leader_epoch < self.leader_epoch:
            return False
        self.start = max(self.start, write.start_offset)
        for first, last, count, state in write.batches:
            for offset in range(first, last + 1):
                # As the share coordinator merges them: a write that arrives late does not undo a later delivery.
                self.states[offset] = max(self.states.get(offset, (0, 0)), (count, state))
        self.states = {offset: state for offset, state in self.states.items() if offset >= self.start}
        return True


class Sent(NamedTuple):
    """A write under way, the records that its answer settles, and those that the group gets again after it."""

    partition: SharePartition
    write: StateWrite
    settles: frozenset[int]
    owes: frozenset[int]


class Member:
    def __init__(self, name: str) -> None:
        self.key = SessionKey(KEY.group_id, name)
        self.connection: int | None = None
        self.epoch = 0
        self.held: set[int] = set()
        self.is_waiting = False


class World:
    key = KEY

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1
        self.limit = self.rng.choice([2, 3, 5])
        self.records_max = self.rng.choice([8, 40])
        self.sessions = ShareSessions(10)
        self.table = SharePartitions()
        self.store = Store()
        self.members = [Member(name) for name in "abc"]
        self.log: list[tuple[int, int]] = []
        self.log_start = self.end = self.verified = self.leader_epoch = self.connections = 0
        self.sent: list[Sent] = []
        # Connections that ended at the client, and whose end the broker has not seen.
        self.ending: list[int] = []
        self.settled: set[int] = set()
        self.excused: set[int] = set()
        # The lock of an offset: its member, and when it ends. Only while the client has not answered.
        self.locks: dict[int, tuple[Member, int]] = {}
        self.deliveries: dict[int, int] = {}
        self.counts = dict.fromkeys(("delivered", "settled", "redelivered", "leaders", "waits", "operated"), 0)
        self.operator = Operator(self)
        self._produce()

    def step(self) -> None:
        acts = {
            self._fetch: 10, self._acknowledge: 10, self._end_write: 12, self._produce: 4, self._tick: 4,
            self._close: 1, self._die: 1, self._disconnect: 2, self._stray: 1,
            self._move_log_start: 1, self._compact: 1, self._lead: 1, self.operator.act: 3,
        }  # fmt: skip
        self.rng.choices(list(acts), list(acts.values()))[0]()
        self.check()

    # ---- the log

    def _produce(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            size = self.rng.randint(1, 6)
            self.log.append((self.end, self.end + size - 1))
            self.end += size
        self._serve_all(self.table.wake_topic(TOPIC))

    def _compact(self) -> None:
        self.log = [batch for batch in self.log[:-1] if self.rng.random() < 0.8] + self.log[-1:]

    def _move_log_start(self) -> None:
        self.log_start = self.rng.randint(self.log_start, min(self.end - 1, self.log_start + 10))
        self.locks = {offset: lock for offset, lock in self.locks.items() if offset >= self.log_start}
        self._serve_all(self.table.wake(KEY))

    # ---- leaders

    def _lead(self) -> None:
        """Another leader, or the first one; its state is read at once."""
        fetches = self.table.drop_topic(TOPIC)
        self.leader_epoch += 1
        self.counts["leaders"] += 1
        self.locks, self.deliveries = {}, {}
        partition = SharePartition(self.leader_epoch)
        partition.configure(LOCK_MS, self.limit, self.records_max, True)
        assert partition.begin()
        batches = self.store.read(self.leader_epoch)
        partition.load(0, self.store.start, batches)
        self.table.add(KEY, partition)
        self._stray()
        self._serve_all(fetches)

    # ---- members

    def _fetch(self) -> None:
        member = self.rng.choice(self.members)
        if member.is_waiting:
            return
        if member.connection is None:
            self.connections += 1
            member.connection = self.connections
            self.sessions.open(member.key, member.connection, [TOPIC])
            member.epoch = 1
        else:
            self._take(member, member.epoch)
            member.epoch += 1
            if self.rng.random() < 0.5:
                self._acknowledge(member)
        self._serve(member)

    def _take(self, member: Member, epoch: int) -> None:
        try:
            self.sessions.update(member.key, epoch, (), ())
        except KafkaError as error:
            raise AssertionError(f"the live session of {member.key.member_id} is refused: {error}") from error

    def _serve_all(self, fetches: list[object]) -> None:
        for member in fetches:
            assert isinstance(member, Member)
            member.is_waiting = False
            self._serve(member)

    def _serve(self, member: Member) -> None:
        partition = self.table.get(KEY)
        if partition is None:
            self._lead()
            partition = self.table.get(KEY)
            assert partition is not None
        if self._is_ready(partition):
            offset = partition.next_fetch_offset()
            if offset < self.log_start:
                # The read fails with OFFSET_OUT_OF_RANGE.
                partition.move_log_start(self.log_start)
                offset = partition.next_fetch_offset()
                assert offset >= self.log_start, f"the fetch offset {offset} is before the log's start {self.log_start}"
            read = [batch for batch in self.log if batch[1] >= offset][: self.rng.randint(1, 5)]
            most, mode = self.rng.choice([1, 4, 100]), self.rng.random() < 0.3
            batches = ReadBatches(read)
            for first, last, count in acquiring.acquire(
                partition, member.key.member_id, mode, 100, most, offset, batches, self.now_ms
            ):
                self._deliver(member, first, last, count)
            if member.held:
                return
        if not self._is_ready(partition):
            member.is_waiting = self.table.wait(member, [KEY])
            self.counts["waits"] += 1

    def _is_ready(self, partition: SharePartition) -> bool:
        """Whether a fetch would find records: not only the rest of a log whose last batches are in flight."""
        return partition.can_acquire() and partition.next_fetch_offset() < self.end

    def _deliver(self, member: Member, first: int, last: int, count: int) -> None:
        for offset in range(first, last + 1):
            limit = self.limit + self.operator.attempts(offset)
            most = limit + self.operator.attempts(offset)
            assert count <= most, f"offset {offset} is delivered the {count}th time of {most}"
            assert offset not in self.settled, f"offset {offset} is delivered after its acknowledgement was answered"
            holder, until = self.locks.get(offset, (member, 0))
            assert until <= self.now_ms, f"offset {offset} is delivered while {holder.key.member_id} has its lock"
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
            assert self.deliveries[offset] <= limit, f"offset {offset} is delivered too often"
            self.operator.owed.discard(offset)
            self.counts["delivered"] += 1
            self.counts["redelivered"] += count > 1
            if count >= self.limit:
                self.excused.add(offset)
            self.locks[offset] = (member, self.now_ms + LOCK_MS)
            member.held.add(offset)

    def _acknowledge(self, member: Member | None = None) -> None:
        member = member or self.rng.choice(self.members)
        partition = self.table.get(KEY)
        if not member.held or partition is None:
            return
        if self.rng.random() < 0.1:
            # It hangs, or works on them.
            return
        offsets = sorted(member.held)[: self.rng.choice([1, 3, 100])]
        member.held.difference_update(offsets)
        kinds = self.rng.choice(["1", "1", "11111234", "2", "0123"])
        chosen = {offset: AcknowledgeType(int(self.rng.choice(kinds))) for offset in offsets}
        self._answer(partition, member, chosen)

    def _answer(self, partition: SharePartition, member: Member, chosen: dict[int, AcknowledgeType]) -> None:
        are_locked = all(self.locks.get(offset, (None, 0))[0] is member for offset in chosen)
        settles = frozenset(offset for offset, kind in chosen.items() if kind in TERMINAL)
        batches = [(offset, offset, bytes((kind,))) for offset, kind in chosen.items()]
        # An answer that is lost, or refused as a whole, may have settled the records anyway.
        self.excused |= settles
        try:
            write = acknowledging.acknowledge(partition, member.key.member_id, batches, self.now_ms)
        except AcknowledgeError as error:
            if are_locked:
                raise AssertionError(f"the acknowledgement of locked records is refused: {error}") from error
            return
        for offset, kind in chosen.items():
            lock = self.locks.pop(offset, None)
            if kind == AcknowledgeType.RENEW and lock is not None and lock[0] is member:
                self.locks[offset] = (member, self.now_ms + LOCK_MS)
                member.held.add(offset)
        self.send(partition, write, settles)

    def _stray(self) -> None:
        """A request for records that the member does not hold, also below the first ones in flight."""
        partition = self.table.get(KEY)
        if partition is None:
            return
        first = max(0, partition.start_offset + self.rng.choice([-5, 0, 1, 3, 20]))
        try:
            write = acknowledging.acknowledge(
                partition, "stranger", [(first, first + self.rng.randint(0, 9), b"\1")], self.now_ms
            )
        except AcknowledgeError:
            return
        assert write is None, "a stranger's acknowledgement counts"

    def _close(self) -> None:
        member = self.rng.choice(self.members)
        if member.connection is None or member.is_waiting:
            return
        self._take(member, -1)
        self._release([self.sessions.close(member.key)])
        member.connection, member.epoch = None, 0
        member.held.clear()

    def _die(self) -> None:
        member = self.rng.choice(self.members)
        if member.connection is None:
            return
        self.table.forget(member)
        self.ending.append(member.connection)
        member.connection, member.epoch, member.is_waiting = None, 0, False
        member.held.clear()

    def _disconnect(self) -> None:
        if self.ending:
            self._release(self.sessions.disconnect(self.ending.pop(self.rng.randrange(len(self.ending)))))

    def _release(self, ended: list[Closed]) -> None:
        for closed in ended:
            partition = self.table.get(KEY)
            for _key, write in self.table.release(closed):
                assert partition is not None
                self.send(partition, write)
            self.locks = {
                offset: lock for offset, lock in self.locks.items() if lock[0].key.member_id != closed.key.member_id
            }
            for run in partition.in_flight() if partition is not None else ():
                assert run[4] != closed.key.member_id or run[-1], "a session that is closed keeps its locks"

    # ---- the share coordinator

    def send(
        self,
        partition: SharePartition,
        write: StateWrite | None,
        settles: frozenset[int] = frozenset(),
        owes: frozenset[int] = frozenset(),
    ) -> None:
        if write is not None:
            self.sent.append(Sent(partition, write, settles, owes))

    def _end_write(self, fate: str = "") -> None:
        if not self.sent:
            return
        sent = self.sent.pop(self.rng.randrange(len(self.sent)))
        fate = fate or self.rng.choices(["written", "failed", "lost"], [8, 1, 1])[0]
        is_current = fate == "failed" or self.store.write(sent.write)
        if fate == "written" and is_current:
            self.settled |= sent.settles
            self.operator.owed |= sent.owes
            self.counts["settled"] += len(sent.settles)
            wakes = acknowledging.written(sent.partition, sent.write)
        else:
            wakes = acknowledging.failed(sent.partition, sent.write)
        if not is_current and self.table.get(KEY) is sent.partition:
            self._serve_all(self.table.drop(KEY))
        elif wakes:
            self._serve_all(self.table.wake(KEY))

    def _tick(self, ms: int = 0) -> None:
        self.now_ms += ms or self.rng.choice([1, 20, 60, LOCK_MS])
        self.locks = {offset: lock for offset, lock in self.locks.items() if lock[1] > self.now_ms}
        partition = self.table.get(KEY)
        if partition is None:
            return
        write = acknowledging.expire(partition, self.now_ms)
        self._check_locks(partition)
        if write is not None:
            self.send(partition, write)
            self._serve_all(self.table.wake(KEY))

    # ---- what must hold

    def _check_locks(self, partition: SharePartition) -> None:
        locked: dict[int, str | None] = {}
        for first, last, state, _count, holder, deadline, is_pending in partition.in_flight():
            if state == ACQUIRED and not is_pending:
                assert self.now_ms < deadline <= self.now_ms + LOCK_MS, (
                    f"the lock of {first} to {last} ends at {deadline}"
                )
                locked.update((offset, holder) for offset in range(first, last + 1))
        for offset, (member, until) in self.locks.items():
            assert locked.get(offset) == member.key.member_id, f"the lock of {offset} should last until {until}"

    def check(self) -> None:
        partition = self.table.get(KEY)
        assert self.sessions.members(KEY.group_id) == len(self.sessions), "the counters of sessions are wrong"
        waiting = [member.key.member_id for member in self.members if member.is_waiting]
        if partition is None:
            assert not waiting, f"{waiting} wait for a share partition that was dropped"
            return
        in_log = {offset for base, last in self.log for offset in range(base, last + 1) if offset >= self.log_start}
        for offset in range(self.verified, partition.start_offset):
            if offset in in_log:
                assert offset in self.settled | self.excused, f"the start offset passes {offset}"
                self.operator.check(offset)
        self.verified = max(self.verified, partition.start_offset)
        assert not waiting or not self._is_ready(partition), f"{waiting} wait although there are records"

    def drain(self) -> None:
        """Without further faults every record is settled in the end."""
        reader = self.members[0]
        for _ in range(400):
            while self.sent:
                self._end_write("written")
            partition = self.table.get(KEY)
            if partition is not None and partition.start_offset >= self.end:
                return
            self._tick(LOCK_MS)
            if not reader.is_waiting and not reader.held:
                self._serve(reader)
            partition = self.table.get(KEY)
            if reader.held and partition is not None:
                chosen = dict.fromkeys(sorted(reader.held), AcknowledgeType.ACCEPT)
                reader.held.clear()
                self._answer(partition, reader, chosen)
        raise AssertionError(f"the start offset does not reach {self.end}: {partition and partition.in_flight()}")
