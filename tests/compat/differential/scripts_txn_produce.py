"""Produce of transactional producers: the responses to one that is fenced, unknown, out of sequence or too late."""

from __future__ import annotations

from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import batch, fetch, part, produce
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.transactions import (
    ADD_VERSION,
    BATCHED,
    BUMPS,
    END_VERSION,
    INIT_VERSION,
    Producer,
    Transactions,
)
from tests.support.wait import until

TRANSACTIONAL = 0x10
# From this version on a Produce request adds its partitions itself (KIP-890).
ADDS = 12
# Long enough for the steps of the transaction before it times out.
SHORT_MS = 1_500


class Writer:
    """A transactional producer that uses `version` of Produce, and the corresponding versions of the other APIs."""

    def __init__(self, run: Run, version: int, topic: str, suffix: str = "", producer: Producer | None = None) -> None:
        self.run, self.version, self.topic = run, version, topic
        self.adds = version >= ADDS
        self.own = Transactions(run, suffix)
        self.id, self.epoch = producer or self.own.producer()

    def records(self, sequence: int, *, epoch: int = 0, who: int = 0, plain: bool = False, count: int = 1) -> bytes:
        """Make a batch; `epoch` and `who` are relative to those of the producer."""
        return batch(
            *[b"x"] * count,
            producer_id=self.id + who,
            producer_epoch=self.epoch + epoch,
            base_sequence=sequence,
            attributes=0 if plain else TRANSACTIONAL,
        )

    def begin(self, *partitions: int) -> None:
        """Begin a transaction as a producer of that version does."""
        if not self.adds:
            self.own.added((self.id, self.epoch), *((self.topic, index) for index in partitions), version=ADD_VERSION)

    def send(
        self, label: str, parts: dict[int, bytes], transactional_id: str | None = "own", acks: int = -1, **how: Any
    ) -> None:
        if transactional_id == "own":
            transactional_id = self.own.id
        request = produce(self.run, self.version, {self.topic: parts}, transactional_id=transactional_id, acks=acks)
        self.run.ask(label, request, self.version, **how)

    def end(self, commit: bool) -> None:
        """End the transaction and wait for its markers; the producer continues with the id and epoch it got."""
        producer = self.own.ended((self.id, self.epoch), commit, BUMPS if self.adds else END_VERSION)
        self.id, self.epoch = producer


def described(run: Run, own: Transactions) -> Any:
    """Return the coordinator's description of a transaction, without times."""
    found = own.settle()
    found.topics.sort(key=lambda topic: topic.topic)
    for topic in found.topics:
        topic.partitions.sort()
    found.transaction_start_time_ms = min(found.transaction_start_time_ms, 1)
    return found


@script(ApiKey.PRODUCE, broker="transactions")
def produce_before_transaction(run: Run, version: int) -> None:
    """Batches whose producer has not begun a transaction, or has no producer id."""
    topic = run.topic(partitions=10)
    writer = Writer(run, version, topic)
    other = Writer(run, version, topic, "-other")
    at = iter(range(10))

    def send(label: str, data: bytes, transactional_id: str | None = "own") -> None:
        writer.send(label, {next(at): data}, transactional_id)

    send("no transactional id", writer.records(0), None)
    send("empty transactional id", writer.records(0), "")
    send("an id that nobody knows", writer.records(0), "nobody")
    send("another's transactional id", writer.records(0), other.own.id)
    send("another producer id", writer.records(0, who=10_000))
    send("an older epoch", writer.records(0, epoch=-1))
    send("a newer epoch", writer.records(0, epoch=1))
    run.record("nothing was begun", described(run, writer.own))
    send("not added", writer.records(0))
    send("not added, sequence 5", writer.records(5))
    run.record("what was begun", described(run, writer.own))
    nobody = batch(b"x", attributes=TRANSACTIONAL)
    writer.send("no producer id", {9: nobody})
    writer.send("plain batch with a transactional id", {9: batch(b"y")})
    run.ask("what was written", fetch(run, 12, {topic: [part(i) for i in range(10)]}), 12)


