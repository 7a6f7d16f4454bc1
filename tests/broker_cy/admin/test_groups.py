"""Groups with members, as the admin core describes and protects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.group_values import GroupDescription
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.admin.conftest import Run
from tests.support.broker import BrokerProcess
from tests.support.confluent import close_consumer, new_consumer
from tests.support.kafka_peer import KafkaPeer

MakeMember = Callable[..., Consumer]


@pytest.fixture
def member(cluster: BrokerProcess | KafkaPeer, name: str) -> Iterator[MakeMember]:
    """Members of the group `name`, subscribed to the topic `name`."""
    made: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        made.append(new_consumer(cluster.bootstrap, name, **settings))
        made[-1].subscribe([name])
        return made[-1]

    yield make
    for consumer in made:
        close_consumer(consumer)


async def described_once(client: AdminClient, name: str, members: list[Consumer], partitions: int) -> GroupDescription:
    """The group, once its members have all partitions."""
    deadline = client.caller.deadline()
    attempt = 1
    while True:
        for consumer in members:
            consumer.poll(0.05)
        outcome = await client.groups.describe([name])
        group = outcome.found.get(name)
        if group is not None and group.state == "Stable":
            assigned = [key for each in group.members for key in each.assignment]
            if len(group.members) == len(members) and sorted(assigned) == [
                TopicPartition(name, index) for index in range(partitions)
            ]:
                return group
        assert await deadline.back_off(attempt), outcome
        attempt = 1


def test_a_classic_group_with_members(run: Run, name: str, member: MakeMember) -> None:
    """If this fails, it is not shown which member reads what, or a reset is allowed while the group is active."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 4, 1)])).whole()
        members = [member(client_id="one", group_instance_id="static-1"), member(client_id="two")]
        group = await described_once(client, name, members, 4)
        assert (group.group_type, group.protocol_type, group.coordinator_id) == ("classic", "consumer", 1)
        assert group.assignor == "range"
        by_client = {each.client_id: each for each in group.members}
        assert by_client["one"].instance_id == "static-1"
        assert by_client["two"].instance_id is None
        assert {each.subscribed for each in group.members} == {(name,)}
        assert {len(each.assignment) for each in group.members} == {2}
        assert by_client["one"].client_host.strip("/") == "127.0.0.1"
        assert name in {each.group_id for each in await client.groups.listed(states=["Stable"])}
        key = TopicPartition(name, 0)
        with pytest.raises(ClientError) as raised:
            await client.group_offsets.alter(name, {key: 0})
        assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert "stop them first" in str(raised.value)
        refused = await client.groups.delete([name])
        assert refused.failed[name].code is ErrorCode.NON_EMPTY_GROUP
        subscribed = await client.group_offsets.delete(name, [key])
        assert subscribed.failed[key].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    run(job)


def test_a_consumer_group_with_members(run: Run, name: str, member: MakeMember) -> None:
    """If this fails, groups of the newer protocol (KIP-848) are shown as missing, or without their epochs, or their
    offsets are changed below the members.
    """

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 3, 1)])).whole()
        group = await described_once(client, name, [member(group_protocol="consumer", client_id="new")], 3)
        assert (group.group_type, group.assignor) == ("consumer", "uniform")
        assert group.group_epoch >= 1
        (only,) = group.members
        assert (only.client_id, only.subscribed, only.target) == ("new", (name,), only.assignment)
        assert only.member_epoch == group.assignment_epoch
        assert (only.protocol, group.protocols()) == ("consumer", {"consumer": 1})
        (listed,) = (each for each in await client.groups.listed(types=["consumer"]) if each.group_id == name)
        assert listed.state == "Stable"
        key = TopicPartition(name, 0)
        with pytest.raises(ClientError) as raised:
            await client.positions.alter(name, {key: 0})
        assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        subscribed = await client.positions.delete(name, [key])
        assert subscribed.failed[key].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert (await client.groups.delete([name])).failed[name].code is ErrorCode.NON_EMPTY_GROUP

    run(job)
