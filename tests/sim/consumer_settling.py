"""Times without faults in the simulation of consumer groups: groups become stable, and all of their partitions are
read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer.group import ConsumerGroup
from tests.sim import consumer_classic, consumer_protocol
from tests.sim.consumer_checks import check
from tests.sim.consumer_clients import GROUPS, QUIET_ROUNDS, ROUND_MS, ROUND_REQUESTS, SETTLE_ROUNDS

if TYPE_CHECKING:
    from tests.sim.consumer_world import ConsumerWorld


def settle(world: ConsumerWorld) -> None:
    """Without further faults, groups become stable, and each partition of their topics has one reader."""
    if world.harness.hold:
        world.toggle_hold()
        world.deliver()
    for client in world.clients:
        client.is_slow = False
    epochs: dict[str, object] = {}
    for number in range(SETTLE_ROUNDS):
        if number == SETTLE_ROUNDS - QUIET_ROUNDS:
            epochs = {group_id: _epoch_of(world, group_id) for group_id in GROUPS}
        world.harness.advance(ROUND_MS)
        world.harness.works_end()
        for client in [client for client in world.clients if client.alive]:
            client.lost = set()
            for _ in range(ROUND_REQUESTS if client.is_classic else 1):
                if client.waiting is None and client.alive:
                    if client.is_classic:
                        consumer_classic.act(world, client)
                    else:
                        consumer_protocol.beat(world, client)
                world.deliver()
            check(world)
    for group_id in GROUPS:
        # Members that crashed before may be removed at any time, which begins another epoch.
        if _epoch_of(world, group_id) == epochs[group_id]:
            _check_settled(world, group_id)
    world.settled += 1


def _epoch_of(world: ConsumerWorld, group_id: str) -> object:
    group = world.harness.machine.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group.number, group.generation
    return (group.number, group.epoch) if isinstance(group, ConsumerGroup) else None


def _check_settled(world: ConsumerWorld, group_id: str) -> None:
    clients = [client for client in world.clients if client.alive and client.group_id == group_id]
    group = world.harness.machine.groups.get(group_id)
    if not clients or not isinstance(group, ConsumerGroup | ClassicGroup):
        assert not clients, f"{group_id} does not exist, and has clients"
        return
    alive = {client.member_id for client in clients}
    for client in clients:
        assert client.member_id in group.members, f"{client.name} is not a member of {group_id}"
        if isinstance(group, ConsumerGroup):
            member = group.members[client.member_id]
            assert client.epoch == member.epoch, f"{client.name} does not know its epoch"
            held = world.topics.places(member.assigned)
            assert client.owned == held, f"{client.name} does not know its partitions"
    if alive != group.members.keys():
        # Others have crashed, and their sessions have not ended yet.
        return
    assert group.state_name == "Stable", f"{group_id} is {group.state_name} after {SETTLE_ROUNDS} rounds"
    wanted = {
        (topic.name, partition)
        for client in clients
        for topic in world.topics.image.topics
        if (re.fullmatch(client.regex, topic.name) if client.regex else topic.name in client.topics)
        for partition in topic.partitions
    }
    owned = sorted(place for client in clients for place in client.owned)
    assert owned == sorted(wanted), f"{group_id} reads {owned} of {sorted(wanted)}"
