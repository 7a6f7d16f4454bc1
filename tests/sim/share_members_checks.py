"""The invariants of share groups: the coordinator's state against its members' knowledge, its log, and the state of its
share partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.coordinator.share import initialization
from broker_cy.coordinator.share.describe import describe
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.state_partitions import of_topics, without
from broker_cy.coordinator.share_state.state import SharePartitionKey
from tests.broker_cy.coordinator.harness import durable, replayed, share_state
from tests.sim.share_members_clients import GROUPS, MEMBERS_MAX, PARTITIONS_MAX, SESSION_MS

if TYPE_CHECKING:
    from tests.sim.share_members_world import ShareMembersWorld

# A replay costs as much as all steps before it.
REPLAYED_SHARE = 0.1


def groups_of(world: ShareMembersWorld) -> list[ShareGroup]:
    return [group for group in world.harness.machine.groups.values() if isinstance(group, ShareGroup)]


def check(world: ShareMembersWorld) -> None:
    """Check the invariants after each step; the AssertionError names the violation."""
    for group in groups_of(world):
        _check_epochs(world, group)
        _check_partitions(world, group)
        _check_sessions(world, group)
        assert len(group.members) <= MEMBERS_MAX, f"{group.group_id} has {len(group.members)} members"
    machine = world.harness.machine
    if not world.harness.held and world.rng.random() < REPLAYED_SHARE and not _has_stale_topics(world):
        again = replayed(world.harness.log, world.harness.settings, world.harness.now, machine.image)
        now_state = durable(machine)
        wrong = {key for key, value in durable(again).items() if value != now_state[key]}
        assert not wrong, f"a restart would restore other {wrong}"


def _check_epochs(world: ShareMembersWorld, group: ShareGroup) -> None:
    """Members have at most the epoch of the assignment, and no acknowledged epoch is taken back."""
    assert group.assignment_epoch <= group.epoch
    for member in group.members.values():
        assert member.epoch <= group.assignment_epoch, f"{member.member_id} is ahead of the assignment"
    newest = world.newest.get(group.group_id, 0)
    assert group.epoch >= newest, f"a member has epoch {newest} of {group.group_id}, which has epoch {group.epoch}"


def _check_partitions(world: ShareMembersWorld, group: ShareGroup) -> None:
    """Members have only initialized partitions, and these have state. Requests under way are about known topics."""
    existing = {topic.topic_id for topic in world.topics.image.topics}
    state = group.share_partitions
    for member in group.members.values():
        stray = without(of_topics(member.assigned, existing), state.initialized)
        assert not stray, f"{member.member_id} has {stray}, whose state is not initialized"
    for topic_id, partitions in of_topics(state.initialized, existing).items():
        for partition in partitions:
            key = SharePartitionKey(group.group_id, topic_id, partition)
            assert key in world.harness.model.states, f"{key} is initialized, and has no state"
    overlap = state.deleting & (state.initialized.keys() | state.initializing.keys())
    assert not overlap, f"the state of {overlap} is made and deleted"
    for topic_id in state.deleting:
        world.forget_state(group.group_id, topic_id)
    # Those for partitions that are requested for the first time, and those for the others.
    calls_max = 2 * -(-PARTITIONS_MAX // initialization.ASKED_PER_CALL)
    calls = {topic_id: count for topic_id, count in group.under_way.items() if count > calls_max}
    assert not calls, f"several requests about one topic are under way: {calls}"


def _check_sessions(world: ShareMembersWorld, group: ShareGroup) -> None:
    """Members without a client are removed in time."""
    now_ms = world.harness.mono_ms
    alive = {client.name for client in world.clients if client.alive}
    silent = {member_id for member_id in group.members if member_id not in alive}
    for key in [key for key in world.silent if key[0] == group.group_id and key[1] not in silent]:
        del world.silent[key]
    for member_id in silent:
        since_ms = world.silent.setdefault((group.group_id, member_id), now_ms)
        assert now_ms - since_ms <= SESSION_MS, f"{member_id} has no client since {since_ms}, and is still a member"


def _has_stale_topics(world: ShareMembersWorld) -> bool:
    """Whether a group has topics that were deleted, because the record of that could not be written."""
    topics = world.topics.image.topics
    return any(topics.by_id(each) is None for group in groups_of(world) for each in group.share_partitions.topic_ids)


def check_written(world: ShareMembersWorld, group_id: str) -> None:
    """ShareGroupDescribe shows the group that a coordinator with the written records alone would show."""
    if _has_stale_topics(world):
        return
    machine = world.harness.machine
    shown = world.harness.written().get(group_id)
    written = replayed(world.harness.log, world.harness.settings, world.harness.now, machine.image).groups.get(group_id)
    found = [describe(group, group_id, "simple", machine.image).whole() for group in (shown, written)]
    for each in found:
        each.members.sort(key=lambda member: member.member_id)
    assert found[0] == found[1], f"{group_id} is shown as {found[0]}, and {found[1]} is written"
    if isinstance(shown, ShareGroup) and isinstance(written, ShareGroup):
        stale = any(machine.image.topics.by_id(each) is None for each in shown.share_partitions.topic_ids)
        if not stale:
            assert share_state(shown) == share_state(written), f"the written state of {group_id} is another one"


def check_settled(world: ShareMembersWorld, epochs: dict[str, object]) -> None:
    """Without faults, all partitions of the topics that members name are read."""
    for group_id in GROUPS:
        # Members that crashed before may be removed at any time, which begins another epoch.
        if world.epoch_of(group_id) == epochs[group_id]:
            _check_settled(world, group_id)


def _check_settled(world: ShareMembersWorld, group_id: str) -> None:
    clients = [client for client in world.clients if client.alive and client.group_id == group_id]
    group = world.harness.machine.groups.get(group_id)
    if not clients or not isinstance(group, ShareGroup):
        assert not clients, f"{group_id} does not exist, and has clients"
        return
    assert not group.under_way, f"a request of {group_id} has no result: {group.under_way}"
    for client in clients:
        assert client.name in group.members, f"{client.name} is not a member of {group_id}"
        member = group.members[client.name]
        assert client.epoch == member.epoch == group.epoch, f"{client.name} has an old epoch, {client.epoch}"
        held = world.topics.places(member.assigned)
        assert client.owned == held, f"{client.name} does not know its partitions"
        assert {topic for topic, _ in held} <= set(client.topics), f"{client.name} reads topics that it does not name"
    wanted = {
        (topic.name, partition)
        for topic in world.topics.image.topics
        if any(topic.name in member.topics for member in group.members.values())
        for partition in topic.partitions
    }
    # Members that have crashed learn nothing of their targets.
    read = {place for member_id in group.members for place in world.topics.places(group.target_of(member_id))}
    assert read == wanted, f"{group_id} reads {sorted(read)} of {sorted(wanted)}"
