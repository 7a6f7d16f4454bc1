"""Applications of broker_streams beside Kafka Streams 4.3.1 on one broker: `python -m bench.studies.streams`.

`filter` maps and filters records of 256 B, `count` counts them by key and minute (bench/specs/streams). Both programs
process the same topic exactly once, with commits every 100 ms, in turn. The first part of the records warms a program
up; the rate, and the records for each second of its CPU, are those of the rest. The offsets of its group say where it
is. Our broker shares the two processors with the program.

`latency` runs `filter` on records that come on a schedule, with commits every 10 ms, and measures the age of each when
a consumer of committed records gets it, from the time when it was due. The first window warms a program up.

A short look: --records 300000 --pairs 1 --seconds 3. Then the JVM is not warm, which needs about a million records.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from bench.launch import kafka_dist
from bench.launch.nodes import BrokerCy
from bench.measuring.proc import peak_resident_bytes, usage
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.studies.mirror_load import Topic, ages_ms
from bench.targets.brokers import TargetError
from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.launch import java_programs
from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import Child

PROGRAM: Final = "bench.studies.streams"
PARTS: Final = ("filter", "count", "latency")
GOALS = Goals(
    at_least={
        "filter_records_per_s": 300_000.0,
        "count_records_per_s": 100_000.0,
        "count_a_core_ratio": 1.5,
    },
    at_most={"latency_p99_ms": 30.0},
)
VALUE_BYTES: Final = 256
KEYS: Final = 1_000
PARTITIONS: Final = 4
RATE, SECONDS = 1_000, 10.0
COMMIT_MS, LATENCY_COMMIT_MS = 100, 10
# The part of the records that warms the program up.
WARM: Final = 0.5
WAIT_S: Final = 600.0
LOOK_S: Final = 0.05
STREAMS: Final = Artifact("org.apache.kafka", "kafka-streams", kafka_dist.VERSION)
_ROOT: Final = Path(__file__).resolve().parents[1]
APPLICATIONS: Final = _ROOT / "specs" / "streams"
SIDES: Final = ("ours", "kafka")
BROKER: Final = {
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "brokercy.metrics.sample.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
JAVA: Final = _ROOT / "steady_clients" / "StreamsApplication.java"


class Run(NamedTuple):
    records_per_s: float
    records_per_cpu_s: float
    peak_mb: float


def arguments(
    argv: Sequence[str] | None,
    program: str = PROGRAM,
    description: str | None = __doc__,
    parts: Sequence[str] = PARTS,
    rate: int = RATE,
    seconds: float = SECONDS,
    flags: Mapping[str, str] | None = None,
) -> argparse.Namespace:
    """The arguments of a study of applications. `flags` are further options without a value, with their texts."""
    made = parser(program, description, parts)
    made.add_argument("--records", type=int, default=3_000_000, help="records of each run of a rate; %(default)d")
    made.add_argument("--pairs", type=int, default=2, help="runs of each program; %(default)d")
    made.add_argument("--rate", type=int, default=rate, help="records/s on a schedule; %(default)d")
    made.add_argument("--seconds", type=float, default=seconds, help="duration of a window on a schedule; %(default)g")
    for name, text in (flags or {}).items():
        made.add_argument(name, action="store_true", help=text)
    given = made.parse_args(argv)
    check(made, given, parts, ("records", "pairs", "rate", "seconds"))
    return given


def fill(bootstrap: str, records: int) -> None:
    """Write the records in order of time, 100,000 in each minute."""
    asyncio.run(create(bootstrap, "in", "out"))
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 500_000,
            "linger.ms": 50,
            "queue.buffering.max.kbytes": 64_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = b"v" * VALUE_BYTES
    begin_ms = 1_700_000_000_000
    for number in range(records):
        while True:
            try:
                key = f"key-{number % KEYS}".encode()
                producer.produce(
                    "in", value, key, partition=number % PARTITIONS, timestamp=begin_ms + number * 60 // 100
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(WAIT_S)


async def create(bootstrap: str, *names: str) -> None:
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
        # The timestamps are of 2023: with a limit, retention deletes the records as soon as it looks.
        topics = [NewTopic(name, PARTITIONS, 1, configs={"retention.ms": "-1"}) for name in names]
        (await client.topics.create(topics)).whole()


@contextmanager
def running(command: list[object], place: Path, name: str, env: Mapping[str, str] | None = None) -> Iterator[Child]:
    child = Child([str(each) for each in command], place, name, None if env is None else {**os.environ, **env})
    try:
        yield child
    finally:
        child.kill()


def measured(bootstrap: str, group: str, records: int, child: Child, cpu_s: Callable[[], float] | None = None) -> Run:
    """Wait until the program has processed all records. `cpu_s` tells the CPU of a program of several processes. Raises
    TimeoutError.
    """
    return asyncio.run(_measured(bootstrap, group, records, child, cpu_s or (lambda: usage(child.pid).cpu_s)))


async def _measured(bootstrap: str, group: str, records: int, child: Child, cpu_s: Callable[[], float]) -> Run:
    warm: tuple[int, float, float] | None = None
    before = 0, time.monotonic(), cpu_s()
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client, asyncio.timeout(WAIT_S):
        while True:
            offsets = (await client.group_offsets.fetch([group])).whole()[group]
            done = sum(each.offset for key, each in offsets.items() if key.topic == "in")
            now = done, time.monotonic(), cpu_s()
            if warm is None and done >= records * WARM:
                # A program that a look finds at its end was fast, or the machine slow: from the look before.
                warm = now if done < records else before
            if done >= records and warm is not None:
                break
            before = now
            await asyncio.sleep(LOOK_S)
    count, seconds, cpu_seconds = (last - first for last, first in zip(now, warm, strict=True))
    return Run(count / seconds, count / cpu_seconds, peak_resident_bytes(child.pid) / 1e6)


def jars() -> str:
    def fetch(directory: Path) -> None:
        copy_jars(directory, [STREAMS])

    return f"{made_once(f'kafka-streams-study-{kafka_dist.VERSION}', fetch) / 'libs'}/*"


@contextmanager
def application(
    side: str, kind: str, group: str, bootstrap: str, place: Path, commit_ms: int, topic: Topic | None = None
) -> Iterator[Child]:
    """A new application, which begins at the first record of the topic `in`, or of another one."""
    home = place / group
    home.mkdir()
    command: list[object]
    if side == "ours":
        command = [sys.executable, "-m", "broker_streams", "run", APPLICATIONS / f"{kind}.py", "-b", bootstrap]
        command += ["--host", "embedded"]
        command += ["-X", f"application.id={group}", "-X", f"commit.interval.ms={commit_ms}"]
    else:
        class_path = jars()
        classes = java_programs.classes(JAVA, class_path)
        command = ["java", "-cp", f"{classes}:{class_path}", "StreamsApplication"]
        command += [bootstrap, group, kind, home, commit_ms]
    env = None if topic is None else {"STREAMS_IN": topic.name, "STREAMS_OUT": topic.remote}
    with running(command, home, side, env) as child:
        yield child


def figures_of(part: str, given: argparse.Namespace, bootstrap: str, place: Path) -> Figures:
    """Both programs in turn."""
    found: dict[str, list[float]] = {}
    for pair in range(given.pairs):
        measured_pair = _latency if part == "latency" else _rate
        for name, value in measured_pair(part, pair, given, bootstrap, place).items():
            found.setdefault(name, []).append(value)
    return {**found}


def _rate(kind: str, pair: int, given: argparse.Namespace, bootstrap: str, place: Path) -> dict[str, float]:
    runs = {}
    for side in SIDES:
        group = f"{kind}-{side}-{pair}"
        with application(side, kind, group, bootstrap, place, COMMIT_MS) as child:
            runs[side] = measured(bootstrap, group, given.records, child)
    ours, kafka = runs["ours"], runs["kafka"]
    return {
        f"{kind}_records_per_s": ours.records_per_s,
        f"{kind}_kafka_records_per_s": kafka.records_per_s,
        f"{kind}_records_a_core": ours.records_per_cpu_s,
        f"{kind}_kafka_records_a_core": kafka.records_per_cpu_s,
        f"{kind}_a_core_ratio": ours.records_per_cpu_s / kafka.records_per_cpu_s,
        f"{kind}_peak_mb": ours.peak_mb,
        f"{kind}_kafka_peak_mb": kafka.peak_mb,
    }


def _latency(part: str, pair: int, given: argparse.Namespace, bootstrap: str, place: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for side in SIDES:
        group = f"latency-{side}-{pair}"
        # Topics of its own: the records of the other parts are no load here.
        topic = Topic(f"{group}-in", bootstrap, bootstrap, f"{group}-out", VALUE_BYTES)
        asyncio.run(create(bootstrap, topic.name, topic.copy))
        with application(side, "filter", group, bootstrap, place, LATENCY_COMMIT_MS, topic) as child:
            # The first window begins before the program does, and warms it up.
            for _ in range(2):
                used_s = usage(child.pid).cpu_s
                try:
                    ages = sorted(asyncio.run(ages_ms(topic, given.rate, given.seconds)))
                except TimeoutError:
                    raise TargetError(f"{side} did not pass all records on: {child.tail()}") from None
                cores = (usage(child.pid).cpu_s - used_s) / given.seconds
        prefix = "latency" if side == "ours" else f"latency_{side}"
        found |= {
            f"{prefix}_p50_ms": ages[len(ages) // 2],
            f"{prefix}_p99_ms": ages[len(ages) * 99 // 100],
            f"{prefix}_cores": cores,
        }
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    given = arguments(argv)
    with tempfile.TemporaryDirectory(prefix="streams-study-") as directory:
        place = Path(directory)
        broker = BrokerCy(place / "broker", BROKER).start()
        try:
            if given.only != ["latency"]:
                fill(broker.bootstrap, given.records)
            return measure(PROGRAM, given, GOALS, lambda part: figures_of(part, given, broker.bootstrap, place))
        finally:
            broker.close()


if __name__ == "__main__":
    sys.exit(main())
