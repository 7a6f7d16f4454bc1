"""The world of the transaction simulation: one state machine of the transaction coordinator with producers of both
protocols that are replaced, hang and repeat requests, disks that fail, markers that fail or whose response is lost,
batches that arrive late, a coordinator that moves to another broker while the old one, its markers and requests to it
are still on their way, and crashes between any two of these.

The coordinator's log and the partitions that transactions write to are those of the broker, on files. The simulation
reads from them which records exist. After each step the invariants are checked.

The file is long because each act needs what the others left under way: requests, markers and late batches of producers
and coordinators which exist no more. The checks are here because they know it, too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from broker_cy.coordinator.txn import expiry, markers, partitions, records
from broker_cy.coordinator.txn.state import (
    EPOCH_MAX,
    Markers,
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TxnState,
)
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.verification import Verification
from tests.broker_cy.coordinator.txn_harness import TIMEOUT_MS
from tests.sim.real_partitions import Partitions
from tests.sim.txn_partitions import LOG, DataPartition, LoggedHarness

IDS = ("a", "b", "c")
PARTITIONS: tuple[TopicPartition, ...] = tuple((topic, index) for topic in "tu" for index in range(2))
RETRIABLE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# The errors that a producer may get, by its reaction.
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# The errors of markers of a coordinator that another one has replaced.
OLD_MARKERS = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
# Requests and markers on their way for a long time; further ones are lost.
DELAYED_MAX = 20
LOST = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@dataclass(eq=False)
class Producer:
    """One producer program: its view of its transaction, and the request that it waits for."""

    name: str
    transactional_id: str
    version: int
    generation: int = 0
    """The number of its InitProducerId among the successful ones for its transactional id."""
    identity: tuple[int, int] | None = None
    transaction: int = 0
    """The number of its current transaction; 0 for none."""
    added: set[TopicPartition] = field(default_factory=set)
    token: int | None = None
    asked: str = ""
    asked_about: Any = None
    ending: bool | None = None
    """Its decision, which it repeats until it receives a response."""
    coordinator: LoggedHarness | None = None
    """The one that it talks to."""


@dataclass(frozen=True, slots=True)
class Late:
    """A batch in flight; it is appended in some step after `token` is answered."""

    producer: Producer
    identity: tuple[int, int]
    transaction: int
    place: TopicPartition
    verification: Verification | None
    token: int


class World:
    """`root` is an empty directory."""

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.version = self.rng.choice([0, 2, 2])
        self.store = Partitions(root, {"t": 2, "u": 2, LOG[0]: 1})
        self.harness = LoggedHarness(self.store, self.version)
        self.harness.hold_markers = True
        self.partitions = {place: DataPartition(self.store, place) for place in PARTITIONS}
        self.late: list[Late] = []
        self.deposed: LoggedHarness | None = None
        """The previous coordinator, which does not know yet that it was deposed."""
        self.stray: list[Markers] = []
        """Markers of earlier coordinators that are still on their way."""
        self.delayed: list[tuple[str, tuple[int, int], bool]] = []
        """EndTxn requests of producers that no longer wait for them: transactional id, identity, decision."""
        self.moves = 0
        self.producers: list[Producer] = []
        self.generations = dict.fromkeys(IDS, 0)
        self.transactions = 0
        self.decisions: dict[int, bool] = {}
        """By transaction, the outcome that its producer was given."""
        self.checked = 0
        """Number of records of the log that were checked."""
        self.last: dict[str, Transaction] = {}
        self.retired: set[int] = set()
        """Producer ids that were given up."""
        self.crashes = 0
        self.crash_weight = self.rng.choice([1, 1, 1, 12])
        if self.rng.random() < 0.5:
            for transactional_id in IDS:
                self.harness.producer(transactional_id)
                self.harness.force(
                    replace(self.harness.state(transactional_id), producer_epoch=EPOCH_MAX - self.rng.randrange(1, 8))
                )

    def step(self) -> None:
        actions = [
            (self.new_producer, 1),
            (self.act, 40),
            (self.late_batch, 4),
            (self.produce_early, 2),
            (self.repeat, 4),
            (self.hang_up, 4),
            (self.toggle_hold, 4),
            (self.fail_disk, 2),
            (self.markers, 14),
            (self.advance, 8),
            (self.time_out, 2),
            (self.move, 4),
            (self.learn, 4),
            (self.old_coordinator, 4),
            (self.stray_markers, 2),
            (self.delayed_end, 2),
            (self.crash, self.crash_weight),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        self.check()

    # ---- producers ----

    def new_producer(self) -> None:
        """Start a program; earlier programs with the same transactional id keep running."""
        self.producers.append(
            Producer(
                f"p{len(self.producers)}",
                self.rng.choice(IDS),
                version=2 if self.version == 2 and self.rng.random() < 0.7 else 0,
            )
        )
        if len(self.producers) > 4:
            self.producers.pop(self.rng.randrange(len(self.producers)))

    def act(self) -> None:
        """Let one producer do what a producer does next."""
        free = [producer for producer in self.producers if producer.token is None]
        if not free:
            return
        producer = self.rng.choice(free)
        if producer.identity is None:
            self.ask(producer, "init", None)
        elif producer.ending is not None:
            self.ask(producer, "end", producer.ending)
        elif not producer.added or self.rng.random() < 0.5:
            self.ask(producer, "add", self.rng.choice(PARTITIONS))
        elif self.rng.random() < 0.5:
            # Some batches go to partitions that are not part of the transaction.
            wrong = self.rng.random() < 0.1
            self.produce(producer, self.rng.choice(PARTITIONS if wrong else sorted(producer.added)))
        else:
            producer.ending = self.rng.random() < 0.6
            self.ask(producer, "end", producer.ending)

    def ask(self, producer: Producer, what: str, about: Any) -> None:
        token = self.harness.token()
        producer.token, producer.asked, producer.asked_about = token, what, about
        self.send(producer, token)

    def send(self, producer: Producer, token: int) -> None:
        where, version = producer.transactional_id, producer.version
        if self.deposed is None or producer.coordinator is not self.deposed:
            producer.coordinator = self.harness
        harness = producer.coordinator
        if producer.asked == "init":
            harness.init(where, token=token)
            return
        assert producer.identity is not None
        if producer.asked == "add":
            if producer.transaction == 0:
                self.transactions += 1
                producer.transaction = self.transactions
            harness.add(producer.identity, producer.asked_about, transactional_id=where, version=version, token=token)
        else:
            harness.end(producer.identity, producer.asked_about, transactional_id=where, version=version, token=token)

    def produce_early(self) -> None:
        """Write to a partition before AddPartitionsToTxn is answered, as a defective client may."""
        adding = [producer for producer in self.producers if producer.token is not None and producer.asked == "add"]
        if adding:
            producer = self.rng.choice(adding)
            if producer.identity is not None:
                self.produce(producer, producer.asked_about)

    def produce(self, producer: Producer, place: TopicPartition) -> None:
        """Write to a partition, which asks the coordinator before it lets a transaction begin."""
        assert producer.identity is not None
        adds = producer.version >= 2
        try:
            verification = self.partitions[place].verify(producer.identity, adds=adds)
        except KafkaError:
            self.restart_producer(producer)
            return
        if verification is None:
            self.append(Late(producer, producer.identity, producer.transaction, place, None, 0))
            return
        token = self.harness.token()
        where = producer.transactional_id
        if adds:
            self.harness.add(producer.identity, place, transactional_id=where, version=2, token=token)
        else:
            asked = (where, ProducerIdAndEpoch(*producer.identity), (place,))
            self.harness.run(partitions.verify, *asked, token=token)
        self.late.append(Late(producer, producer.identity, producer.transaction, place, verification, token))
        if self.rng.random() < 0.7:
            self.arrive(len(self.late) - 1)

    def arrive(self, number: int) -> None:
        """Let a batch arrive, if the coordinator has answered."""
        late = self.late[number]
        if late.token not in self.harness.answers:
            return
        del self.late[number]
        answer = self.harness.answers[late.token]
        code = answer[late.place] if isinstance(answer, dict) else answer
        if code is ErrorCode.NONE:
            self.append(late)

    def late_batch(self) -> None:
        if self.late:
            self.arrive(self.rng.randrange(len(self.late)))

    def append(self, late: Late) -> None:
        producer = late.producer
        same = producer.identity == late.identity
        if same and producer.version < 2 and producer.transaction != late.transaction:
            # With the old protocol the batch cannot be distinguished from one of the next transaction.
            return
        partition = self.partitions[late.place]
        code = partition.produce(late.identity, late.transaction, late.verification, self.harness.wall_ms)
        assert code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE), code
        if code is ErrorCode.INVALID_PRODUCER_EPOCH and same:
            self.restart_producer(producer)

    def repeat(self) -> None:
        """Break a connection: the client repeats the request, and the first response is lost."""
        waiting = [producer for producer in self.producers if producer.token is not None]
        if waiting:
            producer = self.rng.choice(waiting)
            self.delay(producer)
            producer.token = self.harness.token()
            self.send(producer, producer.token)

    def hang_up(self) -> None:
        """Let a producer lose the response and continue; it may change its decision."""
        waiting = [producer for producer in self.producers if producer.token is not None]
        if waiting:
            producer = self.rng.choice(waiting)
            self.delay(producer)
            producer.token = None
            if producer.ending is not None and self.rng.random() < 0.7:
                producer.ending = not producer.ending

    def delay(self, producer: Producer) -> None:
        """A copy of the request takes longer to arrive. With the old protocol it could not be distinguished from one of
        the next transaction (KIP-890).
        """
        if producer.asked == "end" and producer.version >= 2 and producer.identity is not None:
            self.delayed.append((producer.transactional_id, producer.identity, producer.asked_about))
            del self.delayed[:-DELAYED_MAX]

    def delayed_end(self) -> None:
        """A request arrives that its client has given up."""
        if self.delayed:
            where, identity, decided = self.delayed.pop(self.rng.randrange(len(self.delayed)))
            token = self.harness.token()
            self.harness.end(identity, decided, transactional_id=where, version=2, token=token)

    def restart_producer(self, producer: Producer) -> None:
        producer.identity, producer.ending, producer.transaction = None, None, 0
        # The producer may have been waiting: one of its batches was rejected in the meantime.
        producer.token = None
        producer.added = set()

    def deliver(self) -> None:
        for producer in self.producers:
            if producer.token is not None and producer.token in self.harness.answers:
                answer = self.harness.answers[producer.token]
                producer.token = None
                self.receive(producer, answer)

    def receive(self, producer: Producer, answer: Any) -> None:
        code = answer if isinstance(answer, ErrorCode) else answer.code
        if code is not ErrorCode.NONE:
            assert code in AGAIN + LOST, code
            if producer.asked == "end" and producer.asked_about and producer.version >= 2:
                # It has something to commit, unless that was aborted without it: then it is only fenced (KAFKA-20785).
                assert code is not ErrorCode.INVALID_TXN_STATE or not producer.added, f"{producer.name} ends for good"
            if code is ErrorCode.NOT_COORDINATOR:
                producer.coordinator = self.harness
            if code in LOST:
                self.restart_producer(producer)
            return
        where = producer.transactional_id
        if producer.asked == "init":
            self.generations[where] += 1
            producer.generation = self.generations[where]
            producer.identity = (answer.producer_id, answer.epoch)
            return
        if producer.coordinator is self.harness:
            # A deposed coordinator may repeat its earlier answer.
            assert producer.generation == self.generations[where], f"{producer.name} is fenced, but received NONE"
        if producer.asked == "add":
            producer.added.add(producer.asked_about)
            return
        decided = producer.asked_about
        assert self.decisions.setdefault(producer.transaction, decided) == decided
        if producer.version >= 2:
            producer.identity = (answer.producer_id, answer.epoch)
        producer.ending, producer.transaction, producer.added = None, 0, set()

    # ---- failures ----

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.harness.fail()

    def markers(self) -> None:
        """Let some partitions write their markers; some responses are lost."""
        if not self.harness.sent:
            return
        sent = self.harness.sent.pop(self.rng.randrange(len(self.harness.sent)))
        results: dict[TopicPartition, ErrorCode] = {}
        trouble = self.rng.random() < 0.3
        for partition in sent.partitions:
            if trouble and self.rng.random() < 0.5:
                results[partition] = self.rng.choice(RETRIABLE)
                if self.rng.random() < 0.5:
                    continue
            code = self.partitions[partition].mark(sent, self.harness.wall_ms)
            assert code is ErrorCode.NONE, f"{partition} refuses {sent}: {code.name}"
            results.setdefault(partition, code)
        self.harness.take(self.harness.machine.run(markers.written, sent, results, self.harness.now))

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 20, 100, 1_000, TIMEOUT_MS // 2, TIMEOUT_MS]))

    def time_out(self) -> None:
        machine = self.harness.machine
        step = machine.run(expiry.abort_timed_out, self.harness.now)
        self.harness.take(step)
        if step.needs_producer_id:
            self.harness.give_producer_id()
        if self.rng.random() < 0.1:
            self.harness.advance(self.harness.settings.id_expiration_ms)
            self.harness.take(machine.run(expiry.remove_expired, self.harness.now))

    def move(self) -> None:
        """Elect another broker, which has a part of the unacknowledged records."""
        self.learn()
        old = self.deposed = self.harness
        self.moves += 1
        self.harness = old.successor(self.rng.randrange(len(old.held) + 1))
        # Each broker has producer ids of its own.
        old.next_producer_id += 1_000_000 * self.moves

    def learn(self) -> None:
        """The old coordinator learns that it was deposed."""
        old, self.deposed = self.deposed, None
        if old is not None:
            old.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.stray += old.sent
            del self.stray[:-DELAYED_MAX]

    def old_coordinator(self) -> None:
        """The old coordinator continues: it retries, aborts, and writes."""
        old = self.deposed
        if old is None:
            return
        old.wall_ms, old.mono_ms = self.harness.wall_ms, self.harness.mono_ms
        what = self.rng.randrange(3)
        if what == 0:
            old.take(old.machine.expire(old.now))
        elif what == 1:
            old.take(old.machine.run(expiry.abort_timed_out, old.now))
        elif old.held:
            old.write()

    def stray_markers(self) -> None:
        """Markers of an old coordinator arrive."""
        old = self.deposed
        if old is not None and old.sent:
            sent = old.sent.pop(self.rng.randrange(len(old.sent)))
            old.take(old.machine.run(markers.written, sent, self.mark_late(sent), old.now))
        elif self.stray:
            # Most of them arrive when their producer is in its next transaction, which they must not end.
            harmful = [n for n, sent in enumerate(self.stray) if self.is_next_open(sent)]
            if harmful or self.rng.random() < 0.1:
                self.mark_late(self.stray.pop(self.rng.choice(harmful or range(len(self.stray)))))

    def is_next_open(self, sent: Markers) -> bool:
        """Whether the markers are over, and their producer has begun to write again to one of the partitions."""
        known = self.harness.machine.transactions.get(sent.transactional_id)
        return (
            known is not None
            and known.state is TxnState.ONGOING
            and any(sent.producer_id in self.partitions[place].open for place in sent.partitions)
        )

    def mark_late(self, sent: Markers) -> dict[TopicPartition, ErrorCode]:
        results = {place: self.partitions[place].mark(sent, self.harness.wall_ms) for place in sent.partitions}
        assert all(code is ErrorCode.NONE or code in OLD_MARKERS for code in results.values()), results
        return results

    def crash(self) -> None:
        """Kill the broker: unwritten records are lost, markers in flight are written or not, responses are lost."""
        self.crashes += 1
        for sent in self.harness.sent:
            for partition in sent.partitions:
                if self.rng.random() < 0.5:
                    assert self.partitions[partition].mark(sent, self.harness.wall_ms) is ErrorCode.NONE
        for producer in self.producers:
            producer.token = None
        # The connections of these batches, requests and markers are closed.
        self.late.clear()
        self.stray.clear()
        self.delayed.clear()
        self.deposed = None
        self.restart()

    def restart(self) -> None:
        self.store.crash()
        for partition in self.partitions.values():
            partition.follow()
            assert partition.end_offset == partition.partition.high_watermark, "a restart found another end of the log"
            partition.check()
        self.harness.restart()

    # ---- what must always hold ----

    def check(self) -> None:
        self.check_log()
        for partition in self.partitions.values():
            partition.check()
            for transaction, ends in partition.ended.items():
                assert len(ends) == 1, f"transaction {transaction} is committed and aborted in one partition"
        machine = self.harness.machine
        assert {t.transactional_id for t in machine.transactions.values() if t.state is TxnState.ONGOING} == set(
            machine.ongoing
        )
        if self.harness.held:
            return
        for transactional_id, ending in machine.ending.items():
            continues = ending.under_way or ending.fenced or machine.timers.get(transactional_id) is not None
            assert continues, f"no marker, timer or fencing will end the transaction of {transactional_id}"
        prepared = {t.transactional_id for t in machine.transactions.values() if t.state.is_prepared}
        assert prepared == set(machine.ending)
        assert self.last == self.durable(), "a restart would restore another state"
        self.check_open()

    def durable(self) -> dict[str, Transaction]:
        found = self.harness.as_loaded()
        if self.version >= 1:
            return found
        return {key: replace(one, previous_producer_id=-1, client_version=0) for key, one in found.items()}

    def check_log(self) -> None:
        """Check that producer ids and epochs never go back and that no decision changes."""
        for key, value in self.harness.log[self.checked :]:
            transactional_id = records.id_of_key(key)
            before = self.last.pop(transactional_id, None)
            if value is None:
                if before is not None:
                    self.retired.add(before.producer_id)
                continue
            found = records.decode_value(transactional_id, value)
            assert found is not None
            assert found.producer_id not in self.retired, "a producer id is assigned again"
            assert not found.partitions or found.state is TxnState.ONGOING or found.state.is_prepared, found
            self.last[transactional_id] = found
            if before is None:
                continue
            if before.producer_id == found.producer_id:
                assert found.producer_epoch >= before.producer_epoch, "an epoch goes back"
            else:
                self.retired.add(before.producer_id)
            if before.state.is_prepared:
                assert found.state is TxnState(before.state + 2), f"{found.state.name} after {before.state.name}"
        self.checked = len(self.harness.log)

    def check_open(self) -> None:
        """Check that the coordinator knows every open transaction of every partition, and so will end it."""
        by_producer = {t.producer_id: t for t in self.harness.machine.transactions.values()}
        for partition, written in self.partitions.items():
            for producer_id in written.open:
                found = by_producer.get(producer_id)
                assert found is not None, f"the transaction of producer {producer_id} stays open in {partition}"
                assert partition in found.partitions, (
                    f"the transaction of producer {producer_id} stays open in {partition}"
                )

    def finish(self) -> None:
        """End all failures: every transaction must then end, and in the same way in all partitions."""
        self.learn()
        harness = self.harness
        self.late.clear()
        if self.rng.random() < 0.5:
            self.restart()
        elif harness.held:
            harness.write()
        harness.hold = False
        harness.advance(2 * TIMEOUT_MS)
        for _ in range(20):
            self.time_out()
            while harness.sent:
                sent = harness.sent.pop()
                results = {place: self.partitions[place].mark(sent, harness.wall_ms) for place in sent.partitions}
                harness.take(harness.machine.run(markers.written, sent, results, harness.now))
            harness.advance(1_000)
        self.check()
        for transaction in harness.machine.transactions.values():
            assert transaction.state is TxnState.EMPTY or transaction.state.is_complete, transaction
        ends: dict[int, set[bool]] = {}
        for partition in self.partitions.values():
            partition.read_again()
            assert not partition.open, "a transaction is still open"
            for number, found in partition.ended.items():
                ends.setdefault(number, set()).update(found)
        for number, found in ends.items():
            assert len(found) == 1, f"transaction {number} is committed in one partition and aborted in another"
            confirmed = self.decisions.get(number)
            assert confirmed in (None, *found), (
                f"transaction {number} ended as {found}, but {confirmed} was confirmed to its producer"
            )
