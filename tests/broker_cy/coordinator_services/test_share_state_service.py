"""The share coordinator of a whole broker: its topic, its requests, a restart, the cut of its log, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop

from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator_services.share_state_runtime import ShareStateRuntime
from broker_cy.coordinator_services.share_state_service import ShareStateService
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features
from broker_cy.telemetry.metrics_page import render
from broker_cy.wire import messages as m
from tests.broker_cy.coordinator_services.group_broker import GroupBroker

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}
NONE = int(ErrorCode.NONE)


class ShareBroker(GroupBroker):
    """A broker with the requests to its share coordinator in short form, about the partition 0 of the topic `t`."""

    topic_id: UUID

    def __init__(self, path: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(path, SETTINGS | (settings or {}))

    async def __aenter__(self) -> ShareBroker:
        await super().__aenter__()
        await self.service.loaded()
        return self

    @property
    def service(self) -> ShareStateService:
        return self.server.broker.share_state

    @property
    def key(self) -> SharePartitionKey:
        return SharePartitionKey("readers", self.topic_id, 0)

    def share_runtime(self) -> ShareStateRuntime:
        return self.service.runtime_for(self.key.text)

    async def prepare_share(self) -> None:
        """Create the topic unless it exists, and that of the coordinator."""
        if self.server.broker.image.topics.by_name("t") is None:
            await self.prepare("t")
        topic = self.server.broker.image.topics.by_name("t")
        assert topic is not None
        self.topic_id = topic.topic_id
        found = await self.find(self.key.text)
        assert found.error_code == NONE
        await self.service.loaded()

    async def find(self, key: str) -> Any:
        request = m.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        return (await self.call(request, 6)).coordinators[0]

    async def initialize(self, state_epoch: int = 1, start_offset: int = 0) -> Any:
        partition = m.InitializeShareGroupStateRequest.PartitionData(
            partition=0, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = m.InitializeShareGroupStateRequest.InitializeStateData(topic_id=self.topic_id, partitions=[partition])
        return _only(await self.call(m.InitializeShareGroupStateRequest(group_id="readers", topics=[topic]), 0))

    async def write(self, *batches: tuple[int, int, int, int], leader_epoch: int = -1, version: int = 1) -> Any:
        request = m.WriteShareGroupStateRequest
        partition = request.PartitionData(
            partition=0,
            state_epoch=-1,
            leader_epoch=leader_epoch,
            start_offset=-1,
            state_batches=[
                request.StateBatch(first_offset=first, last_offset=last, delivery_count=count, delivery_state=state)
                for first, last, count, state in batches
            ],
        )
        topic = request.WriteStateData(topic_id=self.topic_id, partitions=[partition])
        return _only(await self.call(request(group_id="readers", topics=[topic]), version))

    async def read(self, leader_epoch: int = -1) -> Any:
        partition = m.ReadShareGroupStateRequest.PartitionData(partition=0, leader_epoch=leader_epoch)
        topic = m.ReadShareGroupStateRequest.ReadStateData(topic_id=self.topic_id, partitions=[partition])
        return _only(await self.call(m.ReadShareGroupStateRequest(group_id="readers", topics=[topic]), 0))

    async def summary(self, version: int = 1) -> Any:
        partition = m.ReadShareGroupStateSummaryRequest.PartitionData(partition=0, leader_epoch=-1)
        topic = m.ReadShareGroupStateSummaryRequest.ReadStateSummaryData(topic_id=self.topic_id, partitions=[partition])
        return _only(await self.call(m.ReadShareGroupStateSummaryRequest(group_id="readers", topics=[topic]), version))

    async def delete(self) -> Any:
        partition = m.DeleteShareGroupStateRequest.PartitionData(partition=0)
        topic = m.DeleteShareGroupStateRequest.DeleteStateData(topic_id=self.topic_id, partitions=[partition])
        return _only(await self.call(m.DeleteShareGroupStateRequest(group_id="readers", topics=[topic]), 0))


def _only(response: Any) -> Any:
    (topic,) = response.results
    (partition,) = topic.partitions
    assert partition.partition == 0
    return partition


def _batches(answer: Any) -> list[tuple[int, int, int, int]]:
    return [(b.first_offset, b.last_offset, b.delivery_count, b.delivery_state) for b in answer.state_batches]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def with_broker(path: Path, work: Callable[[ShareBroker], Awaitable[None]], **settings: str) -> None:
    async def run() -> None:
        async with ShareBroker(path, settings) as broker:
            await broker.prepare_share()
            await work(broker)

    uvloop.run(run())


def test_a_share_group_has_its_state(tmp_path: Path) -> None:
    """If this fails, Kafka's brokers cannot keep what a share group has consumed."""

    async def work(broker: ShareBroker) -> None:
        refused = await broker.read()
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert refused.error_message == "Read operation on uninitialized share partition not allowed."
        assert (await broker.initialize()).error_code == NONE
        assert (await broker.read(leader_epoch=4)).error_code == NONE
        assert (await broker.write((0, 4, 1, 2), (5, 9, 1, 0), leader_epoch=4)).error_code == NONE
        assert (await broker.write((5, 9, 2, 0), version=0)).error_code == NONE
        late = await broker.write((0, 9, 9, 4), leader_epoch=3)
        assert late.error_code == ErrorCode.FENCED_LEADER_EPOCH
        read = await broker.read()
        assert (read.error_code, read.state_epoch, read.start_offset) == (NONE, 1, 0)
        assert _batches(read) == [(0, 4, 1, 2), (5, 9, 2, 0)]
        summary = await broker.summary()
        assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (4, 0, -1)
        assert (await broker.summary(0)).error_code == NONE
        assert (await broker.delete()).error_code == NONE
        assert (await broker.summary()).start_offset == -1

    with_broker(tmp_path, work)


