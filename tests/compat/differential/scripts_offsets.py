"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs, InitProducerId."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import (
    TIME_MS,
    batch,
    delete_records,
    fetch,
    list_offsets,
    part,
    put,
)
from tests.compat.differential.script import Run, script
from tests.support.wait import until

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_COMMITTED = 1


def _timed(run: Run) -> str:
    """Partition 0: offsets 0; 1, 2; 3; 4 at 0; 10, 11; 5; 30 ms. Partition 1 is empty."""
    name = run.topic(partitions=3)
    put(
        run,
        name,
        0,
        batch(b"a"),
        batch(b"b", b"c", time_ms=TIME_MS + 10),
        batch(b"d", time_ms=TIME_MS + 5),
        batch(b"e", time_ms=TIME_MS + 30),
    )
    return name


@script(ApiKey.LIST_OFFSETS)
def list_offsets_by_time(run: Run, version: int) -> None:
    name = _timed(run)
    stamped = run.topic("-stamped", message_timestamp_type="LogAppendTime")
    put(run, stamped, 0, batch(b"a", b"b"))
    began = time.time()
    until(lambda: time.time() > began + 0.003, "another millisecond")
    put(run, stamped, 0, batch(b"c"))

    def ask(label: str, *parts: Any, topic: str = name, **how: int) -> None:
        run.ask(label, list_offsets({topic: parts}, **how), version)

    for timestamp in range(-8, 1):
        ask(f"time {timestamp}", (0, timestamp), (1, timestamp))
    for later in (-1, 0, 1, 5, 6, 10, 11, 12, 29, 30, 31, 10**6):
        ask(f"time +{later}", (0, TIME_MS + later))
    ask("largest time there is", (0, 2**63 - 1))
    ask("append time: 1", (0, 1), topic=stamped)
    ask("append time: largest", (0, MAX_TIMESTAMP), topic=stamped)
    put(run, name, 2, batch(b"-", time_ms=-1))
    ask("records without a time", (2, 0), (2, TIME_MS))
    ask("records without a time: largest", (2, MAX_TIMESTAMP))
    put(run, name, 2, batch(b"x", b"y", b"z", time_ms=TIME_MS), batch(b"z", time_ms=TIME_MS + 2))
    ask("largest time twice", (2, MAX_TIMESTAMP))
    ask("time of two batches", (2, TIME_MS + 2))
    assert run.quietly(delete_records({name: [(0, 2)]}), 2).topics[0].partitions[0].low_watermark == 2
    ask("after deleting: earliest", (0, EARLIEST))
    ask("after deleting: local earliest", (0, -4))
    ask("after deleting: time 0", (0, 0))
    ask("after deleting: +10", (0, TIME_MS + 10))
    ask("after deleting: largest", (0, MAX_TIMESTAMP))
    assert run.quietly(delete_records({name: [(0, -1)]}), 2).topics[0].partitions[0].low_watermark == 5
    ask("after deleting all: earliest", (0, EARLIEST))
    ask("after deleting all: time 0", (0, 0))
    ask("after deleting all: largest", (0, MAX_TIMESTAMP))


@script(ApiKey.LIST_OFFSETS)
def list_offsets_largest_left(run: Run, version: int) -> None:
    """The record with the largest timestamp is deleted; also within a batch."""
    name = run.topic(partitions=2)
    put(run, name, 0, *(batch(b"v", time_ms=TIME_MS + more) for more in (9, 4, 5)))
    put(run, name, 1, batch(b"a", b"b", b"c", time_ms=TIME_MS), batch(b"d", time_ms=TIME_MS - 5))
    run.ask("before", list_offsets({name: [(0, MAX_TIMESTAMP), (1, MAX_TIMESTAMP)]}), version)
    for index, start in ((0, 1), (1, 1), (1, 3)):
        deleted = run.quietly(delete_records({name: [(index, start)]}), 2)
        assert deleted.topics[0].partitions[0].low_watermark == start
        run.ask(f"{index} from {start}", list_offsets({name: [(index, MAX_TIMESTAMP)]}), version)


