"""Produce."""

from __future__ import annotations

from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import TIME_MS, batch, fetch, list_offsets, part, produce
from tests.compat.differential.script import Run, script

LATEST = -1
SEQUENCE_MAX = 2**31 - 1


@script(ApiKey.PRODUCE)
def produce_plain(run: Run, version: int) -> None:
    name = run.topic(partitions=2)
    stamped = run.topic("-stamped", message_timestamp_type="LogAppendTime")
    small = run.topic("-small", max_message_bytes="200")
    insync = run.topic("-insync", min_insync_replicas="2")

    def send(label: str, topics: object, **how: object) -> None:
        run.ask(label, produce(run, version, topics, **how), version)  # type: ignore[arg-type]

    send("one record", {name: {0: batch(b"a")}})
    send("two partitions", {name: {0: batch(b"b", b"c"), 1: batch(b"d")}})
    send("two topics", {name: {1: batch(b"e")}, stamped: {0: batch(b"f")}})
    send("acks 1", {name: {0: batch(b"g")}}, acks=1)
    send("acks 2", {name: {0: batch(b"-")}}, acks=2)
    send("acks -2", {name: {0: batch(b"-")}, "no-such-topic": {0: batch(b"-")}}, acks=-2)
    send("unknown topic", {"no-such-topic": {0: batch(b"-")}})
    send("unknown partition", {name: {9: batch(b"-")}})
    send("negative partition", {name: {-1: batch(b"-")}})
    send("known and unknown partition", {name: {0: batch(b"h"), 7: batch(b"-")}})
    send("topic name that is not allowed", {"a b": {0: batch(b"-")}})
    send("internal topic", {"__consumer_offsets": {0: batch(b"-")}})
    # Null records are not tested: Kafka fails on them and never answers.
    send("no records", {name: {0: b""}})
    send("no topics", {})
    send("topic without partitions", {name: {}})
    send("too large", {small: {0: batch(bytes(300))}})
    send("one too large, one not", {small: {0: batch(bytes(300))}, name: {0: batch(b"m")}})
    send("two batches", {name: {0: batch(b"-") + batch(b"-")}})
    send("bad checksum", {name: {0: batch(b"-", crc=7)}})
    send("magic 1", {name: {0: batch(b"-", magic=1)}})
    send("count that lies", {name: {0: batch(b"-", b"-", count=7)}})
    send("last offset delta that lies", {name: {0: batch(b"-", b"-", last_offset_delta=5)}})
    send("control batch", {name: {0: batch(b"-", attributes=0x20)}})
    send("append time from the producer", {stamped: {0: batch(b"-", attributes=8)}})
    send("far future", {name: {0: batch(b"-", time_ms=TIME_MS * 2)}})
    send("too few replicas", {insync: {0: batch(b"-")}})
    send("too few replicas, acks 1", {insync: {0: batch(b"n")}}, acks=1)
    run.ask("what is there", list_offsets({name: [(0, LATEST), (1, LATEST)]}), 7)
    run.ask("what was written", fetch(run, 12, {name: [part(0), part(1)]}), 12)
    run.ask("what was stamped", fetch(run, 12, {stamped: [part(0)]}), 12)


@script(ApiKey.PRODUCE)
def produce_twice(run: Run, version: int) -> None:
    """A partition that a request names more than once."""
    name = run.topic()
    twice = [(name, [(0, batch(b"a")), (0, batch(b"b"))])]
    run.ask("partition twice", produce(run, version, twice), version)
    twice = [(name, [(0, batch(b"c"))]), (name, [(0, batch(b"d"))])]
    run.ask("topic twice", produce(run, version, twice), version)


@script(ApiKey.PRODUCE)
def produce_unacknowledged(run: Run, version: int) -> None:
    """acks=0 has no response: an error closes the connection, which shows in the next request."""
    name = run.topic()

    def send(label: str, topics: object) -> None:
        request = produce(run, version, topics, acks=0)  # type: ignore[arg-type]
        run.client(label).send(request, version, answered=False)
        run.send(list_offsets({name: [(0, LATEST)]}), 7, label)
        run.receive(label, label)

    send("one record", {name: {0: batch(b"a")}})
    send("unknown partition", {name: {5: batch(b"b")}})
    send("bad checksum", {name: {0: batch(b"c", crc=1)}})
    send("no records", {name: {0: b""}})
    send("good and bad", {name: {0: batch(b"d"), 5: batch(b"e")}})
    send("no topics", {})


