"""A seeded run of one transaction coordinator with producers of both protocols that are replaced, hang and repeat
themselves, disks that fail, markers that fail or whose answer is lost, and crashes between any two of these.

After each step the invariants are checked. A failure prints the seed, and TXN_SIM_SEED=<seed> runs it again.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from broker_cy.coordinator.txn import records
from broker_cy.coordinator.txn.markers import Markers
from broker_cy.coordinator.txn.state import EPOCH_MAX, TopicPartition, Transaction, TxnState
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.txn_harness import TIMEOUT_MS, TxnHarness

# Over all seeds 200,000 steps. After each one what a restart would find is compared with what is there.
STEPS = 4_000
SEEDS = [int(os.environ["TXN_SIM_SEED"])] if "TXN_SIM_SEED" in os.environ else list(range(1, 51))
IDS = ("a", "b", "c")
PARTITIONS: tuple[TopicPartition, ...] = tuple((topic, index) for topic in "tu" for index in range(2))
RETRIABLE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# What a producer may be told besides NONE, by how it goes on.
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
LOST = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@dataclass(eq=False)
class Producer:
    """One producer program: what it believes, and the request it waits for."""

    name: str
    transactional_id: str
    version: int
    generation: int = 0
    """Which of the successful InitProducerIds of its id it had."""
    identity: tuple[int, int] | None = None
    transaction: int = 0
    """The number of the transaction it is in; 0 for none."""
    added: set[TopicPartition] = field(default_factory=set)
    token: int | None = None
    asked: str = ""
    asked_about: Any = None
    ending: bool | None = None
    """What it decided; it says so until it is told that this has happened."""


@dataclass
class Written:
    """One partition: who writes, and what became of whose transaction."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, set[int]] = field(default_factory=dict)
    ended: dict[int, set[bool]] = field(default_factory=dict)

    def produce(self, identity: tuple[int, int], transaction: int) -> bool:
        producer_id, epoch = identity
        if epoch < self.epochs.get(producer_id, -1):
            return False
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, set()).add(transaction)
        return True

    def mark(self, sent: Markers) -> ErrorCode:
        """What ProducerAppendInfo does with a marker (KAFKA-19999)."""
        current = self.epochs.get(sent.producer_id, -1)
        begun = self.open.get(sent.producer_id)
        too_old = sent.producer_epoch < current
        if sent.transaction_version >= 2 and sent.producer_epoch == current:
            too_old = begun is not None and sent.producer_epoch != EPOCH_MAX
        if too_old:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[sent.producer_id] = sent.producer_epoch
        for transaction in self.open.pop(sent.producer_id, ()):
            self.ended.setdefault(transaction, set()).add(sent.commit)
        return ErrorCode.NONE


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.version = self.rng.choice([0, 2, 2])
        self.harness = TxnHarness(self.version)
        self.harness.hold_markers = True
        self.partitions = {partition: Written() for partition in PARTITIONS}
        self.producers: list[Producer] = []
        self.generations = dict.fromkeys(IDS, 0)
        self.transactions = 0
        self.decisions: dict[int, bool] = {}
        """What the producer of a transaction was told that became of it."""
        self.checked = 0
        """Records of the log that were looked at."""
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
            (self.repeat, 4),
            (self.hang_up, 2),
            (self.toggle_hold, 4),
            (self.fail_disk, 2),
            (self.markers, 14),
            (self.advance, 8),
            (self.time_out, 2),
            (self.crash, self.crash_weight),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        self.check()

    # ---- producers ----

    def new_producer(self) -> None:
        """A program starts; those before it with the same id go on as if nothing had happened."""
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
        """One producer does what a producer does next."""
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
            self.produce(producer)
        else:
            producer.ending = self.rng.random() < 0.6
            self.ask(producer, "end", producer.ending)

    def ask(self, producer: Producer, what: str, about: Any) -> None:
        token = self.harness.token()
        producer.token, producer.asked, producer.asked_about = token, what, about
        self.send(producer, token)

    def send(self, producer: Producer, token: int) -> None:
        where, version = producer.transactional_id, producer.version
        if producer.asked == "init":
            self.harness.init(where, token=token)
            return
        assert producer.identity is not None
        if producer.asked == "add":
            if producer.transaction == 0:
                self.transactions += 1
                producer.transaction = self.transactions
            self.harness.add(
                producer.identity, producer.asked_about, transactional_id=where, version=version, token=token
            )
        else:
            self.harness.end(
                producer.identity, producer.asked_about, transactional_id=where, version=version, token=token
            )

    def produce(self, producer: Producer) -> None:
        """Write to a partition of the transaction; with the old protocol the partition asks the coordinator before."""
        assert producer.identity is not None
        partition = self.rng.choice(sorted(producer.added))
        if producer.version < 2:
            found = self.harness.run(
                self.harness.machine.verify_partitions, producer.transactional_id, _identity(producer), (partition,)
            )
            if found is None or found[partition] is not ErrorCode.NONE:
                return
        else:
            # What is added already is known to the partition; a transaction ended behind its back has fenced it.
            known = self.harness.machine.transactions.get(producer.transactional_id)
            if known is None or partition not in known.partitions or known.producer_id != producer.identity[0]:
                return
        if not self.partitions[partition].produce(producer.identity, producer.transaction):
            self.restart_producer(producer)

    def repeat(self) -> None:
        """A connection breaks: the same request again, and the answer to the first is lost."""
        waiting = [producer for producer in self.producers if producer.token is not None]
        if waiting:
            producer = self.rng.choice(waiting)
            producer.token = self.harness.token()
            self.send(producer, producer.token)

    def hang_up(self) -> None:
        """A producer does not get the answer, and begins again with its next thought."""
        waiting = [producer for producer in self.producers if producer.token is not None]
        if waiting:
            self.rng.choice(waiting).token = None

    def restart_producer(self, producer: Producer) -> None:
        producer.identity, producer.ending, producer.transaction = None, None, 0
        producer.added = set()

    def deliver(self) -> None:
        for producer in self.producers:
            if producer.token is not None and producer.token in self.harness.answers:
                answer = self.harness.answers[producer.token]
                producer.token = None
                self.told(producer, answer)

    def told(self, producer: Producer, answer: Any) -> None:
        code = answer if isinstance(answer, ErrorCode) else answer.code
        if code is not ErrorCode.NONE:
            assert code in AGAIN + LOST, code
            if code in LOST:
                self.restart_producer(producer)
            return
        where = producer.transactional_id
        if producer.asked == "init":
            self.generations[where] += 1
            producer.generation = self.generations[where]
            producer.identity = (answer.producer_id, answer.epoch)
            return
        assert producer.generation == self.generations[where], f"{producer.name} is fenced and was told NONE"
        if producer.asked == "add":
            producer.added.add(producer.asked_about)
            return
        decided = producer.asked_about
        assert self.decisions.setdefault(producer.transaction, decided) == decided
        if producer.version >= 2:
            producer.identity = (answer.producer_id, answer.epoch)
        producer.ending, producer.transaction, producer.added = None, 0, set()

    # ---- what befalls the coordinator ----

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write()

    def fail_disk(self) -> None:
        if self.harness.held:
            self.harness.fail()

    def markers(self) -> None:
        """Partitions write markers, some of them; some answers are lost."""
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
            code = self.partitions[partition].mark(sent)
            assert code is ErrorCode.NONE, f"{partition} refuses {sent}: {code.name}"
            results.setdefault(partition, code)
        self.harness.take(self.harness.machine.markers_written(sent, results, self.harness.now))

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 20, 100, 1_000, TIMEOUT_MS // 2]))

    def time_out(self) -> None:
        machine = self.harness.machine
        self.harness.take(machine.abort_timed_out(self.harness.now))
        if machine.wants_producer_id:
            self.harness.give_producer_id()
        if self.rng.random() < 0.1:
            self.harness.advance(self.harness.settings.id_expiration_ms)
            self.harness.take(machine.remove_expired(self.harness.now))

    def crash(self) -> None:
        """The broker dies: what was not written is gone, markers under way are written or not, nobody is told."""
        self.crashes += 1
        for sent in self.harness.sent:
            for partition in sent.partitions:
                if self.rng.random() < 0.5:
                    assert self.partitions[partition].mark(sent) is ErrorCode.NONE
        for producer in self.producers:
            producer.token = None
        self.harness.restart()

    # ---- what must always hold ----

    def check(self) -> None:
        self.check_log()
        for partition in self.partitions.values():
            for transaction, ends in partition.ended.items():
                assert len(ends) == 1, f"transaction {transaction} is committed and aborted in one partition"
        machine = self.harness.machine
        assert {t.transactional_id for t in machine.transactions.values() if t.state is TxnState.ONGOING} == set(
            machine.ongoing
        )
        if self.harness.held:
            return
        prepared = {t.transactional_id for t in machine.transactions.values() if t.state.is_prepared}
        assert prepared == set(machine.ending)
        assert self.last == self.durable(), "a restart would find something else"
        self.check_open()

    def durable(self) -> dict[str, Transaction]:
        found = self.harness.as_loaded()
        if self.version >= 1:
            return found
        return {key: replace(one, previous_producer_id=-1, client_version=0) for key, one in found.items()}

    def check_log(self) -> None:
        """Producer ids and epochs never go back, and a decision is never changed."""
        for key, value in self.harness.log[self.checked :]:
            transactional_id = records.id_of_key(key)
            before = self.last.pop(transactional_id, None)
            if value is None:
                if before is not None:
                    self.retired.add(before.producer_id)
                continue
            found = records.decode_value(transactional_id, value)
            assert found is not None
            assert found.producer_id not in self.retired, "a producer id is given out again"
            self.last[transactional_id] = found
            if before is None:
                continue
            if before.producer_id == found.producer_id:
                assert found.producer_epoch >= before.producer_epoch, "an epoch goes back"
            else:
                self.retired.add(before.producer_id)
            if before.state.is_prepared:
                assert found.state is TxnState(before.state + 2), f"{before.state.name}, then {found.state.name}"
        self.checked = len(self.harness.log)

    def check_open(self) -> None:
        """What is open in a partition is known to the coordinator, which will end it."""
        by_producer = {t.producer_id: t for t in self.harness.machine.transactions.values()}
        for partition, written in self.partitions.items():
            for producer_id in written.open:
                found = by_producer.get(producer_id)
                assert found is not None, f"producer {producer_id} hangs in {partition}"
                assert partition in found.partitions, f"producer {producer_id} hangs in {partition}"

    def finish(self) -> None:
        """Nothing fails any more: everything comes to an end, in all partitions the same."""
        harness = self.harness
        harness.restart()
        harness.hold = False
        harness.advance(2 * TIMEOUT_MS)
        for _ in range(20):
            self.time_out()
            while harness.sent:
                sent = harness.sent.pop()
                results = {partition: self.partitions[partition].mark(sent) for partition in sent.partitions}
                harness.take(harness.machine.markers_written(sent, results, harness.now))
            harness.advance(1_000)
        self.check()
        for transaction in harness.machine.transactions.values():
            assert transaction.state is TxnState.EMPTY or transaction.state.is_complete, transaction
        ends: dict[int, set[bool]] = {}
        for partition in self.partitions.values():
            assert not partition.open, "a transaction hangs"
            for number, found in partition.ended.items():
                ends.setdefault(number, set()).update(found)
        for number, found in ends.items():
            assert len(found) == 1, f"transaction {number} is committed in one partition and aborted in another"
            told = self.decisions.get(number)
            assert told in (None, *found), f"transaction {number} is {found}, and its producer was told {told}"


def _identity(producer: Producer) -> Any:
    from broker_cy.coordinator.txn.init import ProducerIdAndEpoch

    assert producer.identity is not None
    return ProducerIdAndEpoch(*producer.identity)


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_end_in_one_way_whatever_happens(seed: int) -> None:
    """Else: a transaction is committed in one partition and aborted in another, hangs, or two producers share one."""
    world = World(seed)
    for number in range(STEPS):
        try:
            world.step()
        except AssertionError as error:
            raise AssertionError(_replay(seed, f"step {number}", error)) from error
    try:
        world.finish()
    except AssertionError as error:
        raise AssertionError(_replay(seed, "the end", error)) from error
    print(f"{STEPS} steps, {len(world.harness.log)} records, {world.crashes} crashes")
    assert len(world.decisions) > 20, "the run was idle"
    assert set(world.decisions.values()) == {True, False}, "the run was idle"


def _replay(seed: int, where: str, error: AssertionError) -> str:
    command = f"TXN_SIM_SEED={seed} python -m pytest tests/sim/test_txn_simulation.py"
    return f"seed {seed}, {where}: {error}\nagain with: {command}"
