"""Measure a mirror over a link: `python -m bench.studies.mirror_link`.

- cost: CPU seconds of a broker by GB, while it copies records that its leader has in memory: as a new replica of the
  cluster, and as a mirror of another cluster (goal: 1.3 times as much at most), in turn; and its peak memory.
- groups: the records that a group reads again after the source was killed: once its last commit was carried, and while
  it reads --rate records/s. `broker-mirror` carries its offsets over each --interval-ms.
- lag: the time from when a record is produced at the source until a consumer of the mirror has it, at --rate records/s
  (goal: p99 100 ms).

Source and target share the machine: on a busy machine, compare the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.launch.cluster_nodes import ClusterNode, launch, ours
from bench.launch.nodes import BrokerCy
from bench.measuring.proc import peak_resident_bytes, usage
from bench.studies import goals
from bench.studies.goals import Figures, Goals
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition as Key
from broker_cy.admin.topics import NewTopic
from broker_cy.launch.processes import Child

PROGRAM: Final = "bench.studies.mirror_link"
PARTS: Final = ("cost", "lag", "groups")
GOALS = Goals(at_most={"link_to_follower_cpu": 1.3, "link_lag_p99_ms": 100.0, "link_group_settled_again": 0.0})
RECORD_BYTES: Final = 1_000
WAIT_S: Final = 600.0
LOOK_S: Final = 0.01
SETTINGS: Final = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    # Two nodes cannot have the three replicas of Kafka's default.
    "offsets.topic.replication.factor": "1",
    "brokercy.metrics.sample.interval.ms": "0",
}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    made = goals.parser(PROGRAM, __doc__, PARTS)
    made.add_argument("--megabytes", type=int, default=1_000, help="the size of a copy")
    made.add_argument("--partitions", type=int, default=8)
    made.add_argument("--pairs", type=int, default=2, help="how often each way of copying is measured")
    made.add_argument("--rate", type=int, default=10_000, help="records/s of lag")
    made.add_argument("--seconds", type=int, default=20, help="the measured time of lag")
    made.add_argument("--interval-ms", type=int, default=500, help="brokercy.link.groups.interval.ms")
    made.add_argument("--kills", type=int, default=3, help="how often groups kills the source")
    given = made.parse_args(argv)
    goals.check(made, given, PARTS, ("megabytes", "partitions", "pairs", "rate", "seconds", "interval_ms", "kills"))
    return given


class Source:
    """Two nodes of a cluster: the first one leads the topic, and the second one becomes a replica."""

    def __init__(self, directory: Path) -> None:
        self.nodes: list[ClusterNode] = ours(directory, SETTINGS, ["127.0.0.1"] * 2)
        launch(self.nodes)

    @property
    def bootstrap(self) -> str:
        return self.nodes[0].bootstrap

    def fill(self, topic: str, partitions: int, size_bytes: int) -> None:
        assignments = ((1,),) * partitions
        asyncio.run(create(self.bootstrap, NewTopic(topic, assignments=assignments)))
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "batch.size": 1_000_000,
                "linger.ms": 100,
                "queue.buffering.max.kbytes": 64_000,
            }
        )
        value = bytes(range(250)) * (RECORD_BYTES // 250)
        for number in range(size_bytes // RECORD_BYTES):
            while True:
                try:
                    producer.produce(topic, value, partition=number % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(WAIT_S)

    def close(self) -> None:
        for node in self.nodes:
            node.close()


async def create(bootstrap: str, topic: NewTopic) -> None:
    async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
        (await client.topics.create([topic])).whole()


async def ends(bootstrap: str, keys: Sequence[Key]) -> Mapping[Key, int]:
    async with AdminClient(bootstrap) as client:
        return (await client.offsets.latest(keys)).found


async def replicated(source: Source, keys: Sequence[Key]) -> None:
    """Make the second node a replica of the partitions, and wait until it is in sync."""
    async with AdminClient(source.bootstrap, timeout_s=WAIT_S) as client:
        wanted = dict.fromkeys(keys, (1, 2))
        (await client.reassignments.alter(wanted, may_change_factor=True)).whole()
        while await client.reassignments.list_all():
            await asyncio.sleep(LOOK_S)


async def mirrored(source: Source, target: BrokerCy, topic: str, keys: Sequence[Key]) -> None:
    """Create the mirror, and wait until it has everything."""
    wanted = await ends(source.bootstrap, keys)
    await create(target.bootstrap, NewTopic(topic, len(keys), 1, {"brokercy.mirror.link": "source"}))
    async with AdminClient(target.bootstrap, timeout_s=WAIT_S) as client:
        while (await client.offsets.latest(keys)).found != wanted:
            await asyncio.sleep(LOOK_S)


def target_of(source: Source, directory: Path) -> BrokerCy:
    links = directory / "links"
    links.mkdir(parents=True)
    (links / "source.properties").write_text(f"bootstrap.servers={source.bootstrap}\n")
    settings = {"brokercy.mirror.links.dir": str(links), "brokercy.metrics.sample.interval.ms": "0"}
    return BrokerCy(directory, settings).start()


def cost(directory: Path, given: argparse.Namespace) -> Figures:
    """Each copy is of a topic of its own. The first pair warms up and does not count."""
    source = Source(directory / "source")
    target = target_of(source, directory / "target")
    follower, link = [], []
    gigabytes = given.megabytes / 1_000
    try:
        for pair in range(given.pairs + 1):
            topic = f"cost-{pair}"
            source.fill(topic, given.partitions, given.megabytes * 1_000_000)
            keys = [Key(topic, index) for index in range(given.partitions)]
            before = usage(source.nodes[1].pid)
            asyncio.run(replicated(source, keys))
            follower.append((usage(source.nodes[1].pid) - before).cpu_s / gigabytes)
            before = usage(target.pid)
            asyncio.run(mirrored(source, target, topic, keys))
            link.append((usage(target.pid) - before).cpu_s / gigabytes)
        peaks = [peak_resident_bytes(each.pid) / 1e6 for each in (source.nodes[1], target)]
    finally:
        target.close()
        source.close()
    follower, link = follower[1:], link[1:]
    return {
        "follower_cpu_per_gb_s": follower,
        "link_cpu_per_gb_s": link,
        "link_to_follower_cpu": [b / a for a, b in zip(follower, link, strict=True)],
        "follower_peak_mb": peaks[0],
        "link_peak_mb": peaks[1],
    }


def lag(directory: Path, given: argparse.Namespace) -> Figures:
    """A record has the time at which it was produced. Those of the first two seconds do not count."""
    source = Source(directory / "source")
    target = target_of(source, directory / "target")
    topic, partitions = "lag", given.partitions
    keys = [Key(topic, index) for index in range(partitions)]
    found: list[float] = []
    try:
        asyncio.run(create(source.bootstrap, NewTopic(topic, assignments=((1,),) * partitions)))
        asyncio.run(mirrored(source, target, topic, keys))
        producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 5})
        consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "lag", "fetch.wait.max.ms": 500})
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        value = bytes(RECORD_BYTES)
        began = time.time()
        written = read = 0
        while (now := time.time()) < began + given.seconds + 2:
            while written < (now - began) * given.rate:
                producer.produce(topic, value, partition=written % partitions, timestamp=int(now * 1000))
                written += 1
            producer.poll(0)
            for message in consumer.consume(10_000, 0.002):
                if message.error() is None:
                    read += 1
                    if now > began + 2:
                        found.append(time.time() * 1000 - message.timestamp()[1])
        producer.flush(WAIT_S)
        consumer.close()
    finally:
        target.close()
        source.close()
    found.sort()
    return {
        "link_lag_records_per_s": read / (given.seconds + 2),
        "link_lag_p50_ms": found[len(found) // 2],
        "link_lag_p99_ms": found[len(found) * 99 // 100],
    }


def groups(directory: Path, given: argparse.Namespace) -> Figures:
    """A consumer of the source commits after each poll, every 20 ms. The source is killed once its last commit was
    carried, and in another run while it still reads.
    """
    found: dict[str, list[float]] = {}
    for kill in range(given.kills):
        for is_reading in (False, True):
            place = directory / f"groups-{kill}-{is_reading}"
            source = Source(place / "source")
            target = target_of(source, place / "target")
            try:
                figures = _failed_over(source, target, place, given, is_reading)
            finally:
                target.close()
                source.close()
            for name, value in figures.items():
                found.setdefault(name, []).append(value)
    return {**found}


TOPIC: Final = "orders"
GROUP: Final = "billing"


def _mirror(source: Source, target: BrokerCy, place: Path, interval_ms: int) -> Child:
    file = place / "mm2.properties"
    settings = {
        "clusters": "source,target",
        "source.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        "source->target.enabled": "true",
        "source->target.brokercy.flow": "link",
        "source->target.replication.factor": "1",
        "source->target.topics": TOPIC,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.group.offsets.enabled": "true",
        "brokercy.link.groups.interval.ms": str(interval_ms),
        "emit.heartbeats.enabled": "false",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return Child([sys.executable, "-m", "broker_mirror", "start", str(file)], place, "mirror")


class Reading:
    """A producer at a steady rate, and a consumer that commits the records of each poll."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        self._rate, self._began_s, self._written, self._value = rate, time.monotonic(), 0, bytes(RECORD_BYTES)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self.commits: list[tuple[float, int]] = []

    def turn(self) -> None:
        while self._written < (time.monotonic() - self._began_s) * self._rate:
            self._producer.produce(TOPIC, self._value, partition=0)
            self._written += 1
        self._producer.poll(0)
        self._consume()

    def _consume(self) -> None:
        found = [each for each in self._consumer.consume(10_000, 0.02) if each.error() is None]
        if found:
            offset = (found[-1].offset() or 0) + 1
            # The group has no coordinator at first: a later commit has the offset.
            with contextlib.suppress(KafkaException):
                self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
                self.commits.append((time.monotonic(), offset))

    def finish(self) -> None:
        """Read and commit all that was written."""
        self._producer.flush(WAIT_S)
        while not self.commits or self.commits[-1][1] < self._written:
            self._consume()

    def close(self) -> None:
        self._producer.purge()
        self._consumer.close()


