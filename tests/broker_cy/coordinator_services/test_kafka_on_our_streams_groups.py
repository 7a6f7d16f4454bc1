"""Apache Kafka on streams groups that this broker wrote, and this broker on them again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator.streams_harness import WORD_COUNT
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until
from tests.broker_cy.coordinator_services.group_client import Connection
from tests.support import needs
from tests.support.kafka_peer import kafka_on

Call = Callable[[Any, int], Awaitable[Any]]
Request = messages.StreamsGroupHeartbeatRequest
SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}


async def beat(call: Call, member_id: str, epoch: int, **fields: Any) -> Any:
    """A heartbeat that is not refused."""
    answer = await call(Request(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields), 0)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


async def enter(call: Call, member_id: str) -> Any:
    fields = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "topology": WORD_COUNT}
    return await beat(call, member_id, 0, rebalance_timeout_ms=60_000, process_id=f"p-{member_id}", **fields)


async def fill(broker: GroupBroker) -> int:
    """A group whose member A has all tasks, and from which another one has left. Returns its epoch."""
    await broker.prepare("t", "words", "counts")
    await enter(broker.call, "gone")
    await beat(broker.call, "gone", -1)
    await enter(broker.call, "A")
    group = broker.runtime().machine.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    assert group.state_name == "Stable"
    commit: dict[str, Any] = {"member_id": "A", "generation_id_or_member_epoch": group.epoch}
    assert await broker.commit(42, **commit) == ErrorCode.NONE
    return group.epoch


@pytest.mark.full
@needs.kafka
def test_kafka_continues_our_streams_groups(tmp_path: Path) -> None:
    """If this fails, a user who returns to Apache Kafka loses streams groups, or the ones that Kafka has continued."""
    data = tmp_path / "data"
    epochs: list[int] = []

    async def write() -> None:
        async with GroupBroker(data, SETTINGS) as broker:
            epochs.append(await fill(broker))

    async def continue_on(port: int) -> None:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
        found = await connection.described(messages.StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)
        assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", epochs[0], epochs[0])
        (member,) = found.members
        tasks = {each.subtopology_id: each.partitions for each in member.assignment.active_tasks}
        assert (member.member_id, member.process_id, tasks) == ("A", "p-A", {"0": [0, 1], "1": [0, 1]})
        # Nothing has changed for Kafka: the metadata hash is its own.
        answer = await beat(connection.call, "A", epochs[0])
        assert (answer.member_epoch, answer.active_tasks, answer.status) == (epochs[0], None, [])
        await enter(connection.call, "new")
        connection.writer.close()

    async def read() -> None:
        async with GroupBroker(data, SETTINGS) as broker:
            group = broker.runtime().machine.groups[GROUP]
            assert isinstance(group, StreamsGroup)
            assert group.epoch == epochs[0] + 1
            assert set(group.members) == {"A", "new"}
            assert group.metadata_hash == group.compute_metadata_hash(broker.runtime().machine.image, {})
            answer = await beat(broker.call, "A", epochs[0])
            # It has to give tasks up, as Kafka has assigned them.
            assert answer.member_epoch == epochs[0]
            assert sum(len(each.partitions) for each in answer.active_tasks) == 2
            assert group.epoch == epochs[0] + 1
            await until(lambda: group.state_name == "Reconciling")
            assert await broker.committed() == 42

    run(write)
    with kafka_on(data, tmp_path / "kafka", SETTINGS) as peer:
        asyncio.run(continue_on(peer.port))
    run(read)
