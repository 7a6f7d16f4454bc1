"""The events of consumer and share groups: the cause of each epoch, and the rebalances that follow."""

from __future__ import annotations

import random
from typing import Any, TypeVar

import pytest

from broker_cy.coordinator.modern import journal
from broker_cy.coordinator.modern.group import CHANGED_NOTED_MAX
from broker_cy.coordinator.settings import ConsumerGroupSettings, MigrationPolicy
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now
from broker_cy.metadata.image import ImageDelta, TopicDelta
from broker_cy.metrics.events import Event, GroupConverted, GroupEpoch, Move, Rebalance, Trigger
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.share_harness import ShareHarness
from tests.broker_cy.coordinator.streams_harness import StreamsHarness

E = TypeVar("E", bound=Event)
SESSION_MS = 45_000
# The next assignment is made after this time.
INTERVAL_MS = 1_000


class Journaled(ConsumerHarness):
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        consumer = ConsumerGroupSettings(assignment_interval_ms=0, migration_policy=MigrationPolicy.BIDIRECTIONAL)
        super().__init__(Topics(t=4, other=1), consumer=consumer)
        self.number = 0

    def take(self, step: Any) -> Any:
        self.events += step.events
        return super().take(step)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def causes(self) -> list[tuple[int, str, str]]:
        return [(each.epoch, each.trigger.reason, each.trigger.member_id) for each in self.of(GroupEpoch)]

    def tell(self, member_id: str, epoch: int, **how: Any) -> Any:
        self.number += 1
        return self.beat(self.number, member_id, epoch, **how)

    def come(self, member_id: str, **how: Any) -> Any:
        return self.tell(member_id, 0, names=["t"], owned={}, rebalance_ms=REBALANCE_MS, **how)

    def join_other(self, member_id: str, **how: Any) -> Any:
        return self.tell(member_id, 0, names=["other"], owned={}, rebalance_ms=REBALANCE_MS, **how)

    def settle(self, *member_ids: str) -> None:
        """Let members report what they have until nothing is left to move."""
        for _ in range(3):
            for member_id in member_ids:
                member = self.consumers().members[member_id]
                owned = {each: list(partitions) for each, partitions in member.assigned.items()}
                self.tell(member_id, member.epoch, owned=owned)


def test_each_epoch_has_its_cause() -> None:
    """If this fails, an operator does not learn why a group rebalances."""
    h = Journaled()
    h.come("a")
    h.come("b", client_id="worker-b")
    h.settle("a", "b")
    h.tell("b", h.consumers().epoch, names=["t", "other"])
    h.settle("a", "b")
    other = h.topics.image.topics.by_name("other")
    # Only its leaders change.
    h.change(ImageDelta([TopicDelta(other, other)], [], [], []))
    h.change(h.topics.put("t", 6))
    h.settle("a", "b")
    h.tell("b", -1)
    h.settle("a")
    h.advance(SESSION_MS)
    assert h.causes() == [
        (2, "join", "a"), (3, "join", "b"), (4, "subscription", "b"), (5, "metadata", ""), (6, "leave", "b"),
        (7, "session_timeout", "a"),
    ]  # fmt: skip
    assert [each.trigger.topics for each in h.of(GroupEpoch)] == [[], [], [], ["t"], [], []]
    first, second, *_ = h.of(GroupEpoch)
    assert (first.group, first.group_type, first.members, second.members) == (GROUP, "consumer", 1, 2)
    assert (second.trigger.client_id, second.trigger.host) == ("worker-b", "127.0.0.1")
    ends = [(each.generation, each.result, each.members_before, each.members_after) for each in h.of(Rebalance)]
    assert ends == [
        (2, "stable", 0, 1), (3, "stable", 1, 2), (4, "stable", 2, 2), (5, "stable", 2, 2), (6, "stable", 2, 1),
        (7, "empty", 1, 0),
    ]  # fmt: skip


def test_the_topics_of_a_cause_are_those_that_the_group_reads() -> None:
    """If this fails, an operator does not learn which topic made the groups of an expression rebalance, or an event of
    a change of 1,000 topics has them all.
    """
    h = Journaled()
    h.change(h.topics.put("logs", 2))
    h.tell("a", 0, names=["other"], regex="t.*", owned={}, rebalance_ms=REBALANCE_MS)
    h.work()
    h.settle("a")
    h.events.clear()
    h.change(h.topics.put("logs", 3))
    h.change(h.topics.put("t", 6))
    h.change(h.topics.delete("other"))
    h.settle("a")
    assert [each.trigger for each in h.of(GroupEpoch)] == [Trigger("metadata", topics=["other", "t"])]
    many = [f"t{number}" for number in range(CHANGED_NOTED_MAX + 5)]
    for name in many:
        h.change(h.topics.put(name, 1))
    h.tell("a", h.consumers().epoch, names=many)
    h.settle("a")
    h.events.clear()
    for name in many:
        h.change(h.topics.put(name, 2))
    h.settle("a")
    (epoch,) = h.of(GroupEpoch)
    assert len(epoch.trigger.topics) == CHANGED_NOTED_MAX
    (rebalance,) = h.of(Rebalance)
    assert rebalance.triggers == [epoch.trigger]


