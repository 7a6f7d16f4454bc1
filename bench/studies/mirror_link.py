"""Measure a mirror over a link: `python -m bench.studies.mirror_link`.

- cost: CPU seconds of a broker by GB, while it copies records that its leader has in memory: as a new replica of the
  cluster, and as a mirror of another cluster (goal: 1.3 times as much at most), in turn; and its peak memory.
- groups: the records that a group reads again after the source was killed, at --rate records/s, while `broker-mirror`
  carries its offsets over each --interval-ms, and the time since the offset in the target was committed at the source.
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
GOALS = Goals(at_most={"link_to_follower_cpu": 1.3, "link_lag_p99_ms": 100.0})
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
    """A consumer of the source commits after each poll, every 20 ms."""
    again, age_ms = [], []
    for kill in range(given.kills):
        place = directory / f"groups-{kill}"
        source = Source(place / "source")
        target = target_of(source, place / "target")
        try:
            records, milliseconds = _failed_over(source, target, place, given)
        finally:
            target.close()
            source.close()
        again.append(records)
        age_ms.append(milliseconds)
    return {"link_group_records_again": again, "link_group_offset_age_ms": age_ms}


def _failed_over(source: Source, target: BrokerCy, place: Path, given: argparse.Namespace) -> tuple[float, float]:
    topic, group, key = "orders", "billing", Key("orders", 0)
    asyncio.run(create(source.bootstrap, NewTopic(topic, assignments=((1,),))))
    file = place / "mm2.properties"
    settings = {
        "clusters": "source,target",
        "source.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        "source->target.enabled": "true",
        "source->target.brokercy.flow": "link",
        "source->target.replication.factor": "1",
        "source->target.topics": topic,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.group.offsets.enabled": "true",
        "brokercy.link.groups.interval.ms": str(given.interval_ms),
        "emit.heartbeats.enabled": "false",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    mirror = Child([sys.executable, "-m", "broker_mirror", "start", str(file)], place, "mirror")
    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 5})
    consumer = Consumer(
        {
            "bootstrap.servers": source.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    commits: list[tuple[float, int]] = []
    try:
        began, written, value = time.monotonic(), 0, bytes(RECORD_BYTES)
        carried_s = 0.0
        while time.monotonic() < began + WAIT_S and (carried_s == 0.0 or time.monotonic() < carried_s + 5):
            while written < (time.monotonic() - began) * given.rate:
                producer.produce(topic, value, partition=0)
                written += 1
            producer.poll(0)
            found = [each for each in consumer.consume(10_000, 0.02) if each.error() is None]
            if found:
                offset = (found[-1].offset() or 0) + 1
                # The group has no coordinator at first: a later commit has the offset.
                with contextlib.suppress(KafkaException):
                    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                    commits.append((time.monotonic(), offset))
            if carried_s == 0.0 and len(commits) % 50 == 49 and asyncio.run(committed(target.bootstrap, group, key)):
                carried_s = time.monotonic()
        for node in source.nodes:
            node.kill()
        killed_s = time.monotonic()
    finally:
        producer.purge()
        consumer.close()
        mirror.kill()
    found_offset = asyncio.run(committed(target.bootstrap, group, key)) or 0
    then_s = next((at for at, offset in commits if offset >= found_offset), began)
    return commits[-1][1] - found_offset, (killed_s - then_s) * 1000


async def committed(bootstrap: str, group: str, key: Key) -> int | None:
    async with AdminClient(bootstrap) as client:
        found = (await client.group_offsets.fetch([group])).whole()[group].get(key)
    return None if found is None else found.offset


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns the exit code (`goals.measure`)."""
    given = arguments(argv)
    of = {"cost": cost, "lag": lag, "groups": groups}
    with tempfile.TemporaryDirectory(prefix="bench-link-") as name:
        return goals.measure(PROGRAM, given, GOALS, lambda part: of[part](Path(name) / part, given))


if __name__ == "__main__":
    sys.exit(main())
