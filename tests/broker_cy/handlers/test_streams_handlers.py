"""The APIs of streams groups over a whole broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator.streams.configure import Status
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features
from broker_cy.wire import messages
from tests.broker_cy.coordinator.streams_harness import WORD_COUNT, Part, topology
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run

Heartbeat = messages.StreamsGroupHeartbeatRequest
AT_ONCE = {"group.streams.initial.rebalance.delay.ms": "0"}


def join(of: Heartbeat.Topology = WORD_COUNT, **how: Any) -> Heartbeat:
    return Heartbeat(
        group_id=GROUP,
        member_id="A",
        rebalance_timeout_ms=10_000,
        topology=of,
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        **how,
    )


def describe(group_id: str) -> messages.StreamsGroupDescribeRequest:
    return messages.StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)


def test_internal_topics_are_created_and_tasks_assigned(tmp_path: Path) -> None:
    """If this fails, an application with state does nothing."""

    async def work() -> None:
        async with GroupBroker(tmp_path, AT_ONCE) as broker:
            await broker.prepare("t")
            answer = await broker.call(join(), 0)
            assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
            assert [status.status_code for status in answer.status] == [Status.MISSING_INTERNAL_TOPICS]
            async with asyncio.timeout(10):
                while broker.server.broker.image.topics.by_name("words") is None:
                    await asyncio.sleep(0.01)
            counts = broker.server.broker.image.topics.by_name("counts")
            assert counts is not None
            assert len(counts.partitions) == 2
            configs = broker.server.broker.image.configs.resource(2, "counts")
            assert configs == {"cleanup.policy": "compact"}
            answer = await broker.call(Heartbeat(group_id=GROUP, member_id="A", member_epoch=2), 0)
            while answer.active_tasks is None:
                assert answer.error_code == ErrorCode.NONE
                await asyncio.sleep(0.05)
                epoch = answer.member_epoch
                answer = await broker.call(Heartbeat(group_id=GROUP, member_id="A", member_epoch=epoch), 0)
            assert {each.subtopology_id: each.partitions for each in answer.active_tasks} == {"0": [0, 1], "1": [0, 1]}
            (group,) = (await broker.call(describe(GROUP), 0)).groups
            assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
            assert group.topology.subtopologies[1].repartition_source_topics[0].partitions == 2
            assert group.authorized_operations != -(1 << 31)
            (missing,) = (await broker.call(describe("other"), 0)).groups
            assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            (unnamed,) = (await broker.call(describe(""), 0)).groups
            assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID

    run(work)


def test_topics_that_a_topology_must_not_have(tmp_path: Path) -> None:
    """If this fails, an application writes into the broker's own topics."""

    async def work() -> None:
        async with GroupBroker(tmp_path, AT_ONCE) as broker:
            await broker.prepare("t")
            for name in ("__consumer_offsets", "no/topic"):
                answer = await broker.call(join(topology(Part(["t"], sinks=[name]))), 0)
                assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
                assert name in answer.error_message
            answer = await broker.call(join(instance_id="i"), 0)
            assert answer.error_code == ErrorCode.INVALID_REQUEST

    run(work)


def test_an_operator_may_switch_streams_groups_off(tmp_path: Path) -> None:
    """If this fails, `group.coordinator.rebalance.protocols` is ignored."""

    async def work() -> None:
        settings = {**AT_ONCE, "group.coordinator.rebalance.protocols": "classic,consumer"}
        async with GroupBroker(tmp_path, settings) as broker:
            await broker.prepare("t")
            assert (await broker.call(join(), 0)).error_code == ErrorCode.UNSUPPORTED_VERSION

    run(work)


def test_clusters_without_the_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group is made that older brokers of the cluster do not know."""
    monkeypatch.setitem(features.SUPPORTED, features.STREAMS_VERSION, (0, 0))

    async def work() -> None:
        async with GroupBroker(tmp_path, AT_ONCE) as broker:
            await broker.prepare("t")
            assert (await broker.call(join(), 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
            (group,) = (await broker.call(describe(GROUP), 0)).groups
            assert group.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(work)
