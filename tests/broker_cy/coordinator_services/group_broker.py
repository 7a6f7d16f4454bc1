"""A whole broker on the test's own loop, whose handlers are called as a connection would call them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import uvloop

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import registrations
from broker_cy.config import BrokerConfig
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import load_handlers
from broker_cy.metadata.image import BrokerImage, PartitionImage
from broker_cy.network.seams import of_the_machine
from broker_cy.server.lifecycle import BrokerServer
from broker_cy.wire import codec, frame, messages
from tests.broker_cy.coordinator_services.other_brokers import learn

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "3",
}
GROUP = "readers"
# At once: `call` reads the handlers themselves from the registry.
load_handlers()


class GroupBroker:
    """Use as an async context manager; the same `path` again is a restart."""

    def __init__(self, path: Path, settings: dict[str, str] | None = None) -> None:
        properties = {"node.id": "1", "log.dirs": str(path), **SETTINGS, **(settings or {})}
        self.server = BrokerServer(BrokerConfig.from_properties(properties), of_the_machine(asyncio.get_running_loop()))

    async def __aenter__(self) -> Self:
        await self.server.start()
        await self.server.broker.groups.loaded()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    async def call(self, request: Any, version: int) -> Any:
        """Encode the request, decode it as the broker does, run the handler, and return what a client would decode."""
        api_key = next(key for key in registrations() if frame.request_class(key) is type(request))
        registration = registrations()[api_key]
        assert registration.min_version <= version <= registration.max_version
        request = codec.decode(type(request), version, codec.encode(request, version))
        context = RequestContext(self.server.broker, api_key, version, "test", "127.0.0.1", "PLAINTEXT")
        response = registration.function(context, request)
        if inspect.isawaitable(response):
            response = await response
        return codec.decode(type(response), version, codec.encode(response, version))

    def learn(self, brokers: list[BrokerImage], leaders: dict[tuple[str, int], PartitionImage]) -> None:
        """Replay a change of the metadata, as if the controller had written it."""
        controller = self.server.broker.controller
        self.server._on_image(learn(controller, brokers, leaders), controller.image)

    def runtime(self, group_id: str = GROUP) -> GroupRuntime:
        return self.server.broker.groups.runtime_for(group_id)

    # ---- requests of the newest versions ----

    async def prepare(self, *topics: str) -> None:
        """Create the internal topic, and topics with two partitions each."""
        wanted = [
            messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in topics
        ]
        if wanted:
            answer = await self.call(messages.CreateTopicsRequest(topics=wanted, timeout_ms=10_000), 7)
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE] * len(topics)
        answer = await self.call(messages.FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
        assert answer.coordinators[0].error_code == ErrorCode.NONE
        await self.server.broker.groups.loaded()

    async def join(self, member_id: str = "", version: int = 9, **how: Any) -> Any:
        fields = {"group_id": GROUP, "session_timeout_ms": 60_000, "protocol_type": "consumer", **how}
        if version >= 1:
            fields.setdefault("rebalance_timeout_ms", 60_000)
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0")
        return await self.call(messages.JoinGroupRequest(member_id=member_id, protocols=[protocol], **fields), version)

    async def member(self, version: int = 9, **how: Any) -> Any:
        """Join a group as its only member; returns the response to the join."""
        answer = await self.join(version=version, **how)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = await self.join(answer.member_id, version, **how)
        assert answer.error_code == ErrorCode.NONE
        return answer

    async def commit(self, offset: int, topic: str = "t", partition: int = 0, **how: Any) -> ErrorCode:
        answer = await self.call(commit_request(offset, topic, partition, **how), 9)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def committed(self, topic: str = "t", partition: int = 0, group_id: str = GROUP) -> int:
        answer = await self._fetch_offset(topic, partition, group_id)
        assert answer.error_code == ErrorCode.NONE
        return int(answer.topics[0].partitions[0].committed_offset)

    async def fetched(self) -> ErrorCode:
        """The error of OffsetFetch."""
        return ErrorCode((await self._fetch_offset("t", 0, GROUP)).error_code)

    async def _fetch_offset(self, topic: str, partition: int, group_id: str) -> Any:
        group = messages.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[messages.OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
        )
        return (await self.call(messages.OffsetFetchRequest(groups=[group]), 9)).groups[0]


def commit_request(
    offset: int, topic: str = "t", partition: int = 0, group_id: str = GROUP, **how: Any
) -> messages.OffsetCommitRequest:
    return messages.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            messages.OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    messages.OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
        **how,
    )


def run(work: Callable[[], Any]) -> None:
    """Run a test's coroutine on a separate uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that must become true soon."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
