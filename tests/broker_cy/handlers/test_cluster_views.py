"""The view that clients get of a cluster of several brokers: Metadata, DescribeCluster, DescribeTopicPartitions and
FindCoordinator, over two listeners.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.control.watch import suspects
from broker_cy.control.watch.suspects import Suspects
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import load_handlers
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import NO_LEADER, MetadataImage
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until
from tests.broker_cy.coordinator_services.other_brokers import broker_image, change, learn, partition_image
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, create, with_broker

load_handlers()
FENCED = 4
ALL = (1, 2, 3, FENCED)


async def a_cluster(broker: MetadataBroker) -> None:
    """Brokers 1 to 3 and a fenced one; topic t: broker i + 1 leads partition i, and partition 3 has no leader."""
    await create(broker, "t", 4)
    brokers = [broker_image(2, rack="r2"), broker_image(3), broker_image(FENCED, fenced=True)]
    leaders = {("t", i): partition_image(i + 1, ALL, 5 + i)._replace(isr=(1, 2, 3)) for i in range(3)}
    leaders["t", 3] = partition_image(NO_LEADER, (FENCED,), 9)._replace(isr=(), elr=(FENCED,), last_known_elr=(2,))
    learn(broker.controller, brokers, leaders)


def wanted() -> messages.MetadataRequest:
    return messages.MetadataRequest(topics=[messages.MetadataRequest.MetadataRequestTopic(name="t")])


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_several_brokers(tmp_path: Path, version: int) -> None:
    """If this fails, clients of this version find the wrong leader, or a broker that does not serve them."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        response = await broker.call(wanted(), version)
        assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
            (1, "host-a", 9092),
            (2, "host-2", 9092),
            (3, "host-3", 9092),
        ]
        partitions = response.topics[0].partitions
        assert [each.leader_id for each in partitions] == [1, 2, 3, -1]
        codes = [ErrorCode(each.error_code).name for each in partitions]
        # Version 0 hides replicas that are down, and says so.
        fine = "NONE" if version else "REPLICA_NOT_AVAILABLE"
        assert codes == [fine] * 3 + ["LEADER_NOT_AVAILABLE"]
        assert partitions[0].replica_nodes == ([1, 2, 3, FENCED] if version else [1, 2, 3])
        assert partitions[0].isr_nodes == [1, 2, 3]
        if version >= 1:
            assert [each.rack for each in response.brokers] == ["r1", "r2", None]
        if version >= 5:
            assert [each.offline_replicas for each in partitions] == [[FENCED]] * 4
        if version >= 7:
            assert [each.leader_epoch for each in partitions] == [5, 6, 7, 9]
        other = await broker.call(wanted(), version, listener="OTHER")
        assert [(each.node_id, each.host) for each in other.brokers] == [(1, "host-b"), (2, "other-2")]
        hidden = other.topics[0].partitions[2]
        assert hidden.leader_id == -1
        expected = "LISTENER_NOT_FOUND" if version >= 6 else "LEADER_NOT_AVAILABLE"
        assert ErrorCode(hidden.error_code).name == expected
        if version >= 5:
            assert hidden.offline_replicas == [3, FENCED]

    with_broker(tmp_path, work)


def test_replica_in_an_offline_directory_is_offline(tmp_path: Path) -> None:
    """If this fails, tools report a replica on a failed disk as online."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        lost = partition_image(1, (1, 2), 6)._replace(directories=(UUID(int=1), UUID(int=77)))
        directories = (UUID(int=99),)
        learn(broker.controller, [broker_image(2)._replace(log_dirs=directories)], {("t", 0): lost})
        response = await broker.call(wanted(), 13)
        assert response.topics[0].partitions[0].offline_replicas == [2]

    with_broker(tmp_path, work)


def test_any_running_broker_is_the_controller_of_clients(tmp_path: Path) -> None:
    """If this fails, all administrative requests of all clients go to one broker, or to one that is down."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        found: set[int] = set()
        described: set[int] = set()
        for _ in range(200):
            found.add((await broker.call(wanted(), 9)).controller_id)
            described.add((await broker.call(messages.DescribeClusterRequest(), 2)).controller_id)
        assert (found, described) == ({1, 2, 3}, {1, 2, 3})

    with_broker(tmp_path, work)


