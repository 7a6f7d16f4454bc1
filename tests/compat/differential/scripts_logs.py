"""Logs of several segments, compressed batches, fetches that wait, and pipelined requests."""

from __future__ import annotations

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
    produce,
    put,
)
from tests.compat.differential.script import Run, script
from tests.compat.differential.scripts_group_offsets import commit, committed
from tests.support.raw_wire import RawBatch, RawRecord

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_COMMITTED = 1
# Longer than any wait of a script.
LONG_MS = 9_000
# Three records, 0, 10 and 20 ms after the batch's time, with keys "k" and values of one letter 20 times.
COMPRESSED = {
    "gzip": (1, "1f8b08000000000000033363606060cad648c40218cc1844988072495800504e830528978c05300000f229cb0154000000"),
    "snappy": (
        2,
        "82534e4150505900000000010000000100000029541c36000000026b28614a0100200036001402026b28624a0100200036002804026b"
        "28634a01000000",
    ),
    "lz4": (
        3,
        "04224d186040822b0000008f36000000026b28610100009f0036001402026b28620100009b0036002804026b28630100506363636300"
        "00000000",
    ),
    "zstd": (4, "28b52ffd20541d0100d836000000026b28610036001402026b28620036002804026b28630003140010e77001"),
}


def compressed(codec: str, time_ms: int = TIME_MS) -> bytes:
    """Use fixed bytes, so that they do not depend on the version of a compression library."""
    attributes, payload = COMPRESSED[codec]
    records = [RawRecord(timestamp_delta=delta) for delta in (0, 10, 20)]
    return RawBatch(
        records=records, attributes=attributes, base_timestamp=time_ms, payload=bytes.fromhex(payload)
    ).encode()


@script(ApiKey.PRODUCE)
def produce_compressed(run: Run, version: int) -> None:
    name = run.topic()
    for codec in COMPRESSED:
        run.ask(codec, produce(run, version, {name: {0: compressed(codec)}}), version)
    run.ask("what was written", fetch(run, 12, {name: [part(0)]}), 12)


@script(ApiKey.FETCH)
def fetch_compressed(run: Run, version: int) -> None:
    name = run.topic()
    put(run, name, 0, *(compressed(codec, TIME_MS + 100 * at) for at, codec in enumerate(COMPRESSED)))
    for offset in (0, 1, 5, 8, 9, 11, 12):
        run.ask(f"from {offset}", fetch(run, version, {name: [part(0, offset)]}), version)
    run.ask("from 4, limit 1", fetch(run, version, {name: [part(0, 4, 1)]}), version)


@script(ApiKey.LIST_OFFSETS)
def list_offsets_compressed(run: Run, version: int) -> None:
    name = run.topic()
    put(run, name, 0, *(compressed(codec, TIME_MS + 100 * at) for at, codec in enumerate(COMPRESSED)))
    for later in (0, 1, 10, 11, 20, 21, 100, 115, 310, 320, 321):
        run.ask(f"time +{later}", list_offsets({name: [(0, TIME_MS + later)]}), version)
    run.ask("largest", list_offsets({name: [(0, MAX_TIMESTAMP)]}), version)


def _segmented(run: Run) -> str:
    """Segments from offset 0, 2 and 4 on; each but the last has two batches half a second apart."""
    name = run.topic(segment_ms="1000")
    put(run, name, 0, *(batch(bytes(50), time_ms=TIME_MS + later) for later in (0, 500, 2000, 2500, 4000)))
    return name


@script(ApiKey.FETCH)
def fetch_segments(run: Run, version: int) -> None:
    """A response never contains records from two segments of one partition."""
    name = _segmented(run)

    def ask(label: str, *parts: messages.FetchRequest.FetchPartition, **how: Any) -> None:
        run.ask(label, fetch(run, version, {name: parts}, **how), version)

    for offset in range(6):
        ask(f"from {offset}", part(0, offset))
    ask("from 1, waits for more", part(0, 1), min_bytes=10_000, max_wait_ms=20)
    ask("from 0, limit 1", part(0, 0, 1))
    assert run.quietly(delete_records({name: [(0, 3)]}), 2).topics[0].partitions[0].low_watermark == 3
    for offset in (1, 2, 3, 4):
        ask(f"from {offset} after deleting", part(0, offset))


