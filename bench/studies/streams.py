"""Applications of broker_streams beside Kafka Streams 4.3.1 on one broker: `python -m bench.studies.streams`.

`filter` maps and filters records of 256 B, `count` counts them by key and minute (bench/specs/streams). Both programs
process the same topic exactly once, with commits every 100 ms, in turn. The first part of the records warms a program
up; the rate, and the records for each second of its CPU, are those of the rest. The offsets of its group say where it
is. Our broker shares the two processors with the program.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from bench.launch import kafka_dist
from bench.launch.nodes import BrokerCy
from bench.measuring.proc import peak_resident_bytes, usage
from bench.studies.goals import Figures, Goals, check, measure, parser
from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.launch import java_programs
from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import Child

PROGRAM: Final = "bench.studies.streams"
PARTS: Final = ("filter", "count")
GOALS = Goals(
    at_least={
        "filter_records_per_s": 300_000.0,
        "count_records_per_s": 100_000.0,
        "count_records_per_cpu_ratio": 1.5,
    }
)
VALUE_BYTES: Final = 256
KEYS: Final = 1_000
PARTITIONS: Final = 4
# The part of the records that warms the program up.
WARM: Final = 0.5
WAIT_S: Final = 600.0
LOOK_S: Final = 0.05
STREAMS: Final = Artifact("org.apache.kafka", "kafka-streams", kafka_dist.VERSION)
_ROOT: Final = Path(__file__).resolve().parents[1]
APPLICATIONS: Final = _ROOT / "specs" / "streams"
JAVA: Final = _ROOT / "steady_clients" / "StreamsApplication.java"


class Run(NamedTuple):
    records_per_s: float
    records_per_cpu_s: float
    peak_mb: float


def arguments() -> argparse.Namespace:
    made = parser(PROGRAM, __doc__, PARTS)
    made.add_argument("--records", type=int, default=3_000_000, help="records of each run")
    made.add_argument("--pairs", type=int, default=2, help="runs of each program")
    given = made.parse_args()
    check(made, given, PARTS, ("records", "pairs"))
    return given


def fill(bootstrap: str, records: int) -> None:
    """Write the records in order of time, 100,000 in each minute."""
    asyncio.run(_create(bootstrap))
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


async def _create(bootstrap: str) -> None:
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
        # The timestamps are of 2023: with a limit, retention deletes the records as soon as it looks.
        topics = [NewTopic(name, PARTITIONS, 1, configs={"retention.ms": "-1"}) for name in ("in", "out")]
        (await client.topics.create(topics)).whole()


@contextmanager
def running(command: list[object], place: Path, name: str) -> Iterator[Child]:
    child = Child([str(each) for each in command], place, name)
    try:
        yield child
    finally:
        child.kill()


def measured(bootstrap: str, group: str, records: int, child: Child) -> Run:
    """Wait until the program has processed all records. Raises TimeoutError."""
    return asyncio.run(_measured(bootstrap, group, records, child))


async def _measured(bootstrap: str, group: str, records: int, child: Child) -> Run:
    warm: tuple[int, float, float] | None = None
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client, asyncio.timeout(WAIT_S):
        while True:
            offsets = (await client.group_offsets.fetch([group])).whole()[group]
            done = sum(each.offset for key, each in offsets.items() if key.topic == "in")
            now = done, time.monotonic(), usage(child.pid).cpu_s
            if warm is None and done >= records * WARM:
                warm = now
            if done >= records and warm is not None:
                break
            await asyncio.sleep(LOOK_S)
    count, seconds, cpu_seconds = (last - first for last, first in zip(now, warm, strict=True))
    return Run(count / seconds, count / cpu_seconds, peak_resident_bytes(child.pid) / 1e6)


def _jars() -> str:
    def fetch(directory: Path) -> None:
        copy_jars(directory, [STREAMS])

    return f"{made_once(f'kafka-streams-study-{kafka_dist.VERSION}', fetch) / 'libs'}/*"


def figures_of(kind: str, given: argparse.Namespace, bootstrap: str, place: Path) -> Figures:
    """Both programs in turn, each run as a new application that begins at the first record."""
    class_path = _jars()
    classes = java_programs.classes(JAVA, class_path)
    found: dict[str, list[float]] = {}
    for pair in range(given.pairs):
        runs = {}
        for side in ("ours", "kafka"):
            group = f"{kind}-{side}-{pair}"
            home = place / group
            home.mkdir()
            if side == "ours":
                application = APPLICATIONS / f"{kind}.py"
                command: list[object] = [sys.executable, "-m", "broker_streams", "run", application]
                command += ["-b", bootstrap, "-X", f"application.id={group}"]
            else:
                command = ["java", "-cp", f"{classes}:{class_path}", "StreamsApplication"]
                command += [bootstrap, group, kind, home]
            with running(command, home, side) as child:
                runs[side] = measured(bootstrap, group, given.records, child)
        ours, kafka = runs["ours"], runs["kafka"]
        for name, value in {
            f"{kind}_records_per_s": ours.records_per_s,
            f"{kind}_kafka_records_per_s": kafka.records_per_s,
            f"{kind}_records_per_cpu_s": ours.records_per_cpu_s,
            f"{kind}_kafka_records_per_cpu_s": kafka.records_per_cpu_s,
            f"{kind}_records_per_cpu_ratio": ours.records_per_cpu_s / kafka.records_per_cpu_s,
            f"{kind}_peak_mb": ours.peak_mb,
            f"{kind}_kafka_peak_mb": kafka.peak_mb,
        }.items():
            found.setdefault(name, []).append(value)
    return {**found}


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="streams-study-") as directory:
        place = Path(directory)
        settings = {
            "transaction.state.log.replication.factor": "1",
            "offsets.topic.replication.factor": "1",
            "brokercy.metrics.sample.interval.ms": "0",
            "group.streams.initial.rebalance.delay.ms": "0",
        }
        broker = BrokerCy(place / "broker", settings).start()
        try:
            fill(broker.bootstrap, given.records)
            return measure(PROGRAM, given, GOALS, lambda part: figures_of(part, given, broker.bootstrap, place))
        finally:
            broker.close()


if __name__ == "__main__":
    sys.exit(main())
