"""A classic group that reads very many topics becomes a consumer group after a worker has converted it."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer import upgrade
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import WorkFailed
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.consumer.test_conversion import classic_pair, harness, rejoin, subscription
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP, durable, replayed

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture(autouse=True)
def in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """As groups with more bytes of subscriptions and assignments."""
    monkeypatch.setattr(upgrade, "BYTES_PER_TURN", -1)


def test_it_is_the_same_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group with 10,000 topics loses members or partitions when it becomes a consumer group; or the
    broker stands still meanwhile.
    """
    groups = []
    for bytes_max in (-1, upgrade.BYTES_PER_TURN + (1 << 20)):
        monkeypatch.setattr(upgrade, "BYTES_PER_TURN", bytes_max)
        h = harness()
        leader, other = classic_pair(h)
        generation = h.group().generation
        if bytes_max < 0:
            before, records = durable(h.machine), len(h.log)
            assert h.enter("first", "C").error_code == LOADING
            # A worker is asked once.
            assert h.enter("second", "C").error_code == LOADING
            assert len(h.works) == 1
            assert (durable(h.machine), len(h.log)) == (before, records)
            assert h.heartbeat(leader, generation) is ErrorCode.NONE
            h.works_end()
            assert isinstance(h.machine.groups[GROUP], ClassicGroup)
        answer = h.enter("joins", "C")
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, generation + 1)
        assert h.heartbeat(other, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        h.works_end()
        assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)
        groups.append((durable(h.machine), h.log))
        assert h.consumers().held_total == 4
    assert groups[0] == groups[1]


def test_topics_are_looked_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, producers wait while the names of 100,000 topics are looked up."""
    monkeypatch.setattr(upgrade, "TOPICS_PER_TURN", 2)
    names = [f"t{number}" for number in range(5)]
    h = ConsumerHarness(Topics(**dict.fromkeys(names, 1)), consumer=harness().settings.consumer)
    member_id = h.join_new("a", protocols=[("range", subscription(topics=tuple(names)))])
    h.advance(1)
    kind = messages.ConsumerProtocolAssignment
    parts = [kind.TopicPartition(topic=name, partitions=[0]) for name in (*names, "unknown")]
    h.sync(
        "a syncs",
        member_id,
        h.group().generation,
        {member_id: codec.encode_versioned(kind(assigned_partitions=parts), 1)},
    )
    assert h.enter("first", "C", *names).error_code == LOADING
    turns = []
    while h.works:
        turns.append(h.works[0].then)
        h.work()
    assert turns == [upgrade.looked_up] * 3 + [upgrade.converted]
    assert h.enter("again", "C", *names).error_code == ErrorCode.NONE
    assert h.topics.places(h.consumers().members[member_id].assigned) == {(name, 0) for name in names}


def test_a_group_that_changes_meanwhile() -> None:
    """If this fails, members of the consumer group have partitions of an earlier generation, which others read."""
    h = harness()
    leader, other = classic_pair(h)
    assert h.enter("first", "C").error_code == LOADING
    h.leave("leaves", (other, None))
    rejoin(h, "rejoin", leader)
    h.sync("sync", leader, h.group().generation, {leader: h.group().members[leader].assignment})
    h.works_end()
    assert h.group().conversion is not None
    assert h.enter("other generation", "C").error_code == LOADING
    h.works_end()
    assert h.enter("again", "C").error_code == ErrorCode.NONE
    assert h.consumers().members.keys() == {leader, "C"}


def test_it_can_be_written_later() -> None:
    """If this fails, the log has half a group, or none can be made of it any more, after its records could not be
    written.
    """
    h = harness()
    classic_pair(h)
    before = durable(h.machine)
    assert h.enter("first", "C").error_code == LOADING
    h.works_end()
    h.hold = True
    h.enter("fails", "C")
    assert isinstance(h.machine.groups[GROUP], ConsumerGroup)
    assert isinstance(h.written().get(GROUP), ClassicGroup)
    assert h.machine.subscribers.of("t")
    h.fail()
    h.hold = False
    assert durable(h.machine) == before
    assert not h.machine.subscribers.of("t")
    assert h.enter("repeats", "C").error_code == LOADING
    h.works_end()
    assert h.enter("succeeds", "C").error_code == ErrorCode.NONE
    assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)


def test_a_request_that_is_refused_after_the_conversion() -> None:
    """If this fails, an expression that is malformed makes half a consumer group of a classic one, or ends the sessions
    of its members.
    """
    h = harness()
    leader, _ = classic_pair(h)
    before = durable(h.machine)
    assert h.enter("first", "C").error_code == LOADING
    h.works_end()
    assert h.enter("malformed", "C", regex="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert durable(h.machine) == before
    assert not h.machine.subscribers.of("t")
    h.hold = True
    h.enter("cannot be written", "D", group_id="other")
    h.fail()
    assert h.machine.timers.get(TimerKey(TimerKind.SESSION, GROUP, leader)) is not None


def test_a_group_that_cannot_be_converted() -> None:
    """If this fails, a client waits for ever for a group that it cannot join."""
    h = harness()
    classic_pair(h, user_data=b"mine")
    assert h.enter("first", "C").error_code == LOADING
    h.works_end()
    assert h.enter("again", "C").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_worker_that_fails() -> None:
    """If this fails, no member can join by the consumer protocol once a worker had no memory."""
    h = harness()
    classic_pair(h)
    assert h.enter("first", "C").error_code == LOADING
    (work,) = h.works
    h.works = []
    h.run(work.then, *work.about, WorkFailed("no memory"))
    assert h.works == []
    assert h.enter("second", "C").error_code == LOADING
    h.works_end()
    assert h.enter("third", "C").error_code == ErrorCode.NONE


def test_a_group_that_is_deleted_meanwhile() -> None:
    """If this fails, the result for a group becomes that of a later one with its id."""
    h = harness()
    leader, other = classic_pair(h)
    assert h.enter("first", "C").error_code == LOADING
    h.leave("both leave", (leader, None), (other, None))
    assert h.delete_groups("delete", GROUP) == {GROUP: ErrorCode.NONE}
    h.works_end()
    assert GROUP not in h.machine.groups


@pytest.mark.parametrize(("names", "changes", "is_known"), [("tu", 0, True), ("tu", 1, False), ("t", 0, False)])
def test_whether_a_member_reads_all_that_it_was_assigned(names: str, changes: int, is_known: bool) -> None:
    """If this fails, a member of a converted group goes on with a topic that it has not named, or that was deleted
    during the conversion; or each of its heartbeats looks at 10,000 topics.
    """
    h = ConsumerHarness(Topics(t=1, u=1), consumer=harness().settings.consumer)
    member_id = h.join_new("a", protocols=[("range", subscription(topics=tuple(names)))])
    h.advance(1)
    kind = messages.ConsumerProtocolAssignment
    parts = [kind.TopicPartition(topic=name, partitions=[0]) for name in "tu"]
    assigned = {member_id: codec.encode_versioned(kind(assigned_partitions=parts), 1)}
    h.sync("a syncs", member_id, h.group().generation, assigned)
    assert h.enter("first", "C", regex="nothing").error_code == LOADING
    h.works_end()
    h.machine.image.generation += changes
    source = upgrade._source(h.group())
    found = upgrade._converted(h.machine, GroupStep(), h.group(), source)
    assert isinstance(found, upgrade.Made)
    member = found.group.members[member_id]
    known = found.group.known_read(member_id, member.topics)
    assert known is (found.group.target[member_id] if is_known else None)
