"""The members of the simulation of consumer groups that use the classic protocol, and those that change it.

Members of the group "k" give up all their partitions before they join again (eager); those of the group "l" keep them,
and join once more to hand some over (cooperative).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.consumer_harness import Place
from tests.sim.consumer_clients import CLASSIC_SESSION_MS, REBALANCE_MS, Consumer

if TYPE_CHECKING:
    from tests.sim.consumer_world import ConsumerWorld

COOPERATIVE = "l"


def protocol_of(group_id: str) -> str:
    return "cooperative" if group_id == COOPERATIVE else "range"


def subscription(topics: Iterable[str], owned: Iterable[Place]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    value = messages.ConsumerProtocolSubscription(
        topics=sorted(topics),
        owned_partitions=[
            messages.ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
    return codec.encode_versioned(value, 1)


def decoded_subscription(data: bytes) -> tuple[list[str], set[Place]]:
    value, _ = codec.decode_versioned(messages.ConsumerProtocolSubscription, data)
    return value.topics, {(each.topic, partition) for each in value.owned_partitions for partition in each.partitions}


def assignment(places: Iterable[Place]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    value = messages.ConsumerProtocolAssignment(
        assigned_partitions=[
            messages.ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ]
    )
    return codec.encode_versioned(value, 1)


def decoded_assignment(data: bytes) -> set[Place]:
    if not data:
        return set()
    value, _ = codec.decode_versioned(messages.ConsumerProtocolAssignment, data)
    return {(each.topic, partition) for each in value.assigned_partitions for partition in each.partitions}


def act(world: ConsumerWorld, client: Consumer) -> None:
    """Let the client send its next request."""
    client.waiting = world.token()
    if client.phase == "sync":
        send_sync(world, client)
    elif client.epoch == 0 or client.must_join:
        send_join(world, client)
    else:
        client.sent = "heartbeat"
        world.harness.heartbeat(
            client.member_id,
            client.epoch,
            token=client.waiting,
            instance_id=client.instance_id,
            group_id=client.group_id,
        )


def send_join(world: ConsumerWorld, client: Consumer) -> None:
    client.sent = "join"
    if client.group_id != COOPERATIVE:
        client.owned, client.lost = set(), set()
    client.must_join = False
    group = world.harness.machine.groups.get(client.group_id)
    if isinstance(group, ConsumerGroup | ClassicGroup) and client.member_id not in group.members:
        client.was_removed = True
    world.harness.join(
        client.waiting,
        client.member_id,
        group_id=client.group_id,
        instance_id=client.instance_id,
        protocols=[(protocol_of(client.group_id), subscription(client.topics, client.owned))],
        session_ms=CLASSIC_SESSION_MS,
        rebalance_ms=REBALANCE_MS,
        client_id=client.name,
    )


def send_sync(world: ConsumerWorld, client: Consumer) -> None:
    client.sent = "sync"
    assignments = None
    if client.members:
        shares = shared_out(world, client)
        assignments = {member_id: assignment(places) for member_id, places in shares.items()}
    world.harness.sync(
        client.waiting,
        client.member_id,
        client.epoch,
        assignments,
        group_id=client.group_id,
        instance_id=client.instance_id,
    )


def shared_out(world: ConsumerWorld, leader: Consumer) -> dict[str, set[Place]]:
    """The assignment by the leader of a classic group. In a cooperative one, a partition that moves has no owner for
    one generation.
    """
    found: dict[str, set[Place]] = {member_id: set() for member_id in leader.members}
    owners = {place: member_id for member_id, data in leader.members.items() for place in decoded_subscription(data)[1]}
    for topic in world.topics.image.topics:
        readers = sorted(m for m, data in leader.members.items() if topic.name in decoded_subscription(data)[0])
        for partition in topic.partitions if readers else ():
            place, wanted = (topic.name, partition), readers[partition % len(readers)]
            if owners.get(place, wanted) == wanted:
                found[wanted].add(place)
    return found


def answered(world: ConsumerWorld, client: Consumer, answer: Any) -> None:
    code = ErrorCode(answer.error_code)
    if code is ErrorCode.MEMBER_ID_REQUIRED:
        client.member_id = answer.member_id
        client.must_join = True
    elif code is not ErrorCode.NONE:
        client.phase = ""
        heard(world, client, code)
    elif client.sent == "heartbeat":
        return
    elif client.sent == "join":
        world.note_past(client)
        client.member_id, client.epoch = answer.member_id, answer.generation_id
        client.members = {member.member_id: member.metadata for member in answer.members}
        client.phase = "sync"
        if answer.skip_assignment:
            client.members = {}
    else:
        client.phase = ""
        world.assignments += 1
        # Before, a classic generation is not in the log.
        world.learned(client)
        places = {place for place in decoded_assignment(answer.assignment) if world.exists(place)}
        client.was_removed = False
        # It hands over what it has lost, and tells so when it joins again.
        client.must_join = bool(client.owned - places)
        client.owned = places


def heard(world: ConsumerWorld, client: Consumer, code: ErrorCode) -> None:
    """Follow a code in an answer."""
    if code is ErrorCode.NONE:
        return
    if code is ErrorCode.REBALANCE_IN_PROGRESS:
        client.must_join, client.phase = True, ""
        return
    if code in world.retriable:
        client.must_join = client.must_join or client.sent != "heartbeat"
        return
    world.note_past(client)
    client.gone()
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        client.member_id = ""
    elif code is not ErrorCode.ILLEGAL_GENERATION:
        assert code in (
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ), code
        client.alive = False


def leave(world: ConsumerWorld, client: Consumer) -> None:
    if client.instance_id is None:
        world.harness.leave(world.token(), (client.member_id, None), group_id=client.group_id)


def change_protocol(world: ConsumerWorld, client: Consumer) -> None:
    """Restart an instance with the other protocol."""
    world.note_past(client)
    if client.is_classic:
        leave(world, client)
    else:
        epoch = -1 if client.instance_id is None else -2
        world.harness.beat(
            world.token(), client.member_id, epoch, group_id=client.group_id, instance_id=client.instance_id
        )
    client.gone()
    client.is_classic = not client.is_classic
    client.member_id = "" if client.is_classic else f"m-{world.token()}"
    client.regex = None