@script(ApiKey.LIST_OFFSETS)
def list_offsets_segments(run: Run, version: int) -> None:
    name = _segmented(run)

    def ask(label: str, timestamp: int) -> None:
        run.ask(label, list_offsets({name: [(0, timestamp)]}), version)

    for later in (0, 1, 500, 501, 2000, 2001, 2500, 2600, 4000, 4001):
        ask(f"time +{later}", TIME_MS + later)
    ask("largest", MAX_TIMESTAMP)
    put(run, name, 0, batch(b"-", time_ms=TIME_MS + 3000))
    ask("largest, not the last", MAX_TIMESTAMP)
    ask("time +2600, not the last", TIME_MS + 2600)
    assert run.quietly(delete_records({name: [(0, 3)]}), 2).topics[0].partitions[0].low_watermark == 3
    for later in (0, 600, 2000, 2400, 3500):
        ask(f"time +{later} after deleting", TIME_MS + later)
    ask("earliest after deleting", EARLIEST)


@script(ApiKey.DESCRIBE_LOG_DIRS)
def log_dirs_segments(run: Run, version: int) -> None:
    """Segments below the log start offset do not count."""
    name = _segmented(run)
    request = messages.DescribeLogDirsRequest
    asked = request(topics=[request.DescribableLogDirTopic(topic=name, partitions=[0])])
    run.ask("all", asked, version)
    assert run.quietly(delete_records({name: [(0, 3)]}), 2).topics[0].partitions[0].low_watermark == 3
    run.ask("some deleted", asked, version)
    assert run.quietly(delete_records({name: [(0, -1)]}), 2).topics[0].partitions[0].low_watermark == 5
    run.ask("all deleted", asked, version)


@script(ApiKey.FETCH)
def fetch_that_waits(run: Run, version: int) -> None:
    name = run.topic(partitions=2)

    def wait(label: str, *parts: messages.FetchRequest.FetchPartition, **how: Any) -> None:
        run.send(fetch(run, version, {name: parts}, **{"max_wait_ms": LONG_MS, **how}), version, label)

    wait("one byte", part(0), min_bytes=1)
    put(run, name, 0, batch(b"a"))
    run.receive("one byte", "one byte")
    wait("two batches", part(0, 1), min_bytes=71)
    put(run, name, 0, batch(b"b"))
    put(run, name, 0, batch(b"c"))
    run.receive("two batches", "two batches")
    wait("either partition", part(0, 3), part(1), min_bytes=1)
    put(run, name, 1, batch(b"d"))
    run.receive("either partition", "either partition")
    wait("read committed", part(0, 3), min_bytes=1, isolation_level=READ_COMMITTED)
    put(run, name, 0, batch(b"e"))
    run.receive("read committed", "read committed")
    wait("behind a waiting one", part(0, 4), min_bytes=1)
    run.send(list_offsets({name: [(1, LATEST)]}), 7, "behind a waiting one")
    put(run, name, 0, batch(b"f"))
    run.receive("a waiting one", "behind a waiting one")
    run.receive("what came behind it", "behind a waiting one")


@script(ApiKey.PRODUCE)
def pipelined(run: Run, version: int) -> None:
    """Requests of one connection are handled in their order, as if each waited for the previous response."""
    name = run.topic()
    group = run.name

    def write(acks: int = -1) -> None:
        request = produce(run, version, {name: {0: batch(b"a")}}, acks=acks)
        run.client().send(request, version, answered=acks != 0)

    def end() -> None:
        run.send(list_offsets({name: [(0, LATEST)]}), 7)

    write()
    end()
    write(0)
    write(1)
    end()
    run.send(fetch(run, 12, {name: [part(0, 1)]}), 12)
    write(0)
    run.send(fetch(run, 12, {name: [part(0, 3)]}), 12)
    run.send(delete_records({name: [(0, -1)]}), 2)
    write()
    run.send(list_offsets({name: [(0, EARLIEST)]}), 7)
    for offset in (5, 6):
        run.send(commit(run, 9, group, {name: [(0, offset)]}), 9)
        run.send(committed(run, 9, group, None), 9)
    for label in (
        *("first", "end 1", "third", "end 3", "from 1", "from 3", "deleted", "last", "start 4"),
        *("commit 5", "committed 5", "commit 6", "committed 6"),
    ):
        run.receive(label)
