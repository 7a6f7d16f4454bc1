"""State of broker_streams on disk: `python -m bench.studies.streams_state`.

A changelog of one store has `--mb` MB of keys (16 B) and values (256 B). `restore` is a first start without state on
disk, `restart` a start after kill -9, and `snapshot` a start on another host with a snapshot of the state: each from
the start of the program until it has processed a record. `costs` are those of a store's get and put, in one process.
Our broker shares the two processors with the program.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.launch.nodes import BrokerCy
from bench.measuring.proc import peak_resident_bytes, usage
from bench.studies.goals import Figures, Goals, check, measure, parser
from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
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
CHANGELOG: Final = "state-state-changelog"
WAIT_S: Final = 900.0
APPLICATION: Final = Path(__file__).resolve().parents[1] / "specs" / "streams" / "state.py"


def arguments() -> argparse.Namespace:
    made = parser(PROGRAM, __doc__, PARTS)
    made.add_argument("--mb", type=int, default=1_000, help="MB of keys and values in the changelog")
    made.add_argument("--rows", type=int, default=1_000_000, help="rows of the store whose calls are measured")
    given = made.parse_args()
    check(made, given, PARTS, ("mb", "rows"))
    return given


def fill(bootstrap: str, records: int) -> None:
    """Write the changelog: random keys, each once."""
    asyncio.run(_create(bootstrap))
    limits = {"queue.buffering.max.kbytes": 64_000, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 500_000, "linger.ms": 50, **limits})
    draw = random.Random(1)
    value = b"v" * VALUE_BYTES
    for number in range(records):
        while True:
            try:
                producer.produce(CHANGELOG, value, draw.randbytes(KEY_BYTES), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(WAIT_S)


async def _create(bootstrap: str) -> None:
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
        topics = [NewTopic("in", PARTITIONS, 1), NewTopic(CHANGELOG, PARTITIONS, 1, {"cleanup.policy": "compact"})]
        (await client.topics.create(topics)).whole()


def begin(bootstrap: str, state: Path, place: Path, name: str, *options: str) -> Child:
    home = place / name
    home.mkdir()
    command = [sys.executable, "-m", "broker_streams", "run", str(APPLICATION), "-b", bootstrap]
    changed = [f"state.dir={state}", *options]
    return Child([*command, *(part for each in changed for part in ("-X", each))], home, name)


def write_inputs(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce("in", b"value", b"key", partition=partition)
    producer.flush(WAIT_S)


async def until_processed(bootstrap: str, records: int) -> None:
    """Wait until the group has committed as many records. Raises TimeoutError."""
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client, asyncio.timeout(WAIT_S):
        while True:
            offsets = (await client.group_offsets.fetch(["state"])).whole().get("state", {})
            if sum(each.offset for key, each in offsets.items() if key.topic == "in") >= records:
                return
            await asyncio.sleep(0.05)


def restores(given: argparse.Namespace, place: Path) -> Figures:
    settings = {
        "transaction.state.log.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "brokercy.metrics.sample.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
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
            begun_s = time.monotonic()
            child = begin(broker.bootstrap, place / state, place, name, *options)
            try:
                asyncio.run(until_processed(broker.bootstrap, processed))
                found[f"{name}_s"] = time.monotonic() - begun_s
                found[f"{name}_cpu_s"] = usage(child.pid).cpu_s
                found[f"{name}_peak_mb"] = peak_resident_bytes(child.pid) / 1e6
            finally:
                child.kill()
            # The group forgets the member that was killed.
            time.sleep(6.0)
        found["restore_records_per_s"] = records / float(found["restore_s"])  # type: ignore[arg-type]
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


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="streams-state-") as directory:
        parts = {"restore": restores, "costs": costs}
        return measure(PROGRAM, given, GOALS, lambda part: parts[part](given, Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
