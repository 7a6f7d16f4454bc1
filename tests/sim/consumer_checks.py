"""The invariants of consumer groups: the coordinator's state against its members' knowledge, and against its log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer.describe import describe
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import STATIC_LEAVE_EPOCH
from broker_cy.coordinator.group import Group, GroupType
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.step import Record
from tests.broker_cy.coordinator.consumer_harness import Place
from tests.broker_cy.coordinator.harness import Harness, consumer_state, durable, replayed
from tests.sim.consumer_clients import MEMBERS_MAX, REBALANCE_MS, SESSION_MS, Consumer

if TYPE_CHECKING:
    from tests.sim.consumer_world import ConsumerWorld


# A replay costs as much as all steps before it.
REPLAYED_SHARE = 0.1


def groups_of(world: ConsumerWorld) -> list[ConsumerGroup]:
    return [group for group in world.harness.machine.groups.values() if isinstance(group, ConsumerGroup)]


def check(world: ConsumerWorld) -> None:
    """Check the invariants after each step; the AssertionError names the violation."""
    _check_conversions(world)
    for group in groups_of(world):
        check_owners(group)
        _check_epochs(world, group)
        _check_deadlines(world, group)
        assert len(group.members) <= MEMBERS_MAX, f"{group.group_id} has {len(group.members)} members"
    _check_readers(world)
    machine = world.harness.machine
    if not world.harness.held and world.rng.random() < REPLAYED_SHARE:
        again = replayed(world.harness.log, world.harness.settings, world.harness.now, machine.image)
        now_state = durable(machine)
        wrong = {key for key, value in durable(again).items() if value != now_state[key]}
        assert not wrong, f"a restart would restore other {wrong}"
    if not world.harness.held:
        for (group_id, topic, partition), offset in world.committed.items():
            found = machine.offsets.get(group_id, topic, partition)
            assert found is not None, f"an acknowledged commit of {group_id} in {topic}-{partition} is lost"
            assert found.committed_offset == offset, "an acknowledged commit went back"


def _check_conversions(world: ConsumerWorld) -> None:
    """A consumer group becomes a classic one if all of its members are, and if it is small enough."""
    settings = world.harness.settings
    for group_id in set(world.newest) - world.harness.machine.groups.keys():
        del world.newest[group_id]
    for group_id, group in world.harness.machine.groups.items():
        before = world.kinds.get(group_id)
        if before is not group.group_type and group_id in world.empty:
            # A group without members leaves its id to another one.
            world.newest.pop(group_id, None)
        world.empty.discard(group_id)
        if isinstance(group, ConsumerGroup | ClassicGroup) and not group.members:
            world.empty.add(group_id)
        if isinstance(group, ClassicGroup) and before is GroupType.CONSUMER and group.members:
            assert len(group.members) <= settings.group_max_size, f"{group_id} has {len(group.members)} members now"
        if before is not group.group_type:
            # All sessions begin again.
            world.silent = {key: since for key, since in world.silent.items() if key[0] != group_id}
        world.kinds[group_id] = group.group_type
        if isinstance(group, ConsumerGroup) and 0 < len(group.members) == group.classic_members:
            assert (
                not settings.consumer.migration_policy.is_downgrade_enabled
                or len(group.members) > settings.group_max_size
            ), f"{group_id} has only classic members, and is a consumer group"


def check_written(world: ConsumerWorld, group_id: str) -> None:
    """ConsumerGroupDescribe shows the group that a coordinator with the written records alone would show."""
    machine = world.harness.machine
    shown = world.harness.written().get(group_id)
    again = replayed(world.harness.log, world.harness.settings, world.harness.now, machine.image)
    written = again.groups.get(group_id)
    if not any(isinstance(group, ConsumerGroup) for group in (shown, written)):
        return
    found = [describe(group, group_id, "uniform", machine.image).whole() for group in (shown, written)]
    for each in found:
        each.members.sort(key=lambda member: member.member_id)
        # Topics have no order: a record has them in another one than the coordinator got them in.
        for member in each.members:
            for held in (member.assignment, member.target_assignment):
                held.topic_partitions.sort(key=lambda topic: topic.topic_name)
    assert found[0] == found[1], f"{group_id} is shown as {found[0]}, and {found[1]} is written"
    if isinstance(shown, ConsumerGroup) and isinstance(written, ConsumerGroup):
        assert consumer_state(shown) == consumer_state(written), f"the written state of {group_id} is another one"


def check_owners(group: ConsumerGroup) -> None:
    """A partition has one owner, which the index names."""
    owners: dict[tuple[object, int], str] = {}
    for member in group.members.values():
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    before = owners.setdefault((topic_id, partition), member.member_id)
                    assert before == member.member_id, f"{before} and {member.member_id} have {partition}"
    index = {(topic_id, p): owner for topic_id, owned in group.owners.items() for p, owner in owned.items()}
    assert index == owners, f"the owners of {group.group_id} are {owners}, and its index is {index}"


def _check_epochs(world: ConsumerWorld, group: ConsumerGroup) -> None:
    """Members have at most the epoch of the assignment, and no acknowledged epoch is taken back."""
    assert group.assignment_epoch <= group.epoch
    for member in group.members.values():
        assert member.epoch <= group.assignment_epoch, f"{member.member_id} is ahead of the assignment"
    newest = world.newest.get(group.group_id, 0)
    assert group.epoch >= newest, f"a member has epoch {newest} of {group.group_id}, which has epoch {group.epoch}"


def _check_deadlines(world: ConsumerWorld, group: ConsumerGroup) -> None:
    """Members without a client, and members that do not give partitions up, are removed in time."""
    now_ms = world.harness.mono_ms
    alive = {client.member_id for client in world.clients if client.alive}
    silent = {member_id for member_id in group.members if member_id not in alive}
    stuck = {
        member.member_id
        for member in group.members.values()
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != STATIC_LEAVE_EPOCH
    }
    for known, found, limit_ms, what in (
        (world.silent, silent, SESSION_MS, "has no client"),
        (world.stuck, stuck, REBALANCE_MS, "has to give up partitions"),
    ):
        for key in [key for key in known if key[0] == group.group_id and key[1] not in found]:
            del known[key]
        for member_id in found:
            if world.harness.held and group.members[member_id].classic is not None:
                # Its session begins when its join is written.
                known.pop((group.group_id, member_id), None)
                continue
            # A change of the subscription may add partitions, with time of their own.
            of = repr(group.members[member_id].revoking) if known is world.stuck else None
            since_ms, before = known.setdefault((group.group_id, member_id), (now_ms, of))
            if before != of:
                known[group.group_id, member_id] = (now_ms, of)
            else:
                assert now_ms - since_ms <= limit_ms, f"{member_id} {what} for {now_ms - since_ms} ms"


def _check_readers(world: ConsumerWorld) -> None:
    """Two members never read one partition. A client that was removed may not know it yet."""
    readers: dict[tuple[str, Place], str] = {}
    machine = world.harness.machine
    for client in world.clients:
        if not client.is_member or not is_current(client, machine.groups.get(client.group_id)):
            continue
        for place in client.owned | client.lost:
            before = readers.setdefault((client.group_id, place), client.name)
            assert before == client.name, f"{before} and {client.name} read {place} of {client.group_id}"


def is_current(client: Consumer, group: Group | None) -> bool:
    """Whether the client is a member. A static member of a classic group that does not join again stays one, and others
    read its partitions.
    """
    if isinstance(group, ClassicGroup):
        is_in_time = client.instance_id is None or client.epoch == group.generation
        return client.is_classic and client.member_id in group.members and is_in_time
    member = group.members.get(client.member_id) if isinstance(group, ConsumerGroup) else None
    if member is None or not client.is_classic:
        return member is not None
    # One that was removed, and joined again before it knew, gives up the rest with its next assignment. It reads on, as
    # with Kafka, if its SyncGroup only tells it to join again.
    return not client.was_removed and client.epoch == member.epoch


# ---- compacted logs ----

# They have the offsets of records, which compaction keeps, and a list of records does not.
OFFSETS = ("offsets", "pending")


def compacted(log: list[Record], end: int, tombstones_end: int) -> list[Record]:
    """The log after its first `end` records were compacted, and tombstones before `tombstones_end` removed."""
    newest = {record.key: index for index, record in enumerate(log[:end])}
    return [
        record
        for index, record in enumerate(log[:end])
        if newest[record.key] == index and (record.value is not None or index >= tombstones_end)
    ] + log[end:]


class LoggedWorld(Protocol):
    """A world of one type of groups."""

    rng: random.Random

    @property
    def harness(self) -> Harness: ...


def check_compaction(world: LoggedWorld) -> None:
    """A log that is compacted, also while it is read, loads and gives the same groups."""
    log, rng = world.harness.log, world.rng
    settings, now, image = world.harness.settings, world.harness.now, world.harness.machine.image
    if not log:
        return
    end = rng.randrange(len(log) + 1)
    cut = rng.randrange(end + 1)
    short = compacted(log, end, rng.randrange(end + 1))
    # The part before `cut` is read before the compaction, the rest after it. Tombstones stay for longer than that.
    kept = {id(record) for record in compacted(log, end, 0)}
    mixed = log[:cut] + [record for record in log[cut:] if id(record) in kept]
    expected = durable(replayed(log, settings, now, image))
    for found in (short, mixed):
        try:
            machine: GroupMachine = replayed(found, settings, now, image)
        except Exception as error:
            raise AssertionError(f"a compacted log cannot be loaded: {error!r}") from error
        wrong = {key for key, value in durable(machine).items() if key not in OFFSETS and value != expected[key]}
        assert not wrong, f"a compacted log has other {wrong}"