def test_a_rebalance_tells_what_moved_and_for_how_long_nothing_was_read() -> None:
    """If this fails, the analysis of rebalances leaves out those of consumer groups, or blames the wrong partitions."""
    h = Journaled()
    h.come("a")
    h.settle("a")
    h.events.clear()
    h.come("b")
    h.tell("a", 2)  # It learns that it has to give up two partitions.
    h.advance(3_000)
    kept = {topic_id("t"): sorted(h.consumers().members["a"].assigned[topic_id("t")])}
    h.tell("a", 2, owned=kept)
    assert h.of(Rebalance) == []
    h.advance(1_000)
    h.tell("b", h.consumers().members["b"].epoch)
    (event,) = h.of(Rebalance)
    assert (event.group_type, event.protocol, event.generation, event.result) == ("consumer", "uniform", 3, "stable")
    assert [trigger.reason for trigger in event.triggers] == ["join"]
    assert event.total_ms == 4_000
    assert event.join_ms + event.sync_ms == event.total_ms
    assert event.kept == 2
    moved = [number for number in range(4) if number not in kept[topic_id("t")]]
    assert event.moves == [Move("t", number, "a", "b", 1_000) for number in moved]
    assert (event.moves_total, event.stall_max_ms) == (2, 1_000)


def test_first_partitions_of_members_that_lose_them_in_the_same_rebalance() -> None:
    """If this fails, partitions that had several owners in a rebalance are reported twice, or as those of others."""
    h = Journaled()
    h.come("a")
    h.settle("a")
    h.events.clear()
    # The rebalance stays open until `a` has given up two partitions.
    h.come("b")
    h.join_other("static", instance_id="i")
    h.join_other("c")
    assert h.consumers().owners.keys() == {topic_id("t"), topic_id("other")}
    h.tell("static", -2, instance_id="i")
    h.join_other("came back", instance_id="i")
    h.tell("came back", -1, instance_id="i")
    h.advance(INTERVAL_MS)
    h.settle("a", "b", "c")
    (event,) = h.of(Rebalance)
    kept = h.consumers().members["a"].assigned[topic_id("t")]
    moved = [number for number in range(4) if number not in kept]
    assert event.moves == [
        *(Move("t", number, "a", "b", 0) for number in moved),
        Move("other", 0, None, "c", -1),
    ]
    assert (event.moves_total, event.kept) == (3, 2)


def test_the_longest_stalls_of_very_many_moves_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group that moves 50,000 partitions writes all of them into one event, or not the worst ones."""
    monkeypatch.setattr(journal, "PARTITIONS_REPORTED_MAX", 1)
    h = Journaled()
    h.come("a")
    h.settle("a")
    h.events.clear()
    for member_id in "bc":
        h.come(member_id)
    h.tell("a", 2)
    kept = {topic_id("t"): sorted(h.consumers().members["a"].assigned[topic_id("t")])}
    h.tell("a", 2, owned=kept)
    for member_id in "bc":
        h.advance(1_000)
        h.tell(member_id, h.consumers().members[member_id].epoch)
    (event,) = h.of(Rebalance)
    moved = 4 - len(kept[topic_id("t")])
    assert (event.moves_total, event.stall_max_ms) == (moved, 2_000)
    assert [(move.source, move.target, move.stall_ms) for move in event.moves] == [("a", "c", 2_000)]


def test_very_many_moves_are_ordered_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the heartbeat that ends a rebalance of 10,000 partitions holds producers up."""
    monkeypatch.setattr(journal, "MOVES_PER_TURN", 3)
    h = Journaled()
    h.come("a")
    h.settle("a")
    assert h.of(Rebalance) == []
    h.work()
    (event,) = h.of(Rebalance)
    assert event.moves == [Move("t", number, None, "a", -1) for number in range(4)]
    assert (event.moves_total, event.kept) == (4, 0)
    h.events.clear()
    # Those of a topic that is deleted meanwhile have no name, and those of a rebalance that is undone no event.
    h.tell("a", -1)
    h.change(h.topics.delete("t"))
    h.work()
    (event,) = h.of(Rebalance)
    assert (event.result, event.moves, event.moves_total) == ("empty", [], 0)
    h.come("b", client_id="b")
    h.change(h.topics.put("t", 4))
    h.tell("b", h.consumers().members["b"].epoch)
    h.settle("b")
    h.events.clear()
    h.hold = True
    h.come("c")
    h.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    h.hold = False
    h.work()
    assert h.of(Rebalance) == []


