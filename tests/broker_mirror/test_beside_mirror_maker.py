"""MirrorMaker 2 4.3.1 itself: it is replaced without copying a record again, copies the same beside ours, and its
client reads our checkpoints.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.launch.mirrors import class_path
from broker_cy.admin import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.admin.topics import NewTopic
from broker_cy.client.mirror_status import FlowStatus
from broker_cy.launch.processes import Child
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record
from tests.broker_mirror.conftest import Clusters
from tests.broker_mirror.mirror_process import running_mirror
from tests.broker_mirror.oracle import mirror_maker
from tests.broker_mirror.test_end_to_end import QUICK, both, read, send, values
from tests.support import needs
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.java]
START_S = 240.0
# The file of Kafka's distribution, config/connect-mirror-maker.properties, with addresses of this machine.
DISTRIBUTION = """\
clusters = A, B
A.bootstrap.servers = {a}
B.bootstrap.servers = {b}
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
"""


def distribution(clusters: Clusters) -> dict[str, str]:
    """Return the settings of the distribution's file."""
    text = DISTRIBUTION.format(a=clusters.a.bootstrap, b=clusters.b.bootstrap)
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def has_all(flow: FlowStatus) -> bool:
    return any(each.topic == "moved" and each.source_position == 150 for each in flow.partitions)


@contextmanager
def mirror_maker_process(properties: dict[str, str], directory: Path) -> Iterator[Child]:
    """MirrorMaker 2 with a file, until the end of the block; it may be stopped before."""
    file = directory / "mm2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    program = "org.apache.kafka.connect.mirror.MirrorMaker"
    child = Child(["java", "-XX:TieredStopAtLevel=1", "-cp", class_path(), program, str(file)], directory, "mm2")
    try:
        yield child
    finally:
        child.kill()


