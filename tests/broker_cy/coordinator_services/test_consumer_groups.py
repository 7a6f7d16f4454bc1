"""Consumer groups of a whole broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker_cy.coordinator.consumer.describe import describe
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared.group_descriptions import MEMBERS_PER_TURN
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run
from tests.support.loop_turns import counted_turns


async def join(broker: GroupBroker, member_id: str) -> Any:
    request = messages.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return await broker.call(request, 1)


def test_a_large_group_is_described_in_parts(tmp_path: Path) -> None:
    """If this fails, producers wait while a console looks at a group of 10,000 members, or it does not see them all."""

    async def look() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            answers = await asyncio.gather(*(join(broker, f"member-{n}") for n in range(2 * MEMBERS_PER_TURN + 1)))
            assert {each.error_code for each in answers} == {ErrorCode.NONE}
            with counted_turns() as turns:
                found = await broker.call(messages.ConsumerGroupDescribeRequest(group_ids=[GROUP, "other"]), 1)
            assert turns.count >= 2
            runtime = broker.runtime()
            whole = describe(runtime.machine.groups[GROUP], GROUP, "uniform", runtime.machine.image).whole()
            assert found.groups[0] == whole
            assert len(whole.members) == 2 * MEMBERS_PER_TURN + 1
            assert found.groups[1].error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(look)


def test_steady_heartbeats_are_answered(tmp_path: Path) -> None:
    """If this fails, the sessions of consumers end although they send heartbeats."""

    async def beat() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            epoch = (await join(broker, "A")).member_epoch
            request = messages.ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="A", member_epoch=epoch)
            for _ in range(3):
                answer = await broker.call(request, 1)
                assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "A", epoch)
            assert answer.heartbeat_interval_ms == 5_000
            refused = await broker.call(
                messages.ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="A", member_epoch=epoch + 1), 1
            )
            assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH

    run(beat)


def test_the_log_counts_groups_of_every_type(tmp_path: Path) -> None:
    """If this fails, the log says after a restart that a coordinator has lost its consumer groups."""

    async def load() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert (await join(broker, "A")).error_code == ErrorCode.NONE
            assert broker.runtime().loaded_facts() == {"groups": 1, "offsets": 0}

    run(load)