def test_describe_cluster_of_several_brokers(tmp_path: Path) -> None:
    """If this fails, an operator does not see a broker that is down."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        for request, version, expected in [
            (messages.DescribeClusterRequest(), 0, [(1, False), (2, False), (3, False)]),
            (messages.DescribeClusterRequest(), 2, [(1, False), (2, False), (3, False)]),
            (
                messages.DescribeClusterRequest(include_fenced_brokers=True),
                2,
                [(1, False), (2, False), (3, False), (FENCED, True)],
            ),
        ]:
            response = await broker.call(request, version)
            assert [(each.broker_id, each.is_fenced) for each in response.brokers] == expected
        other = await broker.call(messages.DescribeClusterRequest(), 2, listener="OTHER")
        assert [(each.broker_id, each.host, each.rack) for each in other.brokers] == [
            (1, "host-b", "r1"),
            (2, "other-2", "r2"),
        ]

    with_broker(tmp_path, work)


def test_describe_topic_partitions_of_several_brokers(tmp_path: Path) -> None:
    """If this fails, kafka-topics --describe shows no eligible leader replicas (KIP-966)."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        topic = messages.DescribeTopicPartitionsRequest.TopicRequest(name="t")
        response = await broker.call(messages.DescribeTopicPartitionsRequest(topics=[topic]), 0)
        partitions = response.topics[0].partitions
        assert [(each.leader_id, each.isr_nodes) for each in partitions] == [
            (1, [1, 2, 3]),
            (2, [1, 2, 3]),
            (3, [1, 2, 3]),
            (-1, []),
        ]
        last = partitions[3]
        assert (last.eligible_leader_replicas, last.last_known_elr, last.offline_replicas) == ([FENCED], [2], [FENCED])

    with_broker(tmp_path, work)


def find(*groups: str) -> messages.FindCoordinatorRequest:
    return messages.FindCoordinatorRequest(coordinator_keys=list(groups))


def test_coordinator_is_the_leader_of_the_partition(tmp_path: Path) -> None:
    """If this fails, members of a group are sent to a broker that does not coordinate it."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            server = broker.server
            place = (topic_names.CONSUMER_OFFSETS, server.broker.groups.partition_for(GROUP))
            broker.learn([broker_image(2)], {place: partition_image(2)})
            for version, request in [(6, find(GROUP)), (3, messages.FindCoordinatorRequest(key=GROUP))]:
                answer = await broker.call(request, version)
                found: Any = answer.coordinators[0] if version >= 4 else answer
                assert (found.error_code, found.node_id, found.host) == (ErrorCode.NONE, 2, "host-2")
            broker.learn([broker_image(2, fenced=True)], {})
            (found,) = (await broker.call(find(GROUP), 6)).coordinators
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    run(work)


# ---- while a broker is suspected to be gone ----


def test_coordinator_of_a_topic_that_went_while_its_leader_was_suspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the connection of a client that looks for a coordinator is closed, because the broker stops."""
    monkeypatch.setattr(suspects, "HOLD_S", 60.0)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            served = broker.server.broker
            place = (topic_names.CONSUMER_OFFSETS, served.groups.partition_for(GROUP))
            learn(served.controller, [broker_image(2)], {place: partition_image(2)})
            served.suspects.suspect(2)
            asked = asyncio.ensure_future(broker.call(find(GROUP), 6))
            await until(lambda: len(served.suspects._waiters) > 0)
            await served.groups.stop()
            served.suspects.apply(learn(served.controller, [broker_image(2, fenced=True)], {}))
            (found,) = (await asked).coordinators
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    run(work)


def test_metadata_of_a_suspected_leader_waits_for_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the first response after a broker died still names it, and the client loses seconds."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        monkeypatch.setattr(suspects, "HOLD_S", 60.0)
        broker.suspects.suspect(3)
        asked = asyncio.ensure_future(broker.call(wanted(), 13))
        await until(lambda: len(broker.suspects._waiters) > 0)
        # Others are not held: nothing that they name is suspected.
        nothing = messages.MetadataRequest(topics=[])
        assert len((await broker.call(nothing, 13)).brokers) == 3
        assert not asked.done()
        delta = change(
            broker.image, [broker_image(3, fenced=True)], {("t", 2): partition_image(1, ALL, 8)._replace(isr=(1, 2))}
        )
        broker.suspects.apply(delta)
        response = await asked
        assert [each.leader_id for each in response.topics[0].partitions] == [1, 2, 1, -1]
        assert (broker.suspects.ids, len(broker.suspects._waiters)) == (set(), 0)

    with_broker(tmp_path, work)


def test_metadata_is_not_held_for_longer_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients without a controller get no metadata at all."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        monkeypatch.setattr(suspects, "HOLD_S", 0.01)
        broker.suspects.suspect(3)
        broker.suspects.suspect(3)
        response = await broker.call(wanted(), 13)
        assert [each.leader_id for each in response.topics[0].partitions] == [1, 2, 3, -1]
        await until(lambda: not broker.suspects.ids)
        assert len(broker.suspects._waiters) == 0

    with_broker(tmp_path, work)


def test_metadata_of_a_leader_that_is_gone_is_held_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients are sent to a killed leader while the controllers elect one of them."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        monkeypatch.setattr(suspects, "HOLD_S", 0.0)
        monkeypatch.setattr(suspects, "GONE_S", 60.0)
        broker.suspects.suspect(3)
        broker.suspects.gone(3)
        asked = asyncio.ensure_future(broker.call(wanted(), 13))
        await until(lambda: len(broker.suspects._waiters) > 0)
        assert broker.suspects.ids == {3}
        broker.suspects.clear(3)
        await asked

    with_broker(tmp_path, work)


