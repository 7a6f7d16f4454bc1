"""MirrorMaker 2 4.3.1 itself: it is replaced without copying a record again, and its client reads our checkpoints."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from bench.launch.mirrors import class_path
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.mirror_status import FlowStatus
from broker_cy.launch.processes import Child
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


def test_mirror_maker_is_replaced(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a move from MirrorMaker 2 copies all records a second time."""
    properties = {**distribution(clusters), "offset.flush.interval.ms": "1000", "refresh.topics.interval.seconds": "1"}

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("moved", 1, 1)])).whole()
        await send(a, "moved", range(100))

    both(clusters, begin)
    file = tmp_path / "mm2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    program = "org.apache.kafka.connect.mirror.MirrorMaker"
    theirs = Child(["java", "-XX:TieredStopAtLevel=1", "-cp", class_path(), program, str(file)], tmp_path, "mm2")
    try:

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
    finally:
        theirs.kill()

    async def more(a: AdminClient, b: AdminClient) -> None:
        await send(a, "moved", range(100, 150))

    both(clusters, more)
    with running_mirror(properties, tmp_path, "ours") as ours:
        ours.until("A->B", has_all, "the new records to be copied")

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "A.moved") == values(range(150))

    both(clusters, check)


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
