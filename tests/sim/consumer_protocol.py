"""The members of the simulation of consumer groups that use the consumer protocol: heartbeats, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group import GroupType
from broker_cy.core.errors import ErrorCode
from tests.sim.consumer_clients import REBALANCE_MS, Consumer

if TYPE_CHECKING:
    from tests.sim.consumer_world import ConsumerWorld


def beat(world: ConsumerWorld, client: Consumer) -> None:
    client.waiting, client.waits_epoch = world.token(), client.epoch
    owned: dict[Any, list[int]] = {}
    for topic, partition in sorted(client.owned | client.lost):
        known = world.topics.image.topics.by_name(topic)
        if known is not None:
            owned.setdefault(known.topic_id, []).append(partition)
    is_full = client.is_full or client.epoch == 0
    world.harness.beat(
        client.waiting,
        client.member_id,
        client.epoch,
        group_id=client.group_id,
        instance_id=client.instance_id,
        names=None if not is_full else () if client.regex else client.topics,
        regex=(client.regex or "") if is_full else None,
        assignor=client.assignor if is_full else None,
        rebalance_ms=REBALANCE_MS if is_full else -1,
        owned={} if client.epoch == 0 else owned,
        client_id=client.name,
    )


def answered(world: ConsumerWorld, client: Consumer, answer: Any) -> None:
    code = ErrorCode(answer.error_code)
    if code in world.retriable:
        client.is_full = True
        return
    if code is not ErrorCode.NONE:
        _refused(world, client, code)
        return
    assert answer.member_epoch >= client.waits_epoch, f"the epoch of {client.name} went back"
    if client.epoch != answer.member_epoch:
        world.note_past(client)
    client.epoch, client.is_full = answer.member_epoch, False
    world.learned(client)
    if answer.assignment is not None:
        world.assignments += 1
        places = world.topics.places({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})
        places = {place for place in places if world.exists(place)}
        client.lost |= client.owned - places
        client.lost -= places
        client.owned = places


def _refused(world: ConsumerWorld, client: Consumer, code: ErrorCode) -> None:
    world.note_past(client)
    was_join = client.waits_epoch == 0
    client.gone()
    if code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
        group = world.harness.machine.groups.get(client.group_id)
        holder = group.static_member(client.instance_id) if isinstance(group, ConsumerGroup) else None
        is_own = holder is not None and holder.member_id == client.member_id
        assert not is_own, f"{client.name} is refused because of its own instance id: {code.name}"
        client.alive = False
        return
    if was_join and code is ErrorCode.GROUP_ID_NOT_FOUND and world.kinds.get(client.group_id) is GroupType.CLASSIC:
        settings = world.harness.settings.consumer
        assert not settings.migration_policy.is_upgrade_enabled, f"{client.group_id} cannot be upgraded"
        client.alive = False
        return
    assert code in (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ), code
    assert not was_join, f"{client.name} cannot join: {code.name}"