@script(ApiKey.PRODUCE, broker="transactions")
def produce_in_transaction(run: Run, version: int) -> None:
    topic = run.topic(partitions=12)
    writer = Writer(run, version, topic)
    other = Writer(run, version, topic, "-other")
    writer.begin(0)
    writer.send("first", {0: writer.records(0)})
    writer.send("first again", {0: writer.records(0)})
    writer.send("next", {0: writer.records(1, count=2)})
    writer.send("next again", {0: writer.records(1, count=2)})
    writer.send("a part of it", {0: writer.records(1)})
    writer.send("a gap", {0: writer.records(5)})
    writer.send("an older epoch", {0: writer.records(3, epoch=-1)})
    writer.send("a newer epoch", {0: writer.records(0, epoch=1)})
    writer.send("a newer epoch, sequence 3", {0: writer.records(3, epoch=1)})
    writer.send("another producer id", {0: writer.records(0, who=10_000)})
    writer.send("another's transactional id", {0: writer.records(3)}, other.own.id)
    writer.send("no transactional id", {0: writer.records(3)}, None)
    writer.send("plain in the transaction", {0: writer.records(4 if writer.adds else 3, plain=True)})
    writer.send("plain and next in the transaction", {0: writer.records(4, plain=True)})
    writer.send("plain of another producer", {0: other.records(0, plain=True)})
    writer.send("plain where nothing is open", {1: writer.records(0, plain=True)})
    writer.send("plain where nothing is open, sequence 5", {2: writer.records(5, plain=True)})
    writer.begin(1, 2)
    writer.send("transactional behind plain", {1: writer.records(1)})
    writer.send("transactional behind plain, a gap", {2: writer.records(8)})
    writer.begin(3, 4)
    writer.send("first with sequence 5", {3: writer.records(5)})
    writer.send("sequence 6", {3: writer.records(6)})
    writer.send("sequence 4", {3: writer.records(4)})
    writer.send("one added, one not, one unknown", {4: writer.records(0), 5: writer.records(0), 99: writer.records(0)})
    writer.send("transactional and plain", {4: writer.records(1), 6: batch(b"p")})
    writer.send("transactional and plain, of two", {4: writer.records(2), 6: other.records(0, plain=True)})
    writer.send("two producers", {4: writer.records(3), 6: other.records(0)})
    writer.send("two epochs", {4: writer.records(3), 6: writer.records(0, epoch=-1)})
    writer.send("one good, one with a gap", {4: writer.records(3), 0: writer.records(9)})
    writer.send("bad checksum", {7: batch(b"x", crc=7, attributes=TRANSACTIONAL, producer_id=writer.id)})
    writer.send("control batch", {7: batch(b"x", producer_id=writer.id, producer_epoch=writer.epoch, attributes=0x30)})
    writer.send("internal topic", {0: writer.records(3)}, acks=2)
    writer.begin(8)
    writer.send("acks 1", {8: writer.records(0)}, acks=1)
    run.record("described", described(run, writer.own))
    run.ask("what was written", fetch(run, 12, {topic: [part(i) for i in range(9)]}), 12)
    run.ask("what is decided", fetch(run, 12, {topic: [part(i) for i in range(9)]}, isolation_level=1), 12)


@script(ApiKey.PRODUCE, broker="transactions")
def produce_after_transaction(run: Run, version: int) -> None:
    """Late batches, and the beginning of the next transaction."""
    topic = run.topic(partitions=8)
    for at, commit in ((0, True), (4, False)):
        what = "committed" if commit else "aborted"
        writer = Writer(run, version, topic, f"-{what}")
        writer.begin(at, at + 1)
        writer.send(f"{what}: in it", {at: writer.records(0), at + 1: writer.records(0)})
        before = writer.id, writer.epoch
        writer.end(commit)
        late = Writer(run, version, topic, f"-{what}", before)
        late.send(f"{what}: late", {at: late.records(1)})
        late.send(f"{what}: late, from the beginning", {at: late.records(0)})
        late.send(f"{what}: late, where nothing was", {at + 2: late.records(0)})
        late.send(f"{what}: late and plain", {at: late.records(1, plain=True)})
        start = 0 if writer.adds else 1
        writer.begin(at, at + 1)
        writer.send(f"{what}: goes on with a gap", {at: writer.records(start + 3)})
        writer.send(f"{what}: goes on", {at: writer.records(start)})
        writer.send(f"{what}: goes on again", {at: writer.records(start)})
        late.send(f"{what}: late, next one open", {at + 1: late.records(1)})
        run.record(f"{what}: described", described(run, writer.own))
    run.ask("what was written", fetch(run, 12, {topic: [part(i) for i in range(8)]}), 12)


@script(ApiKey.PRODUCE, broker="transactions")
def produce_fenced(run: Run, version: int) -> None:
    """A successor has started and aborted the open transaction."""
    topic = run.topic(partitions=6)
    writer = Writer(run, version, topic)
    writer.begin(0, 1)
    writer.send("in it", {0: writer.records(0), 1: writer.records(0)})
    successor = Writer(run, version, topic)
    writer.send("fenced", {0: writer.records(1)})
    writer.send("fenced, from the beginning", {0: writer.records(0)})
    writer.send("fenced, where nothing was", {2: writer.records(0)})
    writer.send("fenced, plain", {0: writer.records(1, plain=True)})
    successor.begin(0, 3)
    successor.send("successor, sequence 1", {0: successor.records(1)})
    successor.send("successor", {0: successor.records(0)})
    successor.send("successor, where nothing was", {3: successor.records(0)})
    writer.send("fenced, successor's is open", {0: writer.records(1)})
    writer.send("fenced, successor's is open, where nothing was", {4: writer.records(0)})
    successor.end(True)
    run.ask("what was written", fetch(run, 12, {topic: [part(i) for i in range(6)]}), 12)