def test_a_restart_keeps_the_state(tmp_path: Path) -> None:
    """If this fails, a restart of the coordinator loses acknowledgements of share consumers."""

    async def first(broker: ShareBroker) -> None:
        await broker.initialize()
        await broker.read(leader_epoch=4)
        for offset in range(5):
            await broker.write((offset, offset, 1, 2), leader_epoch=4)

    async def second(broker: ShareBroker) -> None:
        assert _batches(await broker.read()) == [(0, 4, 1, 2)]
        assert (await broker.write(leader_epoch=3)).error_code == ErrorCode.FENCED_LEADER_EPOCH

    with_broker(tmp_path, first)
    with_broker(tmp_path, second)


def test_a_coordinator_is_found_by_the_share_partition(tmp_path: Path) -> None:
    """If this fails, brokers send share state to a broker that does not coordinate it."""

    async def work(broker: ShareBroker) -> None:
        found = await broker.find(broker.key.text)
        assert (found.error_code, found.node_id, found.key) == (NONE, 1, broker.key.text)
        bad = await broker.find("readers:0")
        assert (bad.error_code, bad.node_id) == (ErrorCode.INVALID_REQUEST, -1)
        assert bad.error_message == "'readers:0' is not a share partition; expected group:topicId:partition"
        assert broker.service.partition_count == 3

    with_broker(tmp_path, work)


def test_requests_without_content_get_empty_responses(tmp_path: Path) -> None:
    """If this fails, Kafka's client of this coordinator gets another answer than from Kafka."""

    async def work(broker: ShareBroker) -> None:
        request = m.WriteShareGroupStateRequest
        none = [request.WriteStateData(topic_id=broker.topic_id)]
        some = [request.WriteStateData(topic_id=broker.topic_id, partitions=[request.PartitionData()])]
        for empty in (request(group_id="readers"), request(group_id="readers", topics=none), request(topics=some)):
            assert (await broker.call(empty, 1)).results == []
        start = m.InitializeShareGroupStateRequest
        mixed = start(
            group_id="readers",
            topics=[
                start.InitializeStateData(topic_id=UUID(int=9)),
                start.InitializeStateData(topic_id=broker.topic_id, partitions=[start.PartitionData()]),
            ],
        )
        assert [topic.topic_id for topic in (await broker.call(mixed, 0)).results] == [broker.topic_id]

    with_broker(tmp_path, work)


