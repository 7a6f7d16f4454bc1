"""Events and samples as brokers write them, in the files of a stopped broker: clients cannot write to these topics.

An event is a record of `__cluster_events`. 98 of 100 events are `commits` of a consumer with OFFSETS partitions, one is
a `rebalance` with two triggers and six moves, and one is a `topic_created`. For each SAMPLE_EVENTS events there is a
sample in `__broker_metrics`, with twelve APIs in six phases each, ten topics and three connections.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from bench.targets.brokers import BrokerCy
from broker_cy.metrics import events, sample
from broker_cy.metrics.events import Client, Commits, Event, Move, Rebalance, Stamped, TopicCreated, Trigger
from broker_cy.metrics.sample import Api, Connection, Sample, Times, Topic
from broker_cy.storage.data_directory import CLEAN_SHUTDOWN
from broker_cy.wire.records import Record, decode_batches, encode_batch

OFFSETS = 4
SAMPLE_EVENTS = 50
# The time between two events: 50 a second, with one sample.
EVENT_MS = 20
# Events of a batch; SAMPLE_EVENTS is a multiple of it.
BATCH_EVENTS = 25
GROUPS = 40
BROKERS = 3
SEED = 1
APIS = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "SyncGroup", "ApiVersions", "InitProducerId",
)  # fmt: skip
PHASES = ("queue", "handler", "disk", "data", "send", "total")
TOPICS = (events.TOPIC, sample.TOPIC)
# While these are set, a broker adds nothing to the topics.
QUIET = {"brokercy.metrics.sample.interval.ms": "0", "brokercy.events.enable": "false"}
CHUNK_BYTES = 4 << 20


def rare_event(number: int, at_ms: int, source: random.Random) -> Event | None:
    """Return event `number`; None if it is a `commits` event."""
    group = f"consumers-of-service-{number % GROUPS}"
    if number % 100 == 98:
        triggers = [
            Trigger("join", f"consumer-{number}-1", None, "consumer-1", "/10.0.0.7"),
            Trigger("session_timeout", f"consumer-{number}-2", None, "consumer-2", "/10.0.0.8"),
        ]
        moves = [
            Move(f"orders-{number % 10}", part, f"consumer-{part}", f"consumer-{part + 1}", source.randrange(5000))
            for part in range(6)
        ]
        return Rebalance(
            group, number, "range", "stable", at_ms - 3000, 2000, 900, 3000, 4, 5, triggers, moves, 6, 18, 5000
        )
    if number % 100 == 99:
        return TopicCreated(f"orders-{number}", "0123456789012345678901", 12, 3, {"retention.ms": "86400000"}, Client())
    return None


def commits(number: int, at_ms: int, source: random.Random) -> tuple[bytes, bytes]:
    """Return key and value of a `commits` event, as `events.encode` would, which takes ten times as long."""
    group, topic = f"consumers-of-service-{number % GROUPS}", f"orders-{number % 10}"
    parts = []
    for part in range(OFFSETS):
        offset, lag, age_ms = (int(source.random() * most) for most in (1000, 500, 1000))
        offset += number * 1000
        parts.append(
            f'{{"topic":"{topic}","partition":{part},"offset":{offset},"commit_ms":{at_ms - age_ms},'
            f'"record_time_ms":{at_ms - lag},"end":{offset + lag},"completed":0}}'
        )
    head = f'"type":"{Commits.TYPE}","version":{Commits.VERSION},"time_ms":{at_ms},"broker":{1 + number % BROKERS}'
    return group.encode(), f'{{{head},"group":"{group}","offsets":[{",".join(parts)}]}}'.encode()


def one_sample(number: int, at_ms: int, source: random.Random) -> Sample:
    """Return sample `number`."""

    def times() -> Times:
        count = source.randrange(1, 5000)
        return Times(count, count * 300, source.randrange(300), source.randrange(3000), source.randrange(30_000))

    apis = {
        api: Api(source.randrange(5000), {}, source.randrange(10**7), source.randrange(10**7), phases)
        for api in APIS
        if (phases := {phase: times() for phase in PHASES})
    }
    topics = {
        f"orders-{each}": Topic(source.randrange(10**5), source.randrange(10**7), source.randrange(10**8))
        for each in range(10)
    }
    busy = [
        Connection(f"c-{each}", "consumer", "/10.0.0.7", "PLAINTEXT", 10**6, 100, 10**5, 10**6) for each in range(3)
    ]
    return Sample(
        time_ms=at_ms, broker=1 + number % BROKERS, interval_ms=1000, uptime_ms=number * 1000,
        cpu_us=source.randrange(10**6), resident_bytes=10**8, open_fds=300,
        disk_written_bytes=source.randrange(10**8), loop_lag=times(), connections=50, partitions=120, hot_reads=900,
        hot_bytes=10**7, sync_rounds=1, groups={"Stable": GROUPS}, members=120, disks={"/data": (10**11, 10**12)},
        apis=apis, topics=topics, busy=busy,
    )  # fmt: skip


def batches(count: int, start_ms: int) -> Iterator[tuple[str, list[Record]]]:
    """Yield the topic and the records of each batch that has `count` events, and the samples among them."""
    source = random.Random(SEED)
    for first in range(0, count, BATCH_EVENTS):
        at_ms = start_ms + first * EVENT_MS
        made = []
        for number in range(first, min(count, first + BATCH_EVENTS)):
            at_ms = start_ms + number * EVENT_MS
            rare = rare_event(number, at_ms, source)
            if rare is None:
                key, value = commits(number, at_ms, source)
            else:
                key, value = events.encode(Stamped(at_ms, 1 + number % BROKERS, rare))
            made.append(Record(0, at_ms, key, value))
        yield events.TOPIC, made
        if first % SAMPLE_EVENTS == 0:
            value = sample.encode(one_sample(first // SAMPLE_EVENTS, at_ms, source))
            yield sample.TOPIC, [Record(0, at_ms, b"0", value)]


def fill(target: BrokerCy, count: int, start_ms: int) -> dict[str, int]:
    """Add `count` events, and the samples among them, to the topics of a stopped broker; return the resulting number of
    records by topic. The broker recovers them like those of a killed broker.
    """
    logs, ends, held = {}, {}, {}
    for topic in TOPICS:
        logs[topic] = max((target.directory / f"{topic}-0").glob("*.log"))
        known = [batch.last_offset for batch in decode_batches(logs[topic].read_bytes())]
        ends[topic] = known[-1] + 1 if known else int(logs[topic].stem)
        held[topic] = bytearray()
    for topic, records in batches(count, start_ms):
        held[topic] += encode_batch(records, base_offset=ends[topic])
        ends[topic] += len(records)
        if len(held[topic]) > CHUNK_BYTES:
            _append(logs[topic], held[topic])
    for topic, data in held.items():
        _append(logs[topic], data)
    (target.directory / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    return ends


def _append(path: Path, data: bytearray) -> None:
    with path.open("ab") as file:
        file.write(data)
    data.clear()