@script(ApiKey.LIST_OFFSETS)
def list_offsets_asked(run: Run, version: int) -> None:
    name = _timed(run)

    def ask(label: str, topics: object, **how: int) -> None:
        run.ask(label, list_offsets(topics, **how), version)  # type: ignore[arg-type]

    ask("no topics", {})
    ask("no partitions", {name: []})
    ask("unknown topic", {"no-such-topic": [(0, LATEST)]})
    ask("name that is not allowed", {"a b": [(0, LATEST)]})
    ask("unknown partition", {name: [(7, LATEST), (-1, LATEST), (0, LATEST)]})
    ask("known and unknown topic", {"no-such-topic": [(0, LATEST)], name: [(0, EARLIEST)]})
    ask("partition twice", {name: [(0, LATEST), (1, LATEST), (0, EARLIEST)]})
    ask("partition twice alike", {name: [(0, LATEST), (0, LATEST)]})
    ask("unknown partition twice", {name: [(9, LATEST), (9, LATEST)]})
    ask("internal topic", {"__consumer_offsets": [(0, EARLIEST)]})
    ask("current epoch 0", {name: [(0, LATEST, 0), (1, EARLIEST, 0), (0, TIME_MS, 0)]})
    ask("current epoch 0, once each", {name: [(0, TIME_MS, 0), (1, EARLIEST, 0)]})
    ask("current epoch 1", {name: [(0, LATEST, 1)]})
    ask("current epoch -2", {name: [(0, LATEST, -2)]})
    ask("unknown time, unknown epoch", {name: [(0, -9, 1)]})
    ask("unknown time, unknown partition", {name: [(9, -9)]})
    for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, TIME_MS, TIME_MS + 30):
        ask(f"read committed {timestamp}", {name: [(0, timestamp)]}, isolation_level=READ_COMMITTED)
    ask("unknown isolation level", {name: [(0, LATEST)]}, isolation_level=9)
    for replica in (-2, 1, 7):
        ask(f"replica {replica}", {name: [(0, LATEST)]}, replica_id=replica)
    ask("timeout", {name: [(0, LATEST)]}, timeout_ms=0)


