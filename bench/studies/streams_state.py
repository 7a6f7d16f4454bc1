"""State of broker_streams on disk: `python -m bench.studies.streams_state`.

A changelog of one store has `--mb` MB of keys (16 B) and values (256 B). `restore` is a first start without state on
disk, `restart` a start after kill -9, and `snapshot` a start on another host with a snapshot of the state: each from
the start of the program until it has processed a record. `restore_kafka` is the first start of Kafka Streams 4.3.1
with the same rows in a changelog of its own: the start of its JVM counts, and the JVM compiles while it restores.
`costs` are those of a store's get and put, in one process. Our broker shares the two processors with the program.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.launch.nodes import BrokerCy
from bench.measuring.proc import peak_resident_bytes, usage
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.studies.streams import JAVA, jars
from bench.targets.brokers import TargetError
from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.launch import java_programs
from broker_cy.launch.processes import Child
from broker_streams.kernel.stores.ordered import OrderedMap
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.state.directory import StateDirectory
from broker_streams.state.snapshots import Snapshots
from broker_streams.state.stamp import Place
from broker_streams.state.task_state import TaskState

PROGRAM: Final = "bench.studies.streams_state"
PARTS: Final = ("restore", "costs")
GOALS = Goals(at_most={"restore_s": 20.0})
KEY_BYTES: Final = 16
VALUE_BYTES: Final = 256
PARTITIONS: Final = 2
# Our application, and that of Kafka Streams.
OURS, KAFKA = "state", "state-kafka"
WAIT_S: Final = 900.0
APPLICATION: Final = Path(__file__).resolve().parents[1] / "specs" / "streams" / "state.py"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    made = parser(PROGRAM, __doc__, PARTS)
    made.add_argument("--mb", type=int, default=1_000, help="MB of keys and values in the changelog")
    made.add_argument("--rows", type=int, default=1_000_000, help="rows of the store whose calls are measured")
    given = made.parse_args(argv)
    check(made, given, PARTS, ("mb", "rows"))
    return given


def changelog(application: str) -> str:
    return f"{application}-state-changelog"


def fill(bootstrap: str, records: int, applications: Sequence[str] = (OURS, KAFKA)) -> None:
    """Write the changelogs: random keys, each once."""
    asyncio.run(_create(bootstrap, applications))
    limits = {"queue.buffering.max.kbytes": 64_000, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 500_000, "linger.ms": 50, **limits})
    draw = random.Random(1)
    value = b"v" * VALUE_BYTES
    for number in range(records):
        key = draw.randbytes(KEY_BYTES)
        for application in applications:
            while True:
                try:
                    producer.produce(changelog(application), value, key, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush(WAIT_S)


async def _create(bootstrap: str, applications: Sequence[str]) -> None:
    compacted = {"cleanup.policy": "compact"}
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
        topics = [NewTopic(changelog(each), PARTITIONS, 1, compacted) for each in applications]
        (await client.topics.create([NewTopic("in", PARTITIONS, 1), *topics])).whole()


def begin_kafka(bootstrap: str, state: Path, place: Path, name: str) -> Child:
    class_path = jars()
    classes = java_programs.classes(JAVA, class_path)
    home = place / name
    home.mkdir()
    command = [
        "java",
        "-cp",
        f"{classes}:{class_path}",
        "StreamsApplication",
        bootstrap,
        KAFKA,
        "state",
        str(state),
        "100",
    ]
    return Child(command, home, name)


def begin(bootstrap: str, state: Path, place: Path, name: str, *options: str) -> Child:
    home = place / name
    home.mkdir()
    command = [sys.executable, "-m", "broker_streams", "run", str(APPLICATION), "-b", bootstrap, "--host", "embedded"]
    changed = [f"state.dir={state}", *options]
    return Child([*command, *(part for each in changed for part in ("-X", each))], home, name)


def write_inputs(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce("in", b"value", b"key", partition=partition)
    producer.flush(WAIT_S)


async def until_processed(bootstrap: str, group: str, records: int) -> None:
    """Wait until the group has committed as many records. Raises TimeoutError."""
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client, asyncio.timeout(WAIT_S):
        while True:
            offsets = (await client.group_offsets.fetch([group])).whole().get(group, {})
            if sum(each.offset for key, each in offsets.items() if key.topic == "in") >= records:
                return
            await asyncio.sleep(0.05)


async def until_forgotten(bootstrap: str, group: str) -> None:
    """Wait until the group has no members: until the session of one that was killed is over. Raises TimeoutError."""
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client, asyncio.timeout(WAIT_S):
        while (await client.groups.describe([group])).whole()[group].members:
            await asyncio.sleep(0.05)


def measured(name: str, child: Child, bootstrap: str, group: str, records: int) -> Figures:
    """Wait until a program that was begun now has processed its records, and end it."""
    begun_s = time.monotonic()
    try:
        asyncio.run(until_processed(bootstrap, group, records))
        return {
            f"{name}_s": time.monotonic() - begun_s,
            f"{name}_cpu_s": usage(child.pid).cpu_s,
            f"{name}_peak_mb": peak_resident_bytes(child.pid) / 1e6,
        }
    except TimeoutError:
        raise TargetError(f"{name}: no record was processed in {WAIT_S:.0f} s: {child.tail()}") from None
    finally:
        child.kill()


def one(figures: Figures, name: str) -> float:
    """A figure that has no repeats."""
    found = figures[name]
    assert isinstance(found, float)
    return found


def restores(given: argparse.Namespace, place: Path) -> Figures:
    settings = {
        "transaction.state.log.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "brokercy.metrics.sample.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.initial.rebalance.delay.ms": "0",
        "group.streams.min.session.timeout.ms": "5000",
        "group.streams.session.timeout.ms": "5000",
        "group.streams.heartbeat.interval.ms": "1000",
        "group.streams.min.heartbeat.interval.ms": "1000",
    }
    broker = BrokerCy(place / "broker", settings).start()
    found: Figures = {}
    processed = 0
    try:
        records = given.mb * 1_000_000 // (KEY_BYTES + VALUE_BYTES)
        fill(broker.bootstrap, records)
        for name, state in (("restore", "one"), ("restart", "one"), ("snapshot", "other")):
            options = []
            if name == "snapshot":
                take_snapshots(place / "one", place / "shared")
                options = [f"brokercy.streams.snapshot.dir={place / 'shared'}"]
            write_inputs(broker.bootstrap)
            processed += PARTITIONS
            child = begin(broker.bootstrap, place / state, place, name, *options)
            found |= measured(name, child, broker.bootstrap, OURS, processed)
            asyncio.run(until_forgotten(broker.bootstrap, OURS))
        child = begin_kafka(broker.bootstrap, place / "kafka", place, "restore_kafka")
        found |= measured("restore_kafka", child, broker.bootstrap, KAFKA, processed)
        found["restore_cpu_ratio"] = one(found, "restore_cpu_s") / one(found, "restore_kafka_cpu_s")
        for name in ("restore", "restore_kafka"):
            found[f"{name}_records_per_s"] = records / one(found, f"{name}_s")
        found["file_mb"] = sum(each.stat().st_size for each in (place / "one").rglob("data.mdb")) / 1e6
    finally:
        broker.close()
    return found


def take_snapshots(state: Path, to: Path) -> None:
    for number in range(PARTITIONS):
        opened = TaskState.open(StateDirectory(state, "state").lock(f"0_{number}"), [store()], now_ms)
        Snapshots(to, "state", 1).take(opened.file, f"0_{number}")
        opened.close()


def store() -> Store:
    return Store("state", StoreKind.TIMESTAMPED_KEY_VALUE)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def costs(given: argparse.Namespace, place: Path) -> Figures:
    """One get and one put of random keys: ns of CPU for both, with the writes of the file that belong to them."""
    draw = random.Random(1)
    keys = [draw.randbytes(KEY_BYTES) for _ in range(given.rows)]
    value = b"v" * VALUE_BYTES
    state = TaskState.open(StateDirectory(place / "costs", "app").lock("0_0"), [store()], now_ms)
    on_disk, in_memory = state.open_maps(store()).open("rows"), OrderedMap()
    for at, key in enumerate(keys):
        on_disk.put(key, value)
        in_memory.put(key, value)
        if at % 1000 == 999:
            state.restored({"state": Place(at)})
            state.finish()
    state.restored({"state": Place(len(keys))}, is_last=True)
    state.finish()
    found: Figures = {}
    for name, some in (("all", keys), ("hot", keys[:1000])):
        chosen = [draw.choice(some) for _ in range(200_000)]
        for kind, rows in (("memory", in_memory), ("disk", on_disk)):
            get, put = rows.get, rows.put
            begun_ns = time.process_time_ns()
            for at, key in enumerate(chosen):
                get(key)
                put(key, value)
                # A commit of each thousand records.
                if at % 1000 == 999 and kind == "disk":
                    state.seal()
                    state.committed({})
                    state.finish()
            found[f"{name}_{kind}_ns"] = (time.process_time_ns() - begun_ns) / len(chosen)
    state.close()
    shutil.rmtree(place / "costs")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    given = arguments(argv)
    with tempfile.TemporaryDirectory(prefix="streams-state-") as directory:
        parts = {"restore": restores, "costs": costs}
        return measure(PROGRAM, given, GOALS, lambda part: parts[part](given, Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
