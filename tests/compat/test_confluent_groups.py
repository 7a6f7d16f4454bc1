"""Consumer groups of confluent-kafka (librdkafka), with the classic protocol."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, close_consumer, error_code, send, take, values
from tests.support.topics import create_topic
from tests.support.wait import until

MakeConsumer = Callable[..., Consumer]


def state(admin: AdminClient, group: str) -> ConsumerGroupState:
    found: ConsumerGroupState = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S).state
    return found


def settle(consumers: list[Consumer], condition: Callable[[], bool], what: str) -> list[bytes | None]:
    """Poll all consumers until `condition`; returns the values that arrived."""
    came: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, (
            f"{what} did not come in time: {[owned(consumer) for consumer in consumers]}"
        )
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                came.append(message.value())
    return came


def owned(consumer: Consumer) -> list[int]:
    return sorted(at.partition for at in consumer.assignment())


def shared(consumers: list[Consumer], partitions: int) -> bool:
    """Return whether the consumers own each partition once, and each has its part."""
    parts = [owned(consumer) for consumer in consumers]
    return (
        sorted(itertools.chain(*parts)) == list(range(partitions)) and max(map(len, parts)) - min(map(len, parts)) <= 1
    )


def test_life_of_a_group(
    admin: AdminClient, broker: Target, topic: str, group: str, make_consumer: MakeConsumer
) -> None:
    """If this fails, a group cannot be found, described, given other offsets, or deleted."""
    create_topic(broker.bootstrap, topic)
    send(broker, topic, [b"a", b"b"])
    consumer = make_consumer(client_id="a-client")
    consumer.subscribe([topic])
    messages = take(consumer, 2)
    consumer.commit(message=messages[0], asynchronous=False)
    listed = {listing.group_id: listing for listing in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    assert listed[group].state == ConsumerGroupState.STABLE
    assert not listed[group].is_simple_consumer_group
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    (member,) = described.members
    assert member.client_id == "a-client"
    assert member.host in ("127.0.0.1", "/127.0.0.1")
    assert described.partition_assignor == "range"
    assert [(at.topic, at.partition) for at in member.assignment.topic_partitions] == [(topic, 0)]
    request = [ConsumerGroupTopicPartitions(group)]
    offsets = admin.list_consumer_group_offsets(request)[group].result(TIMEOUT_S)
    assert [(at.topic, at.partition, at.offset) for at in offsets.topic_partitions] == [(topic, 0, 1)]

    def delete() -> None:
        admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)

    assert error_code(delete) == KafkaError.NON_EMPTY_GROUP
    close_consumer(consumer)
    until(lambda: state(admin, group) == ConsumerGroupState.EMPTY, "the group to be empty", TIMEOUT_S)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
    admin.alter_consumer_group_offsets([wanted])[group].result(TIMEOUT_S)
    offsets = admin.list_consumer_group_offsets(request)[group].result(TIMEOUT_S)
    assert [at.offset for at in offsets.topic_partitions] == [0]
    delete()
    assert group not in [listing.group_id for listing in admin.list_consumer_groups().result(TIMEOUT_S).valid]
    assert error_code(delete) == KafkaError.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_and_take_over(broker: Target, topic: str, make_consumer: MakeConsumer, strategy: str) -> None:
    """If this fails, partitions are read twice or by no member while members join and leave."""
    create_topic(broker.bootstrap, topic, 6)
    settings: dict[str, Any] = {
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": 30_000,
        "heartbeat_interval_ms": 100,
    }
    members: list[Consumer] = []
    for count in (1, 2, 3):
        member = make_consumer(**settings)
        member.subscribe([topic])
        members.append(member)
        settle(members, lambda: shared(members, 6), f"{count} members to share 6 partitions")
    for partition in range(6):
        send(broker, topic, [b"%d" % partition], partition)
    came = _collect(members, 6)
    assert sorted(came) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    close_consumer(members.pop(0))
    settle(members, lambda: shared(members, 6), "2 members to take over")
    close_consumer(members.pop(0))
    settle(members, lambda: shared(members, 6), "1 member to take over")


def _collect(members: list[Consumer], count: int) -> list[bytes]:
    came: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(came) < count:
        assert time.monotonic() < deadline, came
        for member in members:
            message = member.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                came.append(message.value() or b"")
    return came


def test_cooperative_members_keep_what_they_own(broker: Target, topic: str, make_consumer: MakeConsumer) -> None:
    """If this fails, a cooperative rebalance stops every member instead of moving a few partitions (KIP-429)."""
    create_topic(broker.bootstrap, topic, 4)
    revoked: list[int] = []
    lost: list[int] = []
    settings: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 100}
    first = make_consumer(**settings)
    first.subscribe(
        [topic],
        on_revoke=lambda _, parts: revoked.extend(at.partition for at in parts),
        on_lost=lambda _, parts: lost.extend(at.partition for at in parts),
    )
    settle([first], lambda: owned(first) == [0, 1, 2, 3], "all partitions")
    second = make_consumer(**settings)
    second.subscribe([topic])
    settle([first, second], lambda: shared([first, second], 4), "two members to share")
    assert sorted(revoked) == owned(second)
    assert lost == []


def test_static_member_comes_back(
    admin: AdminClient, broker: Target, topic: str, group: str, make_consumer: MakeConsumer
) -> None:
    """If this fails, a restart of one static member makes the whole group rebalance (KIP-345)."""
    create_topic(broker.bootstrap, topic, 4)
    settings: dict[str, Any] = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 100}
    moved: list[str] = []
    stays = make_consumer(group_instance_id="stays", **settings)
    goes = make_consumer(group_instance_id="goes", **settings)
    stays.subscribe([topic], on_assign=lambda *_: moved.append("assign"), on_revoke=lambda *_: moved.append("revoke"))
    goes.subscribe([topic])
    settle([stays, goes], lambda: shared([stays, goes], 4), "two members to share")
    before = owned(goes)
    moved.clear()
    goes.close()  # a static member does not leave when it closes
    back = make_consumer(group_instance_id="goes", **settings)
    back.subscribe([topic])
    settle([stays, back], lambda: owned(back) == before, "the old partitions")
    assert moved == []
    members = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S).members
    assert sorted(member.group_instance_id for member in members) == ["goes", "stays"]


def test_second_static_member_of_the_same_name_fences_the_first(
    broker: Target, topic: str, make_consumer: MakeConsumer
) -> None:
    """If this fails, two processes with one instance id both believe that they own the partitions."""
    create_topic(broker.bootstrap, topic)
    fatal: list[int] = []
    settings: dict[str, Any] = {"group_instance_id": "twin", "heartbeat_interval_ms": 100}
    first = make_consumer(**settings)
    first.subscribe([topic])
    settle([first], lambda: owned(first) == [0], "the partition")
    second = make_consumer(**settings)
    second.subscribe([topic])

    def fenced() -> bool:
        second.poll(0.02)
        try:
            message = first.poll(0.02)
        except KafkaException as raised:
            fatal.append(raised.args[0].code())
            return True
        if message is not None and (error := message.error()) is not None:
            fatal.append(error.code())
        return bool(fatal)

    until(fenced, "the first to be fenced", TIMEOUT_S)
    assert fatal[0] in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def test_silent_member_is_dropped(broker: Target, topic: str, make_consumer: MakeConsumer) -> None:
    """If this fails, partitions of a member that hangs are not read."""
    create_topic(broker.bootstrap, topic, 2)
    settings: dict[str, Any] = {"session_timeout_ms": 1500, "max_poll_interval_ms": 1500, "heartbeat_interval_ms": 100}
    hangs, lives = make_consumer(**settings), make_consumer(**settings)
    for consumer in (hangs, lives):
        consumer.subscribe([topic])
    settle([hangs, lives], lambda: shared([hangs, lives], 2), "two members to share")
    settle([lives], lambda: owned(lives) == [0, 1], "the living member to own all")  # `hangs` is no longer polled


def test_commit_of_a_member_that_was_dropped(broker: Target, topic: str, make_consumer: MakeConsumer) -> None:
    """If this fails, a member that lost its partitions overwrites the offsets of their new owner."""
    create_topic(broker.bootstrap, topic)
    send(broker, topic, [b"a", b"b", b"c"])
    # Only the old member is removed soon; the new one must stay, however slow the test is.
    settings: dict[str, Any] = {"session_timeout_ms": 1500, "max_poll_interval_ms": 1500}
    old = make_consumer(heartbeat_interval_ms=100, **settings)
    new = make_consumer(heartbeat_interval_ms=100)
    old.subscribe([topic])
    message = take(old, 1)[0]
    new.subscribe([topic])
    assert values(take(new, 3)) == [b"a", b"b", b"c"]
    new.commit(asynchronous=False)
    codes = (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._STATE,
    )
    assert error_code(lambda: old.commit(message=message, asynchronous=False)) in codes
    assert new.committed([TopicPartition(topic, 0)], TIMEOUT_S)[0].offset == 3


def test_members_with_nothing_in_common(broker: Target, topic: str, make_consumer: MakeConsumer) -> None:
    """If this fails, a misconfigured member breaks a running group."""
    create_topic(broker.bootstrap, topic)
    first = make_consumer(partition_assignment_strategy="range")
    first.subscribe([topic])
    settle([first], lambda: owned(first) == [0], "the partition")
    other = make_consumer(partition_assignment_strategy="cooperative-sticky")
    other.subscribe([topic])
    errors: list[int] = []

    def refused() -> bool:
        first.poll(0.02)
        message = other.poll(0.02)
        if message is not None and (error := message.error()) is not None:
            errors.append(error.code())
        return bool(errors)

    until(refused, "the refusal", TIMEOUT_S)
    assert errors[0] == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert owned(first) == [0]


def test_new_partitions_are_found(admin: AdminClient, broker: Target, topic: str, make_consumer: MakeConsumer) -> None:
    """If this fails, a group never reads the partitions that a topic grew by."""
    create_topic(broker.bootstrap, topic, 1)
    consumer = make_consumer(topic_metadata_refresh_interval_ms=200)
    consumer.subscribe([topic])
    settle([consumer], lambda: owned(consumer) == [0], "the first partition")
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
    settle([consumer], lambda: owned(consumer) == [0, 1, 2], "all three")


def test_subscription_by_pattern(broker: Target, topic: str, make_consumer: MakeConsumer) -> None:
    """If this fails, topics that are created later are not read."""
    create_topic(broker.bootstrap, topic + "-a")
    consumer = make_consumer(topic_metadata_refresh_interval_ms=200)
    consumer.subscribe([f"^{topic.replace('.', '[.]')}-.*"])
    settle([consumer], lambda: len(consumer.assignment()) == 1, "the first topic")
    create_topic(broker.bootstrap, topic + "-b")
    settle([consumer], lambda: len(consumer.assignment()) == 2, "the second topic")


def test_offsets_of_a_group_can_be_deleted(
    admin: AdminClient, broker: Target, topic: str, group: str, make_consumer: MakeConsumer
) -> None:
    """If this fails, offsets committed without members (a simple consumer) are lost, or stay forever."""
    create_topic(broker.bootstrap, topic, 2)
    consumer = make_consumer()
    consumer.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 4)], asynchronous=False)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(TIMEOUT_S)
    assert sorted((at.partition, at.offset) for at in found.topic_partitions) == [(0, 3), (1, 4)]
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert [at.offset for at in consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)] == [-1001]