@script(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def epoch_ends(run: Run, version: int) -> None:
    name = _timed(run)
    request = messages.OffsetForLeaderEpochRequest

    def ask(label: str, topic: str, parts: Sequence[tuple[int, int, int]], replica: int = -2) -> None:
        asked = [
            request.OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
            for index, epoch, current in parts
        ]
        topics = [request.OffsetForLeaderTopic(topic=topic, partitions=asked)]
        run.ask(label, request(topics=topics, replica_id=replica), version)

    for epoch in (-2, -1, 0, 1, 7):
        ask(f"epoch {epoch}", name, [(0, epoch, -1), (1, epoch, -1)])
    for current in (-2, 0, 1):
        ask(f"current epoch {current}", name, [(0, 0, current)])
    ask("unknown partition", name, [(9, 0, -1), (-1, 0, -1), (0, 0, -1)])
    ask("unknown topic", "no-such-topic", [(0, 0, -1)])
    ask("name that is not allowed", "a b", [(0, 0, -1)])
    ask("partition twice", name, [(0, 0, -1), (0, 1, -1)])
    ask("no partitions", name, [])
    for replica in (-1, 1, 7):
        ask(f"replica {replica}", name, [(0, 0, -1)], replica)
    run.ask("no topics", request(topics=[]), version)


@script(ApiKey.DELETE_RECORDS)
def delete_records_before(run: Run, version: int) -> None:
    name = _timed(run)
    compacted = run.topic("-compacted", cleanup_policy="compact")
    both = run.topic("-both", cleanup_policy="compact,delete")
    none = run.topic("-none", cleanup_policy="")
    for topic in (compacted, both, none):
        put(run, topic, 0, batch(b"a"), batch(b"b"))

    def ask(label: str, topics: object) -> None:
        run.ask(label, delete_records(topics), version)  # type: ignore[arg-type]

    ask("before 1", {name: [(0, 1)]})
    ask("before 1 again", {name: [(0, 1)]})
    ask("inside of a batch", {name: [(0, 2)]})
    ask("before an earlier one", {name: [(0, 0)]})
    ask("beyond the end", {name: [(0, 6)]})
    ask("offset -2", {name: [(0, -2)]})
    ask("far beyond", {name: [(0, 2**63 - 1)]})
    run.ask("what is left", fetch(run, 12, {name: [part(0, 2)]}), 12)
    run.ask("what is gone", fetch(run, 12, {name: [part(0, 1)]}), 12)
    ask("all", {name: [(0, -1)]})
    ask("all of nothing", {name: [(1, -1)]})
    ask("0 of nothing", {name: [(1, 0)]})
    ask("1 of nothing", {name: [(1, 1)]})
    ask("up to the end", {both: [(0, 2)]})
    ask("compacted", {compacted: [(0, 1)]})
    ask("neither deleted nor compacted", {none: [(0, 1)]})
    ask("internal topic", {"__consumer_offsets": [(0, 0)]})
    ask("unknown partition", {name: [(9, 0), (-1, 0)]})
    ask("unknown topic", {"no-such-topic": [(0, 0), (1, 0)]})
    ask("name that is not allowed", {"a b": [(0, 0)]})
    ask("some of each", {"no-such-topic": [(0, 0)], both: [(0, -1)], name: [(0, 9)]})
    ask("no topics", {})
    ask("no partitions", {name: []})
    ask("partition twice", {name: [(2, 0), (2, -1)]})
    run.ask(
        "where they start",
        list_offsets({topic: [(0, EARLIEST), (1, EARLIEST)] for topic in (name, both, compacted)}),
        7,
    )


@script(ApiKey.DESCRIBE_LOG_DIRS)
def log_dirs(run: Run, version: int) -> None:
    name = run.topic(partitions=3)
    put(run, name, 1, batch(bytes(500)))
    request = messages.DescribeLogDirsRequest

    def ask(label: str, topics: dict[str, list[int]] | None) -> None:
        asked = (
            None
            if topics is None
            else [request.DescribableLogDirTopic(topic=t, partitions=p) for t, p in topics.items()]
        )
        run.client().send(request(topics=asked), version)
        answer = run.client().receive()
        assert not isinstance(answer, str)
        for result in answer.results:
            run.names.give("log dir", result.log_dir)
            # Other scripts also create topics.
            result.topics = [topic for topic in result.topics if topic.name == name]
        run.record(label, answer)

    ask("all", None)
    ask("some", {name: [0, 1]})
    ask("unknown", {name: [9], "no-such-topic": [0]})
    ask("none", {})
    ask("topic without partitions", {name: []})
    ask("partition twice", {name: [1, 1]})


@script(ApiKey.INIT_PRODUCER_ID)
def producer_ids(run: Run, version: int) -> None:
    request = messages.InitProducerIdRequest
    seen: set[int] = set()

    def ask(label: str, transactional_id: str | None = None, timeout_ms: int = 1000, **fields: Any) -> None:
        asked = request(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **fields)
        if not run.offer(label, asked, version):
            return
        answer = run.answer(label)
        assert not isinstance(answer, str)
        if answer.error_code == 0:
            assert answer.producer_id >= 0
            assert answer.producer_id not in seen
            seen.add(answer.producer_id)
            run.names.give_number("producer_id", "new", answer.producer_id)
        run.record(label, answer)

    ask("one")
    ask("another")
    ask("timeout 0", timeout_ms=0)
    ask("timeout negative", timeout_ms=-5)
    ask("with id and epoch", producer_id=4000, producer_epoch=3)
    ask("with id, no epoch", producer_id=4000)
    ask("with epoch, no id", producer_epoch=3)
    ask("negative id and epoch", producer_id=-4, producer_epoch=-7)
    ask("empty transactional id", transactional_id="")
    ask("empty transactional id, bad pair", transactional_id="", producer_id=4)