def test_partitions_of_a_lost_member_stall_until_the_next_owner_has_them() -> None:
    """If this fails, the time after the death of a member is not counted."""
    h = Journaled()
    h.come("a")
    h.come("b")
    h.settle("a", "b")
    h.advance(SESSION_MS - 1_000)
    h.tell("a", 3)
    h.events.clear()
    h.advance(1_000)
    h.advance(2_000)
    h.tell("a", 3)
    (event,) = h.of(Rebalance)
    assert [trigger.reason for trigger in event.triggers] == ["session_timeout"]
    assert {(move.source, move.target, move.stall_ms) for move in event.moves} == {("b", "a", 2_000)}


def test_epochs_that_begin_meanwhile_belong_to_one_rebalance() -> None:
    """If this fails, a group that starts with many members writes an event for each state between."""
    h = Journaled()
    for member_id in "abc":
        h.come(member_id)
    h.settle(*"abc")
    (*_, last) = h.of(Rebalance)
    assert last.generation == 4
    assert [trigger.member_id for trigger in last.triggers][-2:] == ["b", "c"]
    assert len(h.of(Rebalance)) == 2
    assert h.causes() == [(2, "join", "a"), (3, "join", "b"), (4, "join", "c")]


def test_epochs_that_were_not_written_have_no_event() -> None:
    """If this fails, events tell of epochs that the group never had."""
    h = Journaled()
    h.come("a")
    h.settle("a")
    h.events.clear()
    h.hold = True
    h.come("b")
    assert h.events == []
    h.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    assert h.events == []
    h.hold = False
    h.come("b")
    h.settle("a", "b")
    assert h.causes() == [(3, "join", "b")]
    assert [each.generation for each in h.of(Rebalance)] == [3]


def test_a_conversion_has_an_event_each_way() -> None:
    """If this fails, it is not recorded when a group changed its protocol."""
    h = Journaled()
    subscription = messages.ConsumerProtocolSubscription(topics=["t"], owned_partitions=[])
    protocols = [("range", codec.encode_versioned(subscription, 1))]
    member_id = h.join_new("classic", protocols=protocols)
    h.advance(1)
    h.sync("sync", member_id, 1, {member_id: b""})
    h.events.clear()
    h.come("a")
    (up,) = h.of(GroupConverted)
    assert (up.group, up.before, up.after, up.members) == (GROUP, "classic", "consumer", 1)
    assert h.causes() == [(2, "join", "a")]
    h.tell("a", -1)
    down = h.of(GroupConverted)[-1]
    assert (down.before, down.after, down.members) == ("consumer", "classic", 1)


class JournaledShare(ShareHarness):
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        super().__init__()

    def take(self, step: Any) -> Any:
        self.events += step.events
        return super().take(step)


def test_a_share_group_tells_of_partitions_that_were_initialized() -> None:
    """If this fails, the second epoch of each share group has no cause."""
    h = JournaledShare()
    h.enter(1, "a")
    h.serve()
    h.advance(INTERVAL_MS)
    h.beat(2, "a", h.sharers().members["a"].epoch)
    h.beat(3, "a", -1)
    epochs = [event for event in h.events if isinstance(event, GroupEpoch)]
    assert [(each.epoch, each.group_type, each.trigger.reason) for each in epochs] == [
        (2, "share", "join"), (3, "share", "share_partitions"), (4, "share", "leave"),
    ]  # fmt: skip
    ends = [event for event in h.events if isinstance(event, Rebalance)]
    assert [(each.generation, each.result, each.protocol) for each in ends] == [
        (2, "stable", "simple"), (3, "stable", "simple"), (4, "empty", None),
    ]  # fmt: skip