@script(ApiKey.PRODUCE)
def produce_idempotent(run: Run, version: int) -> None:
    name = run.topic(partitions=8)
    producers = [run.producer_id(f"producer {at}") for at in range(3)]

    def send(label: str, partition: int, producer: int, epoch: int, sequence: int, count: int = 1) -> None:
        data = batch(*[b"x"] * count, producer_id=producers[producer], producer_epoch=epoch, base_sequence=sequence)
        run.ask(f"{partition}: {label}", produce(run, version, {name: {partition: data}}), version)

    for sequence in range(7):
        send(f"sequence {sequence}", 0, 0, 0, sequence)
    for sequence in reversed(range(7)):
        send(f"sequence {sequence} again", 0, 0, 0, sequence)
    send("sequence 9, 7 is next", 0, 0, 0, 9)
    send("sequence 7", 0, 0, 0, 7)
    send("sequence -1", 0, 0, 0, -1)
    send("sequence -5", 0, 0, 0, -5)

    send("three records", 1, 0, 0, 0, 3)
    send("three records again", 1, 0, 0, 0, 3)
    send("the first two of them", 1, 0, 0, 0, 2)
    send("the last two of them", 1, 0, 0, 1, 2)
    send("the last one and one more", 1, 0, 0, 2, 2)
    send("sequence 3", 1, 0, 0, 3, 2)
    send("both at once", 1, 0, 0, 0, 5)

    send("epoch 0", 2, 0, 0, 0)
    send("epoch 1 starts at sequence 3", 2, 0, 1, 3)
    send("epoch 1 goes on with sequence 1", 2, 0, 1, 1)
    send("epoch 1", 2, 0, 1, 0)
    send("epoch 1 again", 2, 0, 1, 0)
    send("epoch 0 again", 2, 0, 0, 0)
    send("epoch 0 goes on", 2, 0, 0, 1)
    send("epoch 1 goes on", 2, 0, 1, 1)
    send("epoch 5", 2, 0, 5, 0)
    send("epoch -1", 2, 0, -1, 0)

    send("unknown producer at sequence 5", 3, 1, 0, 5)
    send("goes on", 3, 1, 0, 6)
    send("before its first", 3, 1, 0, 4)

    send("up to the last sequence", 4, 1, 0, SEQUENCE_MAX - 2, 3)
    send("goes on at 0", 4, 1, 0, 0)
    send("the last again", 4, 1, 0, SEQUENCE_MAX - 2, 3)
    send("past the end", 5, 1, 0, SEQUENCE_MAX - 1, 4)
    send("past the end again", 5, 1, 0, SEQUENCE_MAX - 1, 4)
    send("goes on at 2", 5, 1, 0, 2)
    send("goes on at 4, 3 is next", 5, 1, 0, 4)

    send("two producers: one", 6, 1, 0, 0)
    send("two producers: the other", 6, 2, 0, 0)
    send("two producers: one again", 6, 1, 0, 0)

    good = batch(b"y", producer_id=producers[2], producer_epoch=0, base_sequence=0)
    bad = batch(b"y", producer_id=producers[2], producer_epoch=0, base_sequence=8)
    run.ask("7: in one request", produce(run, version, {name: {7: good, 6: bad}}), version)
    run.ask("7: with acks 1", produce(run, version, {name: {7: good}}, acks=1), version)
    run.ask("what was written", fetch(run, 12, {name: [part(i) for i in range(8)]}), 12)


@script(ApiKey.PRODUCE)
def produce_idempotent_stamped(run: Run, version: int) -> None:
    """Duplicates in a topic with LogAppendTime are answered with the time of the first."""
    name = run.topic(message_timestamp_type="LogAppendTime")
    producer_id = run.producer_id()
    data = batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    for label in ("first", "again"):
        run.ask(label, produce(run, version, {name: {0: data}}), version)
