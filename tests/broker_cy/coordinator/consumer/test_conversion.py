"""Groups that change between the classic and the consumer protocol while their members go on."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.settings import ConsumerGroupSettings, MigrationPolicy
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Place, Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP, durable, replayed

T = topic_id("t")
ALL = {("t", 0), ("t", 1), ("t", 2), ("t", 3)}
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS


def harness(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **settings: Any) -> ConsumerHarness:
    consumer = ConsumerGroupSettings(assignment_interval_ms=0, migration_policy=policy)
    return ConsumerHarness(Topics(t=4), consumer=consumer, **settings)


@pytest.fixture
def h() -> ConsumerHarness:
    return harness()


def subscription(*owned: int, topics: tuple[str, ...] = ("t",)) -> bytes:
    """Version 1 of ConsumerProtocolSubscription, of a member that owns these partitions of t."""
    parts = [messages.ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=list(owned))] if owned else []
    return codec.encode_versioned(messages.ConsumerProtocolSubscription(topics=list(topics), owned_partitions=parts), 1)


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    part = messages.ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=list(partitions))
    value = messages.ConsumerProtocolAssignment(assigned_partitions=[part] if partitions else [], user_data=user_data)
    return codec.encode_versioned(value, 1)


def places(data: bytes) -> set[Place]:
    value, _ = codec.decode_versioned(messages.ConsumerProtocolAssignment, data)
    return {(each.topic, partition) for each in value.assigned_partitions for partition in each.partitions}


def classic_pair(h: ConsumerHarness, **how: Any) -> tuple[str, str]:
    """A stable classic group of two members with two partitions each."""
    protocols = [("range", subscription())]
    a = h.join_new("a", protocols=protocols)
    b = h.join_new("b", protocols=protocols)
    h.advance(1)
    generation = h.group().generation
    leader, other = (a, b) if h.group().leader_id == a else (b, a)
    h.sync("other", other, generation)
    h.sync("leader", leader, generation, {leader: assignment(0, 1, **how), other: assignment(2, 3)})
    assert h.group().state is GroupState.STABLE
    return leader, other


def rejoin(h: ConsumerHarness, token: object, member_id: str, *owned: int) -> Any:
    return h.join(token, member_id, protocols=[("range", subscription(*owned))])


def test_a_consumer_joins_a_classic_group(h: ConsumerHarness) -> None:
    """If this fails, an application cannot move to the consumer protocol one instance after the other."""
    leader, other = classic_pair(h)
    generation = h.group().generation
    answer = h.enter("c", "C")
    assert (answer.error_code, answer.member_epoch, h.assigned("c")) == (ErrorCode.NONE, generation + 1, set())
    group = h.consumers()
    assert group.classic_members == 2
    assert len(group.members) == 3
    assert group.members[leader].epoch == generation
    # They learn of it by their heartbeats, and give up what the new one gets.
    for member_id in (leader, other):
        assert h.heartbeat(member_id, generation) is REBALANCING
        joined = rejoin(h, f"{member_id} joins", member_id)
        assert (joined.error_code, joined.members, joined.protocol_name) == (ErrorCode.NONE, [], "range")
        h.sync(f"{member_id} syncs", member_id, joined.generation_id)
    h.beat("c 2", "C", generation + 1, owned={})
    epoch = group.epoch
    for member_id in (leader, other):
        if h.heartbeat(member_id, group.members[member_id].epoch) is REBALANCING:
            joined = rejoin(h, f"{member_id} joins again", member_id)
            h.sync(f"{member_id} syncs again", member_id, joined.generation_id)
    assert group.state_name == "Stable"
    assert group.epoch == epoch
    read = h.topics.places(group.members["C"].assigned)
    assert len(read) in (1, 2)
    for member_id in (leader, other):
        tokens = (f"{member_id} syncs again", f"{member_id} syncs")
        answer = next(h.answers[token] for token in tokens if token in h.answers)
        read |= places(answer.assignment)
    assert read == ALL
    assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)


def test_the_last_consumer_leaves(h: ConsumerHarness) -> None:
    """If this fails, an application cannot go back to the classic protocol."""
    leader, other = classic_pair(h)
    h.enter("c", "C")
    epoch = h.consumers().epoch
    h.beat("leaves", "C", -1)
    group = h.group()
    assert h.code("leaves") is ErrorCode.NONE
    assert (group.generation, group.state) == (epoch, GroupState.PREPARING_REBALANCE)
    assert set(group.members) == {leader, other}
    assert h.heartbeat(leader, epoch) is REBALANCING
    rejoin(h, "l", leader)
    rejoin(h, "o", other)
    assert h.answers["l"].generation_id == epoch + 1
    assert len(h.answers["l"].members) == 2
    assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)


def test_the_last_consumer_is_silent(h: ConsumerHarness) -> None:
    """If this fails, a consumer that crashed keeps the group from going back."""
    leader, other = classic_pair(h)
    h.enter("c", "C")
    for number in range(6):
        h.advance(8_000)
        for member_id in (leader, other):
            group = h.machine.groups[GROUP]
            epoch = group.members[member_id].epoch if isinstance(group, ConsumerGroup) else h.group().generation
            h.heartbeat(member_id, epoch)
        assert number == 5 or isinstance(h.machine.groups[GROUP], ConsumerGroup)
    assert isinstance(h.machine.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_every_policy(policy: MigrationPolicy) -> None:
    """If this fails, `group.consumer.migration.policy` does not do what it says."""
    h = harness(policy)
    classic_pair(h)
    answer = h.enter("c", "C")
    if not policy.is_upgrade_enabled:
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert h.group().state is GroupState.STABLE
        return
    assert answer.error_code == ErrorCode.NONE
    h.beat("leaves", "C", -1)
    assert isinstance(h.machine.groups[GROUP], ClassicGroup) is policy.is_downgrade_enabled


def test_a_large_group_stays() -> None:
    """If this fails, a group becomes a classic one with more members than `group.max.size` allows (KAFKA-16861)."""
    h = harness(group_max_size=2)
    h.enter("c", "C")
    ids = [h.join_new(name, protocols=[("range", subscription())]) for name in ("x", "y", "z")]
    h.beat("leaves", "C", -1)
    assert h.consumers().classic_members == 3
    h.leave("one less", (ids[0], None))
    assert len(h.group().members) == 2


def test_classic_members_join_a_consumer_group() -> None:
    """If this fails, a consumer of the classic protocol cannot join, or joins although that is not allowed."""
    h = harness(MigrationPolicy.DISABLED)
    h.enter("c", "C")
    assert h.join("x", protocols=[("range", subscription())]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    h = harness(MigrationPolicy.UPGRADE)
    h.enter("c", "C")
    member_id = h.join_new("x", protocols=[("range", subscription()), ("other", b"")])
    assert h.answers["x"].generation_id == h.consumers().epoch
    assert h.join("y", "y", protocols=[("sticky", subscription())]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.sync("s", member_id, h.answers["x"].generation_id - 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert h.sync("s2", "C", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync("s3", member_id, h.answers["x"].generation_id).error_code == ErrorCode.NONE
    assert h.commit("o", 1, member_id=member_id, generation=99, topic_id=T) is ErrorCode.ILLEGAL_GENERATION
    assert h.leave("l", (member_id, None), ("z", None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_that_does_not_sync_is_removed(h: ConsumerHarness) -> None:
    """If this fails, a member that joined and went away holds its partitions."""
    h.enter("c", "C")
    member_id = h.join_new("x", protocols=[("range", subscription())], rebalance_ms=5_000, session_ms=30_000)
    h.advance(4_999)
    assert member_id in h.consumers().members
    h.advance(1)
    assert member_id not in h.consumers().members


def test_a_member_that_does_not_join_again_is_removed(h: ConsumerHarness) -> None:
    """If this fails, a classic member that has to join again, and does not, blocks the others."""
    h.enter("c", "C")
    member_id = h.join_new("x", protocols=[("range", subscription())], rebalance_ms=5_000, session_ms=30_000)
    h.sync("s", member_id, h.answers["x"].generation_id)
    h.enter("d", "D")
    epoch = h.consumers().members[member_id].epoch
    assert h.heartbeat(member_id, epoch) is REBALANCING
    h.advance(4_000)
    assert h.heartbeat(member_id, epoch) is REBALANCING
    h.advance(1_000)
    assert member_id not in h.consumers().members


def test_assignors_with_data_of_their_own_are_kept(h: ConsumerHarness) -> None:
    """If this fails, a group loses the state of its custom assignor."""
    classic_pair(h, user_data=b"mine")
    assert h.enter("c", "C").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.group().state is GroupState.STABLE


def test_malformed_subscriptions_are_no_consumers(h: ConsumerHarness) -> None:
    """If this fails, a group with foreign metadata is destroyed."""
    h.stable("a", protocols=[("range", b"\x00")])
    assert h.enter("c", "C").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_upgrade_that_cannot_be_written(h: ConsumerHarness) -> None:
    """If this fails, a full disk destroys a classic group."""
    leader, other = classic_pair(h)
    before = durable(h.machine)
    h.hold = True
    h.enter("c", "C")
    h.fail()
    h.hold = False
    assert h.code("c") is ErrorCode.NOT_COORDINATOR
    assert durable(h.machine) == before
    assert h.group().state is GroupState.PREPARING_REBALANCE
    assert h.heartbeat(leader, h.group().generation) is REBALANCING
    h.advance(10_000)
    assert other not in h.group().members


def test_a_downgrade_that_cannot_be_written(h: ConsumerHarness) -> None:
    """If this fails, members that have to join again wait forever, or the group forgets one."""
    leader, _ = classic_pair(h)
    h.enter("c", "C")
    before = durable(h.machine)
    h.hold = True
    h.beat("leaves", "C", -1)
    rejoin(h, "waits", leader)
    h.fail()
    h.hold = False
    assert h.answers["waits"].error_code == ErrorCode.NOT_COORDINATOR
    assert durable(h.machine) == before
    h.advance(45_000)
    assert GROUP not in h.machine.groups or not h.machine.groups[GROUP].has_members  # type: ignore[attr-defined]


def test_a_static_member_goes_back(h: ConsumerHarness) -> None:
    """If this fails, the group stays a consumer group although its last consumer restarted with the old settings
    (KAFKA-17317).
    """
    h.join("one", protocols=[("range", subscription())], instance_id="one")
    h.advance(1)
    one = h.answers["one"].member_id
    h.sync("one syncs", one, h.answers["one"].generation_id, {one: assignment(0, 1, 2, 3)}, instance_id="one")
    h.enter("two", "C", instance_id="two")
    h.heartbeat(one, h.consumers().members[one].epoch, instance_id="one")
    epoch = h.consumers().epoch
    joined = h.join("back", protocols=[("range", subscription())], instance_id="two")
    assert joined.error_code == ErrorCode.NONE
    group = h.group()
    assert group.generation == epoch
    assert set(group.static_members) == {"one", "two"}
    # The new members' target is the assignment of the group.
    assert sorted(p for member in group.members.values() for p in places(member.assignment)) == sorted(ALL)
    assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)


def test_a_group_goes_back_and_forth_during_a_rebalance(h: ConsumerHarness) -> None:
    """If this fails, a consumer gets partitions that a classic member still reads, because the group became a classic
    one and a consumer group again before that member could join again.
    """
    member_id = h.join_new("x", protocols=[("range", subscription())])
    h.advance(1)
    h.sync("x syncs", member_id, h.group().generation, {member_id: assignment(0, 1, 2, 3)})
    h.enter("c", "C")
    assert h.assigned("c") == set()
    h.beat("leaves", "C", -1)
    assert h.group().state is GroupState.PREPARING_REBALANCE
    h.enter("d", "D")
    assert h.assigned("d") == set()
    rejoin(h, "x again", member_id, 0, 1)
    assert h.topics.places(h.consumers().members[member_id].assigned) == {("t", 0), ("t", 1)}


def test_a_static_member_goes_back_during_a_rebalance(h: ConsumerHarness) -> None:
    """If this fails, the members of a group that becomes a classic one are assigned what others still read, and are
    not told to share the partitions again.
    """
    h.join("one", protocols=[("range", subscription())], instance_id="one")
    h.advance(1)
    one = h.answers["one"].member_id
    h.sync("one syncs", one, h.answers["one"].generation_id, {one: assignment(0, 1, 2, 3)}, instance_id="one")
    h.enter("two", "C", instance_id="two")
    two = h.join("back", protocols=[("range", subscription())], instance_id="two").member_id
    group = h.group()
    assert group.state is GroupState.PREPARING_REBALANCE
    assert places(group.members[one].assignment) == ALL
    assert places(group.members[two].assignment) == set()


def test_an_empty_group_changes_its_type(h: ConsumerHarness) -> None:
    """If this fails, a group id can never be used by another protocol."""
    h.enter("a", "A")
    h.beat("leaves", "A", -1)
    member_id = h.join_new("x")
    h.advance(1)
    assert set(h.group().members) == {member_id}
    h.leave("l", (member_id, None))
    h.advance(1)
    assert h.group().state is GroupState.EMPTY
    assert h.enter("again", "A").member_epoch == 2
    assert h.consumers().members["A"].state is MemberState.STABLE
    assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)


def test_a_known_id_is_unknown_in_an_empty_group(h: ConsumerHarness) -> None:
    """If this fails, a classic member is alone in a consumer group, which never becomes a classic one."""
    h.enter("a", "A")
    member_id = h.join("asks", protocols=[("range", subscription())]).member_id
    h.beat("leaves", "A", -1)
    assert rejoin(h, "too late", member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert h.consumers().members == {}


def test_an_upgrade_shares_partitions_again(h: ConsumerHarness) -> None:
    """If this fails, a group that was just being shared out reads nothing after an upgrade by an expression that
    matches no topic.
    """
    protocols = [("range", subscription())]
    member_id = h.join_new("a", protocols=protocols)
    h.advance(1)
    assert h.group().state is GroupState.COMPLETING_REBALANCE
    generation = h.group().generation
    h.beat("c", "C", 0, regex="none", owned={}, rebalance_ms=5_000)
    assert h.consumers().epoch == generation + 1
    assert h.topics.places(h.consumers().target[member_id]) == ALL