def test_a_streams_group_tells_of_members_and_topics() -> None:
    """If this fails, the cause of an epoch of an application is not shown."""
    h = StreamsHarness()
    h.enter(1, "a")
    h.change(h.topics.put("t", 6))
    h.beat(2, "a", h.streams().members["a"].epoch)
    h.beat(3, "a", -1)
    epochs = [event for event in h.events if isinstance(event, GroupEpoch)]
    assert [(each.group_type, each.trigger.reason, each.trigger.member_id) for each in epochs] == [
        ("streams", "join", "a"), ("streams", "metadata", ""), ("streams", "leave", "a"),
    ]  # fmt: skip
    assert [each.trigger.topics for each in epochs] == [[], ["t"], []]
    ends = [(event.generation, event.result) for event in h.events if isinstance(event, Rebalance)]
    assert ends == [(2, "stable"), (3, "stable"), (4, "empty")]


class Reference:
    """What `Journal` notes, of each partition by itself."""

    def __init__(self) -> None:
        self.lost: dict[journal.Place, tuple[str | None, int, int]] = {}
        self.gained: dict[journal.Place, tuple[str | None, str, int]] = {}

    def held(self, member_id: str, before: set[journal.Place], after: set[journal.Place], at_ms: int) -> None:
        for place in before - after:
            earlier = self.gained.pop(place, None)
            self.lost[place] = (member_id, at_ms, -1) if earlier is None else (earlier[0], at_ms, earlier[2])
        for place in after - before:
            source, since_ms, stall_ms = self.lost.pop(place, (None, 0, -1))
            stall_ms = -1 if source is None else max(0, at_ms - since_ms, stall_ms)
            self.gained[place] = (source, member_id, stall_ms)

    def moves(self, mono_ms: int) -> list[Any]:
        moves: list[Any] = [(stall_ms, place, source, of) for place, (source, of, stall_ms) in self.gained.items()]
        moves += [(mono_ms - since_ms, place, source, None) for place, (source, since_ms, _) in self.lost.items()]
        return sorted(moves, key=repr)


def places(held: journal.Held) -> set[journal.Place]:
    return {(topic, partition) for topic, partitions in held.items() for partition in partitions}


@pytest.mark.parametrize("seed", range(60))
def test_partitions_that_are_noted_together(seed: int) -> None:
    """If this fails, the moves of a rebalance are others if members lose or gain very many partitions at once."""
    draw = random.Random(seed)
    topics = [topic_id(f"t{number}") for number in range(6)]
    values = [frozenset([0]), frozenset([1]), frozenset([0, 1])]
    holders: dict[str, journal.Held] = {member_id: {} for member_id in "ABC"}

    def change(member_id: str) -> journal.Held:
        before = holders[member_id]
        others = {place for each, held in holders.items() if each != member_id for place in places(held)}
        if draw.random() < 0.3:
            return {}
        kept = dict(before) if draw.random() < 0.6 else {each: of for each, of in before.items() if draw.random() < 0.5}
        for topic in topics:
            value = draw.choice(values)
            if (topic not in kept or draw.random() < 0.2) and not places({topic: value}) & others:
                kept[topic] = value
        return kept

    for member_id in holders:
        if draw.random() < 0.5:
            holders[member_id] = change(member_id)
    found, reference = journal.Journal(), Reference()
    found._began = Now(0, 0)
    for at_ms in range(100, 1_600, 100):
        member_id = draw.choice("ABC")
        before, after = holders[member_id], change(member_id)
        holders[member_id] = after
        found.held(member_id, before, after, at_ms)
        reference.held(member_id, places(before), places(after), at_ms)
        moves = journal._ordered(found._first, found._gained, found._lost, found._dropped, at_ms)
        assert sorted(moves.ordered, key=repr) == reference.moves(at_ms)
        assert [each[0] for each in moves.ordered] == sorted((each[0] for each in moves.ordered), reverse=True)
        assert sum(moves.lost.values()) == len(reference.lost)
        assert len(found._gained) + found._first_total == len(reference.gained)


def test_very_many_partitions_are_noted_as_one_value() -> None:
    """If this fails, a member that gains or loses 10,000 partitions holds producers up."""
    held: journal.Held = {topic_id(f"t{number}"): frozenset([0]) for number in range(50)}
    found = journal.Journal()
    found._began = Now(0, 0)
    found.held("A", held, {}, 100)
    assert (len(found._dropped), found._lost, found._gained) == (1, {}, {})
    later = journal.Journal()
    later._began = Now(0, 0)
    later.held("A", {}, held, 100)
    later.held("A", held, {**held, topic_id("new"): frozenset([0])}, 100)
    assert (later._lost, later._gained, later._first_total) == ({}, {}, 51)
    later.held("A", {**held, topic_id("new"): frozenset([0])}, {}, 200)
    assert (later._lost, later._gained, later._first_total, len(later._dropped)) == ({}, {}, 0, 1)
    assert not later._first["A"]