def test_mirror_maker_is_replaced(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a move from MirrorMaker 2 copies all records a second time."""
    properties = {**distribution(clusters), "offset.flush.interval.ms": "1000", "refresh.topics.interval.seconds": "1"}

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("moved", 1, 1)])).whole()
        await send(a, "moved", range(100))

    both(clusters, begin)
    with mirror_maker_process(properties, tmp_path) as theirs:

        async def copied(a: AdminClient, b: AdminClient) -> bool:
            names = await b.topics.names()
            if "A.moved" not in names or "mm2-offsets.A.internal" not in names:
                return False
            parts = [TopicPartition("mm2-offsets.A.internal", each) for each in range(25)]
            ends = (await b.offsets.latest(parts)).whole()
            return sum(ends.values()) > 0 and await read(b, "A.moved") == values(range(100))

        def moved() -> bool:
            assert theirs.returncode is None, theirs.tail()
            return both(clusters, copied)

        until(moved, "MirrorMaker 2 to copy the records, and to store its offsets", START_S)
        theirs.send_signal(signal.SIGTERM)
        theirs.wait(120.0)

    async def more(a: AdminClient, b: AdminClient) -> None:
        await send(a, "moved", range(100, 150))

    both(clusters, more)
    with running_mirror(properties, tmp_path, "ours") as ours:
        ours.until("A->B", has_all, "the new records to be copied")

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "A.moved") == values(range(150))

    both(clusters, check)


async def records_of(client: AdminClient, topic: str, partition: int, offset: int = 0) -> list[tuple[object, ...]]:
    """The committed records of a partition from an offset on: timestamp, key, value, headers."""
    key = TopicPartition(topic, partition)
    ends = (await client.offsets.latest([key], isolation=Isolation.READ_COMMITTED)).whole()
    found: list[tuple[object, ...]] = []
    async with Reader(client.caller, {key: offset}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            found += [(each.timestamp, each.key, each.value, list(each.headers)) for each in chunk.records]
    return found


async def settings_of(client: AdminClient, topic: str) -> dict[str, str | None]:
    """The settings that the topic has of its own."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = (await client.configs.describe([resource])).whole()[resource]
    return {each.name: each.value for each in entries if each.source.name == "DYNAMIC_TOPIC_CONFIG"}


async def fill(a: AdminClient, first: int, topic: str = "beside") -> None:
    """Records with and without keys, values and headers, also in transactions; every second transaction is aborted."""
    now_ms = int(time.time() * 1000)
    for step, codec in enumerate(Codec):
        records = [
            Record(
                timestamp=now_ms + each,
                key=b"k%d" % each if each % 3 else None,
                value=b"%d-%d" % (first + step, each) if each % 5 else None,
                headers=[("h", b"%d" % each), ("none", None)] if each % 2 else [],
            )
            for each in range(40)
        ]
        producer = a.transactional_producer(f"{topic}-{step}", codec=codec)
        await producer.begin()
        await producer.send(topic, records, partition=step % 2)
        await (producer.abort() if step % 2 else producer.commit())
        await a.records.producer(codec=codec).send(topic, records[:25], partition=1 - step % 2)


def test_both_copy_a_topic_beside_each_other(clusters: Clusters, tmp_path: Path) -> None:
    """Both run at the same time, from the same topic into the same cluster, under aliases of their own. If this fails,
    the target has other records, settings or partitions than with MirrorMaker 2, or a group continues later there.
    """
    mine = TopicPartition("beside", 0), TopicPartition("beside", 1)
    common = {
        "topics": "beside",
        "groups": "beside",
        "emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    theirs = {
        name: text for name, text in distribution(clusters).items() if not name.startswith(("B->A", "A->B.topics"))
    }
    aliases = {"A": "X", "B": "Y"}
    ours = {
        re.sub(r"\b[AB]\b", lambda found: aliases[found[0]], name): text
        for name, text in theirs.items()
        if name != "clusters"
    }

    # By default, it copies the records of aborted transactions.
    theirs["A.consumer.isolation.level"] = "read_committed"

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("beside", 2, 1, {"max.message.bytes": "500000"})])).whole()
        await fill(a, 0)

    async def commit(a: AdminClient, b: AdminClient) -> None:
        await fill(a, 10)
        (await a.group_offsets.alter("beside", {mine[0]: 70, mine[1]: 35})).whole()

    async def has_both(a: AdminClient, b: AdminClient) -> bool:
        if not {"A.beside", "X.beside"} <= set(await b.topics.names()):
            return False
        for part in mine:
            wanted = await records_of(a, *part)
            for alias in ("A", "X"):
                if await records_of(b, f"{alias}.beside", part.partition) != wanted:
                    return False
        return True

    async def has_offsets(a: AdminClient, b: AdminClient) -> bool:
        found = (await b.group_offsets.fetch(["beside"])).whole()["beside"]
        return {key.topic for key in found} == {"A.beside", "X.beside"} and len(found) == 4

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await settings_of(b, "X.beside") == await settings_of(b, "A.beside") == await settings_of(a, "beside")
        found = (await b.group_offsets.fetch(["beside"])).whole()["beside"]
        source = (await a.group_offsets.fetch(["beside"])).whole()["beside"]
        for part in mine:
            wanted = await records_of(a, *part, source[part].offset)
            rest = {}
            for alias in ("A", "X"):
                key = TopicPartition(f"{alias}.beside", part.partition)
                rest[alias] = await records_of(b, *key, found[key].offset)
            assert rest["X"] == wanted
            assert rest["A"][len(rest["A"]) - len(wanted) :] == wanted, "MirrorMaker 2 reads some of them again"

    both(clusters, begin)
    with (
        mirror_maker_process(common | theirs, tmp_path) as process,
        running_mirror(common | {"clusters": "X, Y"} | ours, tmp_path, "ours") as mirror,
    ):

        def holds(condition: Callable[[AdminClient, AdminClient], Awaitable[bool]]) -> bool:
            assert process.returncode is None, process.tail()
            return both(clusters, condition)

        until(lambda: holds(has_both), "both copies of the first records", START_S)
        both(clusters, commit)
        until(lambda: holds(has_both), "both copies of the further records", START_S)
        until(lambda: holds(has_offsets), "the offsets of the group in both copies", START_S)
        both(clusters, check)
        assert mirror.flow("X->Y").problems == {}


