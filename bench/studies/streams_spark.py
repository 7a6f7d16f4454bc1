"""Applications of broker_streams on Spark, and Kafka Streams beside them: `python -m bench.studies.streams_spark`.

`memory` runs ten small applications with twelve sub-topologies in one driver, while records come on a schedule. It adds
up the proportional set sizes (PSS) of the processes: a page that several of them share counts once.

`latency` runs `filter`, and `latency_count` counts by key and minute (bench/specs/streams), on records that come on a
schedule, with commits as often as they can be. The age of a record is that at a consumer of committed records, from the
time when it was due. The first window warms the program up.

`filter` and `count` process one topic, exactly once, with commits every 100 ms. The first part of the records warms a
program up; the rate, and the records for each second of CPU of all its processes, are those of the rest. Kafka Streams
runs in turn with ours where `bench.studies.streams` has it. The broker shares the two processors with the program.

A short look: --records 300000 --pairs 1 --seconds 3.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from bench.launch.nodes import BrokerCy
from bench.measuring.proc import proportional_bytes, usage
from bench.studies import streams
from bench.studies.goals import Figures, Goals, measure
from bench.studies.mirror_load import Topic, ages_ms
from bench.targets.brokers import TargetError
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.launch.processes import Child
from broker_cy.wire.records import Record

PROGRAM: Final = "bench.studies.streams_spark"
PARTS: Final = ("memory", "latency", "latency_count", "filter", "count")
GOALS = Goals(at_most={"memory_mb": 1_200.0, "latency_p99_ms": 500.0, "latency_count_p99_ms": 500.0})
RATE, SECONDS = 100, 20.0
COMMIT_MS, LATENCY_COMMIT_MS = 100, 0
KEYS: Final = 100
START_S: Final = 300.0
# Between two looks at the memory of all processes.
LOOK_S: Final = 0.5
# Chains of one sub-topology, windows, and groupings by another key, which are two sub-topologies.
KINDS: Final = ("filter",) * 4 + ("windows",) * 4 + ("grouped",) * 2
_FILE: Final = """
from broker_streams import STRING, StreamsBuilder, TimeWindows