def test_an_unprivileged_client_is_refused(tmp_path: Path) -> None:
    """If this fails, any client can change what the share groups of others have consumed."""

    async def work() -> None:
        settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
        async with ShareBroker(tmp_path, settings) as broker:
            broker.topic_id = UUID(int=9)
            for answer in (
                await broker.initialize(),
                await broker.write(),
                await broker.read(),
                await broker.summary(),
                await broker.delete(),
                await broker.find(broker.key.text),
            ):
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                assert answer.error_message == "Cluster authorization failed."

    uvloop.run(work())


def test_another_coordinator_is_named_by_the_error(tmp_path: Path) -> None:
    """If this fails, a broker does not look for the coordinator after it has moved."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            broker.topic_id = UUID(int=9)
            answer = await broker.write()
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            assert answer.error_message == ("Unable to write share group state: This is not the correct coordinator.")

    uvloop.run(work())


def test_redundant_records_are_deleted(tmp_path: Path) -> None:
    """If this fails, the log of a busy share group grows for ever, or a restart loses its state."""

    async def first(broker: ShareBroker) -> None:
        runtime = broker.share_runtime()
        await broker.initialize()
        for offset in range(8):
            await broker.write((offset, offset, 1, 2))
        runtime.prune()
        assert not broker.service.pruned_offsets(), "share groups are not enabled"
        runtime.machine.image.features.set(features.SHARE_VERSION, 1)
        runtime.prune()
        await until(lambda: bool(broker.service.pruned_offsets()))
        assert runtime.partition.log.log_start_offset == runtime.pruned_offset == 6
        assert broker.service.pruned_offsets() == {runtime.partition.index: 6}
        # The snapshot of an idle share partition is only as old as this test.
        runtime.machine.settings = runtime.machine.settings._replace(cold_snapshot_interval_ms=0)
        runtime.snapshot_cold()
        runtime.prune()
        await until(lambda: runtime.pruned_offset == 9)
        page = (await render(broker.server.broker, broker.server._core, broker.server._watch)).decode()
        where = f'topic="__share_group_state",partition="{runtime.partition.index}"'
        assert f"broker_cy_share_state_pruned_offset{{{where}}} 9" in page
        assert "broker_cy_share_state_write_seconds_count 8" in page
        assert "broker_cy_share_partitions 1" in page

    async def second(broker: ShareBroker) -> None:
        assert _batches(await broker.read()) == [(0, 7, 1, 2)]

    with_broker(tmp_path, first)
    with_broker(tmp_path, second)


def test_the_state_goes_with_its_topic(tmp_path: Path) -> None:
    """If this fails, a topic that is created again begins where share groups were in the old one."""

    async def work(broker: ShareBroker) -> None:
        await broker.initialize()
        runtime = broker.share_runtime()
        assert runtime.machine.entries
        topic = m.DeleteTopicsRequest.DeleteTopicState(name="t")
        response = await broker.call(m.DeleteTopicsRequest(topics=[topic], timeout_ms=5_000), 6)
        assert response.responses[0].error_code == NONE
        await until(lambda: not runtime.machine.entries and not runtime.is_writing)
        assert (await broker.write()).error_code == ErrorCode.INVALID_REQUEST

    with_broker(tmp_path, work)


def test_requests_are_one_batch(tmp_path: Path) -> None:
    """If this fails, each share partition of a request costs a write of its own."""

    async def work(broker: ShareBroker) -> None:
        await broker.initialize()
        runtime = broker.share_runtime()
        before = runtime.partition.log.log_end_offset
        answers = await asyncio.gather(*(broker.write((offset, offset, 1, 2)) for offset in range(3)))
        assert [answer.error_code for answer in answers] == [NONE] * 3
        assert runtime.partition.log.log_end_offset == before + 3

    with_broker(tmp_path, work)