@script(ApiKey.PRODUCE, broker="transactions", versions=(3, 11, 12, 13))
def produce_timed_out(run: Run, version: int) -> None:
    topic = run.topic(partitions=3)
    own = Transactions(run)
    own.producer()
    writer = Writer(run, version, topic, producer=hasty(own))
    writer.begin(0)
    writer.send("in time", {0: writer.records(0)})
    aborted(own)
    writer.send("late", {0: writer.records(1)})
    writer.send("late, from the beginning", {0: writer.records(0)})
    writer.send("late, where nothing was", {1: writer.records(0)})
    writer.send("late, plain", {0: writer.records(1, plain=True)})
    run.record("described", described(run, own))
    again = Writer(run, version, topic)
    again.begin(0, 2)
    again.send("begun again", {0: again.records(0), 2: again.records(0)})
    run.ask("what was written", fetch(run, 12, {topic: [part(i) for i in range(3)]}), 12)


@script(ApiKey.PRODUCE, broker="transactions", versions=(3, 11, 12, 13))
def produce_transactional_unacknowledged(run: Run, version: int) -> None:
    """acks=0 has no response: an error closes the connection."""
    topic = run.topic(partitions=3)
    writer = Writer(run, version, topic)
    writer.begin(0)

    def send(label: str, partition: int, data: bytes, transactional_id: str | None) -> None:
        request = produce(run, version, {topic: {partition: data}}, acks=0, transactional_id=transactional_id)
        run.client(label).send(request, version, answered=False)
        run.send(messages.DescribeTransactionsRequest(transactional_ids=[]), 0, label)
        run.receive(label, label)

    send("added", 0, writer.records(0), writer.own.id)
    send("not added", 1, writer.records(0), writer.own.id)
    send("no transactional id", 2, writer.records(0), None)
    send("another's", 2, writer.records(0), "nobody")


def hasty(own: Transactions) -> Producer:
    """A producer whose transactions time out soon."""

    def begun() -> Any:
        answer = own.run.quietly(own.init(timeout_ms=SHORT_MS), INIT_VERSION)
        return answer if answer.error_code == 0 else None

    answer = until(begun, "a producer id", PATIENCE_S)
    return answer.producer_id, answer.producer_epoch


def aborted(own: Transactions) -> None:
    """Wait until the coordinator has aborted a transaction."""

    def is_aborted() -> bool:
        return bool(own.settle().transaction_state == "CompleteAbort")

    until(is_aborted, "the transaction to time out", PATIENCE_S)


@script(ApiKey.END_TXN, broker="transactions")
def timed_out(run: Run, version: int) -> None:
    """The responses to a producer whose transaction timed out, for each API that it may call next."""
    topic = run.topic(partitions=2)
    add_version = BUMPS if version >= BUMPS else ADD_VERSION
    waiting: list[tuple[str, Transactions, Producer]] = []
    steps = ("commits", "aborts", "adds", "adds offsets", "begins", "begins with its epoch")
    for step in steps:
        own = Transactions(run, f"-{step}")
        own.producer()
        producer = hasty(own)
        own.added(producer, (topic, 0), version=add_version)
        waiting.append((step, own, producer))
    for step, own, producer in waiting:
        aborted(own)
        if step in ("commits", "aborts"):
            run.ask(step, own.end(producer, step == "commits"), version)
            run.ask(f"{step} again", own.end(producer, step == "commits"), version)
        elif step == "adds":
            run.ask(step, own.add(producer, (topic, 1), version=add_version), add_version)
            if add_version >= BATCHED:
                run.ask("verifies", own.add(producer, (topic, 0), version=add_version, verify=True), add_version)
        elif step == "adds offsets":
            request = messages.AddOffsetsToTxnRequest(
                transactional_id=own.id, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
            )
            run.ask(step, request, 4)
        elif step == "begins":
            run.ask(step, own.init(), INIT_VERSION)
        elif step == "begins with its epoch":
            run.ask(step, own.init(producer), INIT_VERSION)
            run.ask(f"{step} again", own.init(producer), INIT_VERSION)
        found = own.settle()
        run.names.give_number("producer_id", f"producer that {step}", found.producer_id)
        run.record(f"{step}: described", described(run, own))