builder = StreamsBuilder()
records = builder.stream("{name}-in", key=STRING, value=STRING)
{text}
config = {{"application.id": "{name}"}}
"""
_TEXTS: Final = {
    "filter": 'records.map_values(str.upper).filter(lambda key, value: key != "key-1")'
    '.to("{name}-out", key=STRING, value=STRING)',
    "windows": 'records.group_by_key().windowed_by(TimeWindows.of("1m")).count()'
    ".to_stream(lambda window, count: window.key).map_values(str)"
    '.to("{name}-out", key=STRING, value=STRING)',
    "grouped": "records.group_by(lambda key, value: value[-1], key=STRING, value=STRING).count().to_stream()"
    '.map_values(str).to("{name}-out", key=STRING, value=STRING)',
}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    flags = {"--without-kafka": "leave Kafka Streams out"}
    return streams.arguments(argv, PROGRAM, __doc__, PARTS, RATE, SECONDS, flags)


class Processes:
    """A program on Spark, by kinds of its processes."""

    def __init__(self, pid: int) -> None:
        self._top = psutil.Process(pid)

    def by_kind(self) -> Iterator[tuple[str, int]]:
        yield "driver", self._top.pid
        for each in self._top.children(recursive=True):
            try:
                name = each.name()
            except psutil.NoSuchProcess:
                continue
            yield "jvm" if name == "java" else "python" if name.startswith("python") else "others", each.pid

    def memory_mb(self) -> dict[str, float]:
        """The PSS of each kind, and the number of Python processes of Spark."""
        found: dict[str, float] = {"driver": 0.0, "jvm": 0.0, "python": 0.0, "others": 0.0, "python_processes": 0}
        for kind, pid in self.by_kind():
            try:
                found[kind] += proportional_bytes(pid) / 1e6
            except OSError:
                continue
            found["python_processes"] += kind == "python"
        return found

    def cpu_s(self) -> float:
        """CPU of the processes that run, since each began."""
        total = 0.0
        for _, pid in self.by_kind():
            try:
                total += usage(pid).cpu_s
            except OSError:
                continue
        return total


@contextmanager
def on_spark(
    files: Sequence[Path], words: Sequence[str], bootstrap: str, home: Path, env: dict[str, str]
) -> Iterator[Child]:
    home.mkdir()
    command: list[object] = [sys.executable, "-m", "broker_streams", "run", *files, "-b", bootstrap, "--host", "spark"]
    with streams.running([*command, "-X", f"state.dir={home / 'state'}", *words], home, "ours", env) as child:
        child.wait_for_output(" on Spark ", START_S)
        yield child


def figures_of(part: str, given: argparse.Namespace, bootstrap: str, place: Path) -> Figures:
    found: dict[str, list[float]] = {}
    for pair in range(given.pairs):
        if part == "memory":
            made = _memory(pair, given, bootstrap, place)
        elif part in streams.PARTS and part != "latency":
            made = _rates(part, pair, given, bootstrap, place)
        else:
            made = _latencies(part, pair, given, bootstrap, place)
        for name, value in made.items():
            found.setdefault(name, []).append(value)
    return {**found}


def _memory(pair: int, given: argparse.Namespace, bootstrap: str, place: Path) -> dict[str, float]:
    """The largest sum of a window, and its parts."""
    home = place / f"memory-{pair}"
    applications = place / f"applications-{pair}"
    applications.mkdir()
    names = {f"{kind}-{pair}-{number}": kind for number, kind in enumerate(KINDS)}
    for name, kind in names.items():
        (applications / f"{name}.py").write_text(_FILE.format(name=name, text=_TEXTS[kind].format(name=name)))
    asyncio.run(_create(bootstrap, [f"{name}-{end}" for name in names for end in ("in", "out")]))
    files = [applications / f"{name}.py" for name in names]
    with on_spark(files, (), bootstrap, home, {}) as child:
        samples = asyncio.run(_fed(bootstrap, list(names), given, Processes(child.pid), child))
    largest = max(samples, key=lambda each: sum(value for kind, value in each.items() if kind != "python_processes"))
    total = sum(value for kind, value in largest.items() if kind != "python_processes")
    return {"memory_mb": total} | {
        f"memory_{kind}{'' if kind == 'python_processes' else '_mb'}": value for kind, value in largest.items()
    }


async def _create(bootstrap: str, names: Sequence[str]) -> None:
    async with AdminClient(bootstrap, timeout_s=streams.WAIT_S) as client:
        (await client.topics.create([NewTopic(name, 1, 1) for name in names])).whole()


async def _fed(
    bootstrap: str, names: list[str], given: argparse.Namespace, processes: Processes, child: Child
) -> list[dict[str, float]]:
    """Feed all applications, until each has written results, and then for the time of a window."""
    samples = []
    async with AdminClient(bootstrap, timeout_s=streams.WAIT_S) as client:
        producer, outputs = client.records.producer(), [TopicPartition(f"{name}-out", 0) for name in names]
        until_s, number = time.monotonic() + streams.WAIT_S, 0
        all_write = False
        while time.monotonic() < until_s:
            if child.returncode is not None:
                raise TargetError(f"the program has ended: {child.tail()}")
            for name in names:
                number += 1
                key, value = b"key-%d" % (number % KEYS), b"value-%d" % (number % 10)
                record = Record(timestamp=time.time_ns() // 1_000_000, key=key, value=value)
                await producer.send(f"{name}-in", [record])
            samples.append(processes.memory_mb())
            if not all_write:
                ends = (await client.offsets.latest(outputs)).whole()
                if all(ends.values()):
                    all_write, until_s = True, time.monotonic() + given.seconds
            await asyncio.sleep(len(names) / given.rate)
    if not all_write:
        raise TargetError(f"some application wrote nothing: {child.tail()}")
    return samples


def _latencies(part: str, pair: int, given: argparse.Namespace, bootstrap: str, place: Path) -> dict[str, float]:
    group = f"{part}-{pair}".replace("_", "-")
    kind = "filter" if part == "latency" else "last"
    topic = Topic(
        f"{group}-in",
        bootstrap,
        bootstrap,
        f"{group}-out",
        streams.VALUE_BYTES,
        record_keys=KEYS if kind == "last" else 0,
    )
    asyncio.run(streams.create(bootstrap, topic.name, topic.copy))
    env = {"STREAMS_IN": topic.name, "STREAMS_OUT": topic.remote}
    words = ["-X", f"application.id={group}", "-X", f"commit.interval.ms={LATENCY_COMMIT_MS}"]
    home = place / group
    with on_spark([streams.APPLICATIONS / f"{kind}.py"], words, bootstrap, home, env) as child:
        processes = Processes(child.pid)
        for _ in range(2):
            used_s = processes.cpu_s()
            try:
                ages = sorted(asyncio.run(ages_ms(topic, given.rate, given.seconds)))
            except TimeoutError:
                raise TargetError(f"the application did not pass all records on: {child.tail()}") from None
            cores = (processes.cpu_s() - used_s) / given.seconds
    return {
        f"{part}_p50_ms": ages[len(ages) // 2],
        f"{part}_p99_ms": ages[len(ages) * 99 // 100],
        f"{part}_max_ms": ages[-1],
        f"{part}_cores": cores,
    }


def _rates(kind: str, pair: int, given: argparse.Namespace, bootstrap: str, place: Path) -> dict[str, float]:
    group = f"{kind}-spark-{pair}"
    words = ["-X", f"application.id={group}", "-X", f"commit.interval.ms={COMMIT_MS}"]
    with on_spark([streams.APPLICATIONS / f"{kind}.py"], words, bootstrap, place / group, {}) as child:
        processes = Processes(child.pid)
        ours = streams.measured(bootstrap, group, given.records, child, processes.cpu_s)
    found = {f"{kind}_records_per_s": ours.records_per_s, f"{kind}_records_a_core": ours.records_per_cpu_s}
    if not given.without_kafka:
        group = f"{kind}-kafka-{pair}"
        with streams.application("kafka", kind, group, bootstrap, place, COMMIT_MS) as child:
            kafka = streams.measured(bootstrap, group, given.records, child)
        found |= {
            f"{kind}_kafka_records_per_s": kafka.records_per_s,
            f"{kind}_kafka_records_a_core": kafka.records_per_cpu_s,
            f"{kind}_a_core_ratio": ours.records_per_cpu_s / kafka.records_per_cpu_s,
        }
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    given = arguments(argv)
    with tempfile.TemporaryDirectory(prefix="streams-spark-study-") as directory:
        place = Path(directory)
        broker = BrokerCy(place / "broker", streams.BROKER).start()
        try:
            if {"filter", "count"} & set(given.only):
                streams.fill(broker.bootstrap, given.records)
            return measure(PROGRAM, given, GOALS, lambda part: figures_of(part, given, broker.bootstrap, place))
        finally:
            broker.close()


if __name__ == "__main__":
    sys.exit(main())
