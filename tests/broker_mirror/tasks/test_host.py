"""The tasks of a flow between two clusters of this broker."""

from __future__ import annotations

import asyncio

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Producer
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_mirror.config import parse_config
from broker_mirror.flows import Flow, flows_of
from broker_mirror.formats import checkpoints, heartbeats
from broker_mirror.formats.offset_syncs import OffsetSync
from broker_mirror.tasks.host import FlowTasks
from tests.broker_mirror.conftest import Clusters

TIMEOUT_S = 60.0


def flow_of(clusters: Clusters, **more: str) -> Flow:
    (flow,) = flows_of(parse_config(clusters.properties(**more), "f"))
    return flow


async def read(client: AdminClient, topic: str) -> list[Record]:
    """Return all records of a topic with one partition."""
    found: list[Record] = []
    key = TopicPartition(topic, 0)
    (end,) = (await client.offsets.latest([key])).whole().values()
    async with client.topic_log(topic, lambda chunk: found.extend(chunk.records)) as log:
        await log.read_to(end)
    return found


def test_topics_and_settings_follow_the_source(clusters: Clusters) -> None:
    """If this fails, remote topics are missing, have too few partitions, or delete records too early."""

    async def job() -> None:
        source, target = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        flow = flow_of(clusters, topics="follow.*")
        async with source, target, FlowTasks(flow, source, target) as tasks:
            new = NewTopic("follow-1", 2, 1, {"retention.ms": "60000", "min.insync.replicas": "1"})
            (await source.topics.create([new])).whole()
            plan = await tasks.refresh_topics(changes=True)
            assert [str(each) for each in plan.partitions] == ["follow-1-0", "follow-1-1"]
            topic = (await target.topics.describe(["A.follow-1"])).whole()["A.follow-1"]
            assert len(topic.partitions) == 2

            remote, ours = (ConfigResource(ResourceType.TOPIC, name) for name in ("A.follow-1", "follow-1"))
            (await source.topics.add_partitions({"follow-1": 3})).whole()
            changes = [
                ConfigChange("retention.ms", AlterOp.DELETE),
                ConfigChange("max.message.bytes", AlterOp.SET, "5000"),
            ]
            (await source.configs.alter({ours: changes})).whole()
            await tasks.refresh_topics(changes=True)
            await tasks.sync_topic_configs()
            topic = (await target.topics.describe(["A.follow-1"])).whole()["A.follow-1"]
            assert len(topic.partitions) == 3
            entries = (await target.configs.describe([remote])).whole()[remote]
            own = {each.name: each.value for each in entries if each.source.name == "DYNAMIC_TOPIC_CONFIG"}
            assert own == {"max.message.bytes": "5000"}
            assert tasks.problems == {"refresh.topics": {}, "sync.topic.configs": {}}

    asyncio.run(job())


def test_a_process_that_does_not_lead_changes_nothing(clusters: Clusters) -> None:
    """If this fails, processes of one flow change topics against each other."""

    async def job() -> None:
        source, target = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        async with source, target, FlowTasks(flow_of(clusters, topics="watched"), source, target) as tasks:
            (await source.topics.create([NewTopic("watched", 1, 1)])).whole()
            plan = await tasks.refresh_topics(changes=False)
            assert plan.topics == ("watched",)
            assert "A.watched" not in await target.topics.names()

    asyncio.run(job())


def test_topics_that_cannot_be_created_are_named(clusters: Clusters) -> None:
    """If this fails, a user does not see why a topic is missing in the target."""

    async def job() -> None:
        source, target = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        flow = flow_of(clusters, topics="wide", replication__factor="3")
        async with source, target, FlowTasks(flow, source, target) as tasks:
            (await source.topics.create([NewTopic("wide", 1, 1)])).whole()
            await tasks.refresh_topics(changes=True)
            (text,) = tasks.problems["refresh.topics"].values()
            assert "INVALID_REPLICATION_FACTOR" in text

    asyncio.run(job())


def test_heartbeats_name_both_clusters(clusters: Clusters) -> None:
    """If this fails, the failure of a mirror is not seen."""

    async def job() -> None:
        source, target = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        async with source, target, FlowTasks(flow_of(clusters), source, target) as tasks:
            for _ in range(2):
                await tasks.emit_heartbeat()
            found = [heartbeats.decode(each.key, each.value) for each in await read(target, "heartbeats")]
            assert {(each.source, each.target) for each in found} == {("A", "B")}

    asyncio.run(job())


def test_groups_have_checkpoints_and_offsets_in_the_target(clusters: Clusters) -> None:
    """If this fails, a group reads records again after a failover, or does not find its place."""

    async def job() -> None:
        source, target = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        flow = flow_of(clusters, topics="read")
        here, there = TopicPartition("read", 0), TopicPartition("A.read", 0)
        async with source, target, FlowTasks(flow, source, target) as tasks:
            (await source.topics.create([NewTopic("read", 1, 1)])).whole()
            (await source.group_offsets.alter("readers", {here: 7}, {here: "note"})).whole()
            await tasks.refresh_topics(changes=True)
            await tasks.refresh_groups()
            # Without offset syncs, no offset has a translation.
            await tasks.emit_checkpoints()
            assert await read(target, "A.checkpoints.internal") == []

            sync = OffsetSync("read", 0, 9, 4, 5)
            record = Record(timestamp=1, key=sync.key(), value=sync.value(), headers=sync.headers())
            await Producer(source.caller).send_batch(TopicPartition("mm2-offset-syncs.B.internal", 0), [record])
            await tasks.emit_checkpoints()
            await tasks.emit_checkpoints()
            found = [checkpoints.decode(each.key, each.value) for each in await read(target, "A.checkpoints.internal")]
            assert found == [checkpoints.Checkpoint("readers", "A.read", 0, 7, 2, "note")]
            assert tasks.translated == {"readers": 1}

            await tasks.sync_group_offsets()
            committed = (await target.group_offsets.fetch(["readers"])).whole()["readers"]
            assert {key: (each.offset, each.metadata) for key, each in committed.items()} == {there: (2, "note")}
            # The source goes back, and so does the group in the target.
            (await source.group_offsets.alter("readers", {here: 6})).whole()
            await tasks.emit_checkpoints()
            await tasks.sync_group_offsets()
            assert (await target.group_offsets.fetch(["readers"])).whole()["readers"][there].offset == 1
            # The group has gone on in the target.
            (await target.group_offsets.alter("readers", {there: 4})).whole()
            await tasks.sync_group_offsets()
            assert (await target.group_offsets.fetch(["readers"])).whole()["readers"][there].offset == 4
            assert not any(tasks.problems.values())

        # A new process continues with the checkpoints that were written.
        source, target = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        async with source, target, FlowTasks(flow, source, target) as tasks:
            await tasks.refresh_groups()
            await tasks.emit_checkpoints()
            assert len(await read(target, "A.checkpoints.internal")) == 2

    asyncio.run(job())