# Literals of several types.
TRANSFORMED = """\
topics = changed
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
refresh.topics.interval.seconds = 1
header.converter = org.apache.kafka.connect.storage.SimpleHeaderConverter
transforms = text, number, day, empty, none
predicates = tombstone, marked
A->B.transforms.text.type = org.apache.kafka.connect.transforms.InsertHeader
A->B.transforms.text.header = text
A->B.transforms.text.value.literal = eu-west-1
A->B.transforms.number.type = org.apache.kafka.connect.transforms.InsertHeader
A->B.transforms.number.header = number
A->B.transforms.number.value.literal = [1, 2.50]
A->B.transforms.number.predicate = marked
A->B.transforms.day.type = org.apache.kafka.connect.transforms.InsertHeader
A->B.transforms.day.header = day
A->B.transforms.day.value.literal = 2019-02-30
A->B.transforms.day.predicate = marked
A->B.transforms.day.negate = true
A->B.transforms.empty.type = org.apache.kafka.connect.transforms.Filter
A->B.transforms.empty.predicate = tombstone
A->B.transforms.none.type = org.apache.kafka.connect.transforms.DropHeaders
A->B.transforms.none.headers = none, x
A->B.predicates.tombstone.type = org.apache.kafka.connect.transforms.predicates.RecordIsTombstone
A->B.predicates.marked.type = org.apache.kafka.connect.transforms.predicates.HasHeaderKey
A->B.predicates.marked.name = h
"""


def test_both_transform_records_alike(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, records have other headers than with MirrorMaker 2, or others of them are left out."""
    pairs = (line.partition("=") for line in TRANSFORMED.splitlines())
    transforms = {name.strip(): text.strip() for name, _, text in pairs}
    theirs = distribution(clusters) | transforms | {"B->A.enabled": "false"}
    theirs.pop("A->B.topics")
    theirs.pop("B->A.topics")
    aliases = {"A": "X", "B": "Y"}
    ours = {re.sub(r"\b[AB]\b", lambda found: aliases[found[0]], name): text for name, text in theirs.items()}
    theirs["A.consumer.isolation.level"] = "read_committed"

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("changed", 2, 1)])).whole()
        await fill(a, 0, "changed")

    async def are_equal(a: AdminClient, b: AdminClient) -> bool:
        if not {"A.changed", "X.changed"} <= set(await b.topics.names()):
            return False
        for part in range(2):
            kept = [row for row in await records_of(a, "changed", part) if row[2] is not None]
            found = [await records_of(b, f"{alias}.changed", part) for alias in ("A", "X")]
            if not kept or found[0] != found[1] or len(found[0]) != len(kept):
                return False
        return True

    both(clusters, begin)
    with (
        mirror_maker_process(theirs, tmp_path) as process,
        running_mirror(ours | {"clusters": "X, Y"}, tmp_path, "ours") as mirror,
    ):

        def holds() -> bool:
            assert process.returncode is None, process.tail()
            return both(clusters, are_equal)

        until(holds, "equal copies", START_S)
        assert mirror.flow("X->Y").problems == {}


def test_its_client_reads_our_records(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, applications with RemoteClusterUtils do not find their offsets after a failover."""
    properties = clusters.properties(topics="clients", emit__heartbeats__enabled="true", **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("clients", 1, 1)])).whole()
        await send(a, "clients", range(100))
        (
            await a.group_offsets.alter("app", {TopicPartition("clients", 0): 70}, {TopicPartition("clients", 0): "x"})
        ).whole()

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror, mirror_maker() as java:
        mirror.until("A->B", lambda flow: "app" in flow.groups, "the group to have a checkpoint")
        found = java.ask(
            {"op": "remote", "props": {"bootstrap.servers": clusters.b.bootstrap}, "source": "A", "group": "app"}
        )
    assert found["offsets"] == {"A.clients-0": [70, "x"]}
    assert "A.checkpoints.internal" in found["checkpoints"]
    assert "heartbeats" in found["heartbeats"]
