"""The heartbeat of a member with nothing new that comes again, byte for byte: whether its answer still stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import registrations
from broker_cy.coordinator.consumer.deadlines import session_key
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.heartbeat import heartbeat
from broker_cy.coordinator.step import ClientFacts
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run

Request = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse


def context_of(broker: GroupBroker, key: ApiKey, version: int) -> RequestContext:
    return RequestContext(broker.server.broker, key, version, "test", "127.0.0.1", "PLAINTEXT")


class Rights:
    """The part of an authorizer that heartbeats use."""

    def __init__(self) -> None:
        self.allowed = 1 << Operation.READ
        self.seen = 0

    def mask(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        assert (resource_type, name) == (ResourceType.GROUP, GROUP)
        return self.allowed

    def saw(self, *_: object) -> None:
        self.seen += 1


async def join(broker: GroupBroker, member_id: str) -> Any:
    request = Request(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await broker.call(request, 1)
    assert answer.error_code == ErrorCode.NONE
    return answer


async def steady(broker: GroupBroker) -> Callable[[], bool]:
    """`still_stands` of the heartbeat of the only member."""
    await broker.prepare("t")
    epoch = (await join(broker, "A")).member_epoch
    key = ApiKey.CONSUMER_GROUP_HEARTBEAT
    context = context_of(broker, key, 1)
    answer = registrations()[key].function(context, Request(group_id=GROUP, member_id="A", member_epoch=epoch))
    assert isinstance(answer, Response)
    assert context.still_stands is not None
    assert context.still_stands()
    return context.still_stands


def group(broker: GroupBroker) -> ConsumerGroup:
    found = broker.runtime().machine.groups[GROUP]
    assert isinstance(found, ConsumerGroup)
    return found


def test_the_session_is_prolonged(tmp_path: Path) -> None:
    """If this fails, consumers that work are removed after 45 s."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            timers = broker.runtime().machine.timers
            key = session_key(group(broker), group(broker).members["A"])
            timers.set(key, 1)
            assert still_stands()
            later = timers.get(key)
            assert later is not None
            assert later > 1
            # The timer is set again if it has ended.
            timers.cancel(key)
            assert still_stands()
            assert timers.get(key) is not None

    run(check)


def test_a_rebalance_is_answered(tmp_path: Path) -> None:
    """If this fails, a consumer keeps the partitions that another one should have."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            await join(broker, "B")
            assert not still_stands()

    run(check)


def test_a_member_that_left_is_answered(tmp_path: Path) -> None:
    """If this fails, a consumer that was removed reads on."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            await broker.call(Request(group_id=GROUP, member_id="A", member_epoch=-1), 1)
            assert not still_stands()
            deleted = await broker.call(messages.DeleteGroupsRequest(groups_names=[GROUP]), 2)
            assert deleted.results[0].error_code == ErrorCode.NONE
            assert not still_stands()

    run(check)


def test_a_group_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    """If this fails, a member of a group that was deleted is taken for one of the new group."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            await broker.call(Request(group_id=GROUP, member_id="A", member_epoch=-1), 1)
            await broker.call(messages.DeleteGroupsRequest(groups_names=[GROUP]), 2)
            await broker.member()
            assert not still_stands()

    run(check)


def test_unwritten_records_are_waited_for(tmp_path: Path) -> None:
    """If this fails, an answer shows a state that a failed write takes back."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            runtime = broker.runtime()
            request = Request(
                group_id="other", member_id="B", member_epoch=0, rebalance_timeout_ms=1, topic_partitions=[]
            )
            request.subscribed_topic_names = ["t"]
            client = ClientFacts("test", "/127.0.0.1", 1)
            written = runtime.run(heartbeat, request, client, "", None)
            assert runtime.is_writing
            assert not still_stands()
            await written
            assert still_stands()

    run(check)


def test_a_coordinator_that_resigned_does_not_answer(tmp_path: Path) -> None:
    """If this fails, a consumer stays at a broker that no longer coordinates its group, and two coordinators differ."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            broker.runtime().close()
            assert not still_stands()

    run(check)


def test_the_rights_of_the_client_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a client whose rights were taken away stays in the group."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            still_stands = await steady(broker)
            rights = Rights()
            monkeypatch.setattr(broker.server.broker, "authorization", rights)
            assert still_stands()
            assert rights.seen == 1
            rights.allowed = 0
            assert not still_stands()
            # The handler, which answers now, reports the denied access.
            assert rights.seen == 1
            monkeypatch.undo()

    run(check)


def test_a_member_of_a_classic_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a consumer of a classic group does not join again, or keeps a session that it does not have."""

    async def check() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            joined = await broker.member()
            fields = {"group_id": GROUP, "generation_id": joined.generation_id, "member_id": joined.member_id}
            key = ApiKey.HEARTBEAT
            context = context_of(broker, key, 4)
            answer = registrations()[key].function(context, messages.HeartbeatRequest(**fields))
            assert answer.error_code == ErrorCode.NONE
            still_stands = context.still_stands
            assert still_stands is not None
            assert still_stands()
            refused = context_of(broker, key, 4)
            registrations()[key].function(refused, messages.HeartbeatRequest(**{**fields, "generation_id": 9}))
            assert refused.still_stands is None
            with monkeypatch.context() as patch:
                patch.setattr(broker.server.broker, "authorization", Rights())
                assert not still_stands()
            assert still_stands()
            # Another member joins: the group prepares a rebalance.
            other = asyncio.create_task(broker.member())
            async with asyncio.timeout(30):
                while still_stands():
                    await asyncio.sleep(0)
            left = messages.LeaveGroupRequest.MemberIdentity(member_id=joined.member_id)
            await broker.call(messages.LeaveGroupRequest(group_id=GROUP, members=[left]), 5)
            assert not still_stands()
            await other

    run(check)
