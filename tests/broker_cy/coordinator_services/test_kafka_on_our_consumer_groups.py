"""Kafka's tool, and Apache Kafka itself, on consumer groups that this broker wrote; and this broker on them again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until
from tests.broker_cy.coordinator_services.group_client import Connection
from tests.support import needs
from tests.support.kafka_dump import dump_log_segments
from tests.support.kafka_peer import kafka_on

REBALANCE_MS = 60_000
READERS, OTHERS = "reader", "regex reader"
Call = Callable[[Any, int], Awaitable[Any]]
Request = messages.ConsumerGroupHeartbeatRequest


async def beat(call: Call, member_id: str, epoch: int, **fields: Any) -> Any:
    """A heartbeat that is not refused."""
    request = Request(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
    answer = await call(request, 1)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


async def enter(call: Call, member_id: str, **subscription: Any) -> Any:
    return await beat(call, member_id, 0, rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[], **subscription)


def owned(answer: Any) -> list[Request.TopicPartitions]:
    """The partitions that an answer assigns, as the member reports them."""
    return [
        Request.TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
        for each in answer.assignment.topic_partitions
    ]


async def fill(broker: GroupBroker) -> int:
    """A group with a static member, one of an expression, and one that has left; an offset. Returns its epoch."""
    await broker.prepare("t", "u")
    await enter(broker.call, READERS, instance_id="one", subscribed_topic_names=["t"])
    await enter(broker.call, "gone", subscribed_topic_names=["t"])
    await beat(broker.call, "gone", -1)
    await enter(broker.call, OTHERS, subscribed_topic_regex="u.*")
    group = broker.runtime().machine.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    await until(lambda: "u.*" in group.resolved)
    epoch = 0
    for member_id, fields in ((READERS, {"instance_id": "one"}), (OTHERS, {})) * 2:
        member = group.members[member_id]
        answer = await beat(broker.call, member_id, member.epoch, topic_partitions=[], **fields)
        if answer.assignment is not None:
            answer = await beat(broker.call, member_id, answer.member_epoch, topic_partitions=owned(answer), **fields)
        epoch = answer.member_epoch
    assert group.state_name == "Stable"
    commit: dict[str, Any] = {"member_id": READERS, "generation_id_or_member_epoch": epoch}
    assert await broker.commit(42, group_instance_id="one", **commit) == ErrorCode.NONE
    return epoch


def test_kafka_reads_our_records_of_consumer_groups(tmp_path: Path) -> None:
    """If this fails, a user cannot inspect consumer groups with Kafka's tools, nor return to Apache Kafka with them."""
    files: list[Path] = []

    async def write() -> None:
        async with GroupBroker(tmp_path, {"group.consumer.assignment.interval.ms": "0"}) as broker:
            await fill(broker)
            partition = broker.runtime().partition
            files.append(tmp_path / f"{partition.topic}-{partition.index}" / "00000000000000000000.log")

    run(write)
    dump = dump_log_segments(files, "--offsets-decoder")
    assert dump.count("isvalid: true") == dump.count("baseOffset:") > 3
    of_group, of_member = f'{{"groupId":"{GROUP}"}}', f'{{"groupId":"{GROUP}","memberId":"{READERS}"}}'
    for kind, data in (("3", of_group), ("5", of_member), ("6", of_group), ("7", of_member), ("8", of_member)):
        assert f'{{"type":"{kind}","data":{data}}} payload: {{"version":"0","data":' in dump, kind
    assert f'"type":"16","data":{{"groupId":"{GROUP}","regularExpression":"u.*"}}' in dump
    assert '"instanceId":"one"' in dump
    assert '"assignmentEpochs":[' in dump
    assert dump.count("payload: <DELETE>") == 3


@pytest.mark.full
@needs.kafka
def test_kafka_continues_our_consumer_groups(tmp_path: Path) -> None:
    """If this fails, a user who returns to Apache Kafka loses consumer groups, or the ones that Kafka has continued."""
    data = tmp_path / "data"
    epochs: list[int] = []
    settings = {"group.consumer.assignment.interval.ms": "0"}

    async def write() -> None:
        async with GroupBroker(data, settings) as broker:
            epochs.append(await fill(broker))

    async def continue_on(port: int) -> None:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
        found = await connection.described(messages.ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
        assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", epochs[0], epochs[0])
        held = {
            member.member_id: sorted(
                (each.topic_name, *sorted(each.partitions)) for each in member.assignment.topic_partitions
            )
            for member in found.members
        }
        assert held == {READERS: [("t", 0, 1)], OTHERS: [("u", 0, 1)]}
        assert {member.instance_id for member in found.members} == {"one", None}
        # Nothing has changed for Kafka: the metadata hash is its own.
        answer = await beat(connection.call, READERS, epochs[0], instance_id="one")
        assert (answer.member_epoch, answer.assignment) == (epochs[0], None)
        await beat(connection.call, OTHERS, epochs[0])
        await enter(connection.call, "new", subscribed_topic_names=["t"])
        connection.writer.close()

    async def read() -> None:
        async with GroupBroker(data, settings) as broker:
            group = broker.runtime().machine.groups[GROUP]
            assert isinstance(group, ConsumerGroup)
            assert group.epoch == epochs[0] + 1
            assert set(group.members) == {READERS, OTHERS, "new"}
            assert group.metadata_hash == group.compute_metadata_hash(broker.runtime().machine.image, {})
            assert (await beat(broker.call, READERS, epochs[0], instance_id="one")).member_epoch == epochs[0]
            assert await broker.committed() == 42

    run(write)
    with kafka_on(data, tmp_path / "kafka", settings) as peer:
        asyncio.run(continue_on(peer.port))
    run(read)
