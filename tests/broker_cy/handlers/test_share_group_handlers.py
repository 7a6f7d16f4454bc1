"""The APIs of share groups over a whole broker: membership with real state at its share coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features
from broker_cy.wire import messages as m
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run
from tests.broker_cy.share_service.share_broker import ACCEPT, ShareBroker

NONE = ErrorCode.NONE
G = "sharers"
SETTINGS = {"group.share.assignment.interval.ms": "0"}
Work = Callable[[ShareBroker], Awaitable[None]]


def served(path: Path, work: Work) -> None:
    async def whole() -> None:
        async with ShareBroker(path, SETTINGS) as broker:
            await broker.prepare("t", "u")
            await work(broker)

    run(whole)


async def beat(broker: GroupBroker, epoch: int, *names: str, member_id: str = "m") -> Any:
    request = m.ShareGroupHeartbeatRequest(
        group_id=G, member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(names) if names else None
    )
    return await broker.call(request, 1)


async def joined(broker: GroupBroker, *names: str) -> Any:
    """Join, and beat until the member has partitions; returns the last answer."""
    async with asyncio.timeout(20):
        answer = await beat(broker, 0, *(names or ("t",)))
        assert answer.error_code == NONE, answer
        while answer.assignment is None or not answer.assignment.topic_partitions:
            await asyncio.sleep(0.01)
            answer = await beat(broker, answer.member_epoch)
            assert answer.error_code == NONE, answer
        return answer


async def offsets_of(broker: GroupBroker, topics: list[tuple[str, list[int]]] | None = None, version: int = 1) -> Any:
    request = m.DescribeShareGroupOffsetsRequest
    group = request.DescribeShareGroupOffsetsRequestGroup(
        group_id=G,
        topics=None
        if topics is None
        else [
            request.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in topics
        ],
    )
    (found,) = (await broker.call(request(groups=[group]), version)).groups
    assert found.error_code == NONE, found
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag, ErrorCode(each.error_code))
        for topic in found.topics
        for each in topic.partitions
    }


async def alter(broker: GroupBroker, topic: str, partition: int, offset: int) -> Any:
    request = m.AlterShareGroupOffsetsRequest
    each = request.AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    wanted = request.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[each])
    return await broker.call(request(group_id=G, topics=[wanted]), 0)


async def delete_group(broker: GroupBroker, *group_ids: str) -> dict[str, ErrorCode]:
    answer = await broker.call(m.DeleteGroupsRequest(groups_names=list(group_ids)), 2)
    return {each.group_id: ErrorCode(each.error_code) for each in answer.results}


def test_a_member_reads_the_partitions_that_it_gets(tmp_path: Path) -> None:
    """If this fails, share groups do not work at all."""

    async def work(broker: ShareBroker) -> None:
        answer = await joined(broker)
        (topic,) = answer.assignment.topic_partitions
        assert topic.partitions == [0, 1]
        await broker.configure_group(G, "share.auto.offset.reset", "earliest")
        await broker.produce(3)
        consumer = await broker.consumer("m", G)
        found = await consumer.fetch(topic.topic_id, wait_ms=10_000)
        assert [(each.first, each.last) for each in found] == [(0, 2)]
        assert await consumer.acknowledge(topic.topic_id, (0, 1, [ACCEPT])) == NONE
        # The start offset that is persisted is the one before the acknowledgement.
        assert (await offsets_of(broker))["t", 0] == (0, 1, NONE)
        described = (await broker.call(m.ShareGroupDescribeRequest(group_ids=[G]), 1)).groups[0]
        assert (described.error_code, described.group_state, described.assignor_name) == (NONE, "Stable", "simple")
        assert [each.member_id for each in described.members] == ["m"]
        listed = (await broker.call(m.ListGroupsRequest(types_filter=["share"]), 5)).groups
        assert [(each.group_id, each.group_state) for each in listed] == [(G, "Stable")]

    served(tmp_path, work)


def test_offsets_are_altered_described_and_deleted(tmp_path: Path) -> None:
    """If this fails, kafka-share-groups cannot reset offsets, or shows another lag than the one of the group."""

    async def work(broker: ShareBroker) -> None:
        await joined(broker)
        await broker.produce(10)
        assert (await alter(broker, "t", 0, 4)).error_code == ErrorCode.NON_EMPTY_GROUP
        request = m.DeleteShareGroupOffsetsRequest
        deletion = request(group_id=G, topics=[request.DeleteShareGroupOffsetsRequestTopic(topic_name="t")])
        assert (await broker.call(deletion, 0)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await beat(broker, -1)).error_code == NONE
        altered = await alter(broker, "t", 0, 4)
        assert altered.error_code == NONE
        assert altered.responses[0].partitions[0].error_code == NONE
        # KAFKA-20034: the lag is known after an alteration.
        assert await offsets_of(broker) == {("t", 0): (4, 6, NONE), ("t", 1): (-1, -1, NONE)}
        wanted = [("t", [0, 9]), ("u", [0]), ("missing", [3])]
        assert await offsets_of(broker, wanted) == {
            ("t", 0): (4, 6, NONE),
            ("t", 9): (-1, -1, NONE),
            ("u", 0): (-1, -1, NONE),
            ("missing", 3): (-1, -1, NONE),
        }
        assert (await offsets_of(broker, [("t", [0])], 0))["t", 0][0] == 4
        assert await offsets_of(broker, []) == {}
        answer = await broker.call(deletion, 0)
        assert [(each.topic_name, each.error_code) for each in answer.responses] == [("t", NONE)]
        assert await offsets_of(broker) == {}
        assert await offsets_of(broker, [("t", [0])]) == {("t", 0): (-1, -1, NONE)}

    served(tmp_path, work)


def test_groups_are_deleted_with_others_and_with_their_state(tmp_path: Path) -> None:
    """If this fails, kafka-share-groups --delete leaves state behind, or DeleteGroups names a group twice."""

    async def work(broker: ShareBroker) -> None:
        await joined(broker)
        assert await delete_group(broker, G, "missing") == {
            G: ErrorCode.NON_EMPTY_GROUP,
            "missing": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        await beat(broker, -1)
        await alter(broker, "t", 0, 4)
        assert await delete_group(broker, G, "missing") == {G: NONE, "missing": ErrorCode.GROUP_ID_NOT_FOUND}
        assert await offsets_of(broker, [("t", [0])]) == {("t", 0): (-1, -1, NONE)}
        assert (await broker.call(m.ListGroupsRequest(), 5)).groups == []

    served(tmp_path, work)


def test_groups_and_their_partitions_are_there_after_a_start(tmp_path: Path) -> None:
    """If this fails, a restart of the broker removes share groups, or resets their offsets."""

    async def first(broker: ShareBroker) -> None:
        await joined(broker)
        await beat(broker, -1)
        await alter(broker, "t", 1, 7)

    async def second(broker: ShareBroker) -> None:
        assert (await offsets_of(broker))["t", 1][0] == 7
        answer = await joined(broker)
        assert answer.assignment.topic_partitions[0].partitions == [0, 1]
        assert (await offsets_of(broker))["t", 1][0] == 7

    served(tmp_path, first)

    async def again() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            await broker.prepare()
            await second(broker)

    run(again)


def test_malformed_requests_have_kafkas_codes(tmp_path: Path) -> None:
    """If this fails, clients get an error that they do not expect, or none."""

    async def work(broker: ShareBroker) -> None:
        assert (await beat(broker, 0, "t", member_id="")).error_code == ErrorCode.INVALID_REQUEST
        assert (await beat(broker, 0, "t", member_id="m" * 37)).error_code == ErrorCode.INVALID_REQUEST
        assert (await beat(broker, 0)).error_code == ErrorCode.INVALID_REQUEST
        assert (await beat(broker, 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        described = (await broker.call(m.ShareGroupDescribeRequest(group_ids=["", "missing"]), 1)).groups
        assert [each.error_code for each in described] == [ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND]
        alteration = await broker.call(m.AlterShareGroupOffsetsRequest(group_id="", topics=[]), 0)
        assert alteration.error_code == ErrorCode.INVALID_GROUP_ID
        deletion = await broker.call(m.DeleteShareGroupOffsetsRequest(group_id="", topics=[]), 0)
        assert deletion.error_code == ErrorCode.INVALID_GROUP_ID
        missing = await broker.call(m.DeleteShareGroupOffsetsRequest(group_id="missing", topics=[]), 0)
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    served(tmp_path, work)


def test_share_groups_are_not_served_before_their_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, members join while the operator has not enabled share groups."""
    monkeypatch.setitem(features.SUPPORTED, features.SHARE_VERSION, (0, 0))

    async def work(broker: ShareBroker) -> None:
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        assert (await beat(broker, 0, "t")).error_code == unsupported
        described = (await broker.call(m.ShareGroupDescribeRequest(group_ids=[G]), 1)).groups[0]
        assert (described.group_id, described.error_code) == (G, unsupported)
        request = m.DescribeShareGroupOffsetsRequest
        group = request.DescribeShareGroupOffsetsRequestGroup(group_id=G, topics=None)
        assert (await broker.call(request(groups=[group]), 1)).groups[0].error_code == unsupported
        assert (await alter(broker, "t", 0, 1)).error_code == unsupported
        deletion = await broker.call(m.DeleteShareGroupOffsetsRequest(group_id=G, topics=[]), 0)
        assert deletion.error_code == unsupported

    served(tmp_path, work)