def test_broker_that_was_fenced_just_now_is_still_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, librdkafka ignores for a second the new leaders that a Metadata response names."""

    async def work(broker: MetadataBroker) -> None:
        await a_cluster(broker)
        delta = learn(broker.controller, [broker_image(3)], {})
        broker.departed.apply(delta, broker.image)
        delta = change(
            broker.image, [broker_image(3, fenced=True)], {("t", 2): partition_image(1, ALL, 8)._replace(isr=(1, 2))}
        )
        broker.departed.apply(delta, broker.image)
        response = await broker.call(wanted(), 13)
        assert [each.node_id for each in response.brokers] == [1, 2, 3]
        assert response.controller_id in (1, 2)
        # A request for the brokers only, or for all topics, returns only unfenced brokers.
        for request in (messages.MetadataRequest(topics=[]), messages.MetadataRequest(topics=None)):
            response = await broker.call(request, 13)
            assert [each.node_id for each in response.brokers] == [1, 2]
        monkeypatch.setattr(suspects, "DEPARTED_S", 0.0)
        broker.departed.apply(learn(broker.controller, [broker_image(3)], {}), broker.image)
        broker.departed.apply(learn(broker.controller, [broker_image(3, fenced=True)], {}), broker.image)
        assert [each.node_id for each in (await broker.call(wanted(), 13)).brokers] == [1, 2]

    with_broker(tmp_path, work)


def test_coordinator_that_is_suspected_is_named_after_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, members of a group connect to a broker that is gone."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            monkeypatch.setattr(suspects, "HOLD_S", 60.0)
            server = broker.server
            place = (topic_names.CONSUMER_OFFSETS, server.broker.groups.partition_for(GROUP))
            broker.learn([broker_image(2), broker_image(3)], {place: partition_image(2)})
            server.broker.suspects.suspect(2)
            asked = asyncio.ensure_future(broker.call(find(GROUP), 6))
            await until(lambda: len(server.broker.suspects._waiters) > 0)
            broker.learn([broker_image(2, fenced=True)], {place: partition_image(3, (3,), 2)})
            assert (await asked).coordinators[0].node_id == 3

    run(work)


def test_verdict_on_one_of_two_suspects_is_not_enough() -> None:
    """If this fails, a response still names the second of two brokers that died together."""

    async def work() -> None:
        found = Suspects(asyncio.get_running_loop())
        found.suspect(2)
        found.suspect(3)
        waiting = asyncio.ensure_future(found.verdict(lambda: [2, 3]))
        await until(lambda: len(found._waiters) > 0)
        found.clear(2)
        await asyncio.sleep(0)
        assert not waiting.done()
        found.stop()
        await waiting
        await found.verdict(lambda: [2, 3])
        assert (found.ids, found._timers) == (set(), {})

    run(work)


def test_other_leaders_are_shown_before_the_verdict() -> None:
    """If this fails, clients wait for the fencing of a dead broker although its partitions have other leaders."""

    async def work() -> None:
        found, named = Suspects(asyncio.get_running_loop()), [2]
        found.suspect(2)
        waiting = asyncio.ensure_future(found.verdict(lambda: named))
        await until(lambda: len(found._waiters) > 0)
        image = MetadataImage()
        # A change of other partitions.
        found.apply(change(image, [], {("u", 0): partition_image(1)}))
        await asyncio.sleep(0)
        assert not waiting.done()
        await until(lambda: len(found._waiters) > 0)
        named[0] = 3
        found.apply(change(image, [], {("t", 0): partition_image(3)}))
        await waiting
        assert found.ids == {2}
        found.stop()

    run(work)


def test_partition_of_another_broker_is_not_unknown(tmp_path: Path) -> None:
    """If this fails, a client treats a topic as deleted if it asks a broker that does not have the partition."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            broker.learn([broker_image(2)], {("t", 0): partition_image(2)})
            # Partition 2 does not exist in the metadata.
            for index, expected in [(0, "NOT_LEADER_OR_FOLLOWER"), (1, "NONE"), (2, "UNKNOWN_TOPIC_OR_PARTITION")]:
                for request, version in requests_about(index):
                    answer = await broker.call(request, version)
                    code = ErrorCode(answer.topics[0].partitions[0].error_code).name
                    assert code == expected, type(request).__name__

    run(work)


def requests_about(index: int) -> list[tuple[Any, int]]:
    """One request of each API that asks the leader about a partition of topic t."""
    offsets = messages.ListOffsetsRequest.ListOffsetsTopic(
        name="t", partitions=[messages.ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)]
    )
    epochs = messages.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic="t", partitions=[messages.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index)]
    )
    deletions = messages.DeleteRecordsRequest.DeleteRecordsTopic(
        name="t", partitions=[messages.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=0)]
    )
    producers = messages.DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[index])
    return [
        (messages.ListOffsetsRequest(topics=[offsets], replica_id=-1), 9),
        (messages.OffsetForLeaderEpochRequest(topics=[epochs], replica_id=-1), 4),
        (messages.DeleteRecordsRequest(topics=[deletions], timeout_ms=1_000), 2),
        (messages.DescribeProducersRequest(topics=[producers]), 0),
    ]