def _failed_over(
    source: Source, target: BrokerCy, place: Path, given: argparse.Namespace, is_reading: bool
) -> dict[str, float]:
    """Kill the source five seconds after the target has the first offset of the group."""
    key = Key(TOPIC, 0)
    asyncio.run(create(source.bootstrap, NewTopic(TOPIC, assignments=((1,),))))
    mirror = _mirror(source, target, place, given.interval_ms)
    reading = Reading(source.bootstrap, given.rate)
    try:
        began_s, carried_s = time.monotonic(), 0.0
        while time.monotonic() < began_s + WAIT_S and (carried_s == 0.0 or time.monotonic() < carried_s + 5):
            reading.turn()
            if carried_s == 0.0 and len(reading.commits) % 50 == 49:
                carried_s = time.monotonic() if asyncio.run(committed(target.bootstrap, key)) else 0.0
        if not is_reading:
            reading.finish()
            while asyncio.run(committed(target.bootstrap, key)) != reading.commits[-1][1]:
                if time.monotonic() > began_s + WAIT_S:
                    break
                time.sleep(LOOK_S)
            settled_s = time.monotonic()
        for node in source.nodes:
            node.kill()
        killed_s = time.monotonic()
    finally:
        reading.close()
        mirror.kill()
    found = asyncio.run(committed(target.bootstrap, key)) or 0
    again = float(reading.commits[-1][1] - found)
    if not is_reading:
        return {
            "link_group_settled_again": again,
            "link_group_carried_ms": (settled_s - reading.commits[-1][0]) * 1000,
        }
    then_s = next((at for at, offset in reading.commits if offset >= found), began_s)
    return {"link_group_records_again": again, "link_group_offset_age_ms": (killed_s - then_s) * 1000}


async def committed(bootstrap: str, key: Key) -> int | None:
    async with AdminClient(bootstrap) as client:
        found = (await client.group_offsets.fetch([GROUP])).whole()[GROUP].get(key)
    return None if found is None else found.offset


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns the exit code (`goals.measure`)."""
    given = arguments(argv)
    of = {"cost": cost, "lag": lag, "groups": groups}
    with tempfile.TemporaryDirectory(prefix="bench-link-") as name:
        return goals.measure(PROGRAM, given, GOALS, lambda part: of[part](Path(name) / part, given))


if __name__ == "__main__":
    sys.exit(main())
