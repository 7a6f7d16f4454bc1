"""A member that gains more topics than one answer adds gets them page by page."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from broker_cy.coordinator.consumer import pace, reconcile, records, regex
from broker_cy.coordinator.modern import journal
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.coordinator.step import GroupStep
from broker_cy.metrics.events import Event, Rebalance
from broker_cy.wire import codec
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP, durable

TOPICS, PAGE = 60, 20
HEARTBEATS_MAX = 40


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "TOPICS_PER_ANSWER", PAGE)


def harness(partitions: int = 1) -> ConsumerHarness:
    topics = Topics(**{f"t{number}": partitions for number in range(TOPICS)})
    # As with 10,000 topics, the assignor runs in the background.
    settings = ConsumerGroupSettings(assignment_interval_ms=0, assigned_at_once_max=0)
    return ConsumerHarness(topics, consumer=settings)


def join(h: ConsumerHarness, member_id: str, **how: Any) -> None:
    h.beat(f"{member_id} joins {len(h.log)}", member_id, 0, owned={}, rebalance_ms=REBALANCE_MS, **how)
    h.works_end()


def beat(h: ConsumerHarness, token: str, member_id: str = "A") -> Any:
    """The member has what its last answer gave it."""
    member = h.consumers().members[member_id]
    answer = h.beat(token, member_id, member.epoch, owned=member.assigned)
    h.works_end()
    return answer


def settle(h: ConsumerHarness, *member_ids: str) -> None:
    for number in range(HEARTBEATS_MAX):
        for member_id in member_ids:
            beat(h, f"{member_id} settles {number} {len(h.answers)}", member_id)
        if h.consumers().is_stable:
            return
    raise AssertionError("the group is not stable")


def count(h: ConsumerHarness, member_id: str = "A") -> int:
    return len(h.consumers().members[member_id].assigned)


def started() -> ConsumerHarness:
    """Member A has the first page."""
    h = harness()
    join(h, "A", regex=".*")
    beat(h, "assign")
    beat(h, "first")
    assert count(h) == PAGE
    return h


def check_owners(h: ConsumerHarness) -> None:
    """Each partition has the owner that holds it, and no member holds more."""
    group = h.consumers()
    held = {
        (topic_id, partition): member.member_id
        for member in group.members.values()
        for topic_id, partitions in member.held.items()
        for partition in partitions
    }
    assert held == {
        (topic_id, each): owner for topic_id, found in group.owners.items() for each, owner in found.items()
    }
    assert group.held_total == len(held)


def test_each_answer_adds_a_page() -> None:
    """If this fails, a member that gains 10,000 topics holds producers up in one turn of the loop, or the client gives
    up partitions because an answer does not repeat what it has.
    """
    h = harness()
    join(h, "A", regex=".*")
    beat(h, "assign")
    had: set[UUID] = set()
    for number in range(TOPICS // PAGE):
        answer = beat(h, f"page {number}")
        # It is what a client decodes.
        answer = codec.decode(type(answer), 1, codec.encode(answer, 1))
        assignment = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        assert had < assignment.keys()
        assert len(assignment) == (number + 1) * PAGE
        assert all(partitions == [0] for partitions in assignment.values())
        assert answer.member_epoch == h.consumers().assignment_epoch
        had = set(assignment)
        member = h.consumers().members["A"]
        is_last = len(assignment) == TOPICS
        assert member.state is (MemberState.STABLE if is_last else MemberState.UNRELEASED_PARTITIONS)
        check_owners(h)
        before = durable(h.machine)
        h.restart()
        assert durable(h.machine) == before
        # Nothing is kept for a member that has all.
        assert not h.consumers().pages
        if not is_last:
            # The next page begins with a look at all that the member has.
            beat(h, f"after the restart {number}")
            assert count(h) == (number + 2) * PAGE
            break
    settle(h, "A")
    assert count(h) == TOPICS
    assert not h.consumers().pages
    assert beat(h, "acknowledged").assignment is None


def test_the_work_of_a_page_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the last pages of 10,000 topics hold producers up for more than 5 ms: each looks at all that the
    member has, and the hashes of topic ids take most of the time.
    """
    # As with 1,000 topics, the moves of the rebalance are ordered in the background.
    monkeypatch.setattr(journal, "MOVES_PER_TURN", 0)
    monkeypatch.setattr(pace, "HOLDERS_MAX", 0)
    h = harness()
    join(h, "A", regex=".*")
    beat(h, "assign")
    hashed: list[UUID] = []
    encoded: list[int] = []
    right = records.encode_more

    def counted(topic_id: UUID) -> int:
        hashed.append(topic_id)
        return hash(topic_id.int)

    def encode_more(elements: codec.EncodedElements, held: Any) -> None:
        encoded.append(len(held))
        right(elements, held)

    monkeypatch.setattr(UUID, "__hash__", counted)
    monkeypatch.setattr(records, "encode_more", encode_more)
    for number in range(TOPICS // PAGE):
        member = h.consumers().members["A"]
        hashed.clear()
        encoded.clear()
        h.beat(f"page {number}", "A", member.epoch, owned=member.assigned)
        assert count(h) == (number + 1) * PAGE
        assert len(hashed) <= 7 * PAGE
        assert sum(encoded) == PAGE
    hashed.clear()
    member = h.consumers().members["A"]
    h.beat("acknowledge", "A", member.epoch, owned=member.assigned)
    assert not hashed


def test_a_target_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the end of an assignment of 10,000 topics holds producers up for 6 ms; or a restart knows another
    target.
    """
    h = harness()
    join(h, "A", regex=".*")
    decoded: list[type[Any]] = []
    right = codec.decode_versioned

    def decode(kind: type[Any], value: bytes) -> Any:
        decoded.append(kind)
        return right(kind, value)

    monkeypatch.setattr(codec, "decode_versioned", decode)
    beat(h, "assign")
    monkeypatch.undo()
    assert len(h.consumers().target["A"]) == TOPICS
    assert records.TargetValue not in decoded
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


def test_a_page_that_cannot_be_written() -> None:
    """If this fails, a member that gets its partitions in pages misses those of a failed write, or the next record of
    it has them twice.
    """
    h = started()
    h.hold = True
    member = h.consumers().members["A"]
    h.beat("lost", "A", member.epoch, owned=member.assigned)
    assert count(h) == 2 * PAGE
    h.fail()
    h.hold = False
    assert count(h) == PAGE
    settle(h, "A")
    assert count(h) == TOPICS
    check_owners(h)
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


def test_the_target_changes_between_two_pages() -> None:
    """If this fails, a member goes on to get partitions that another one is to have."""
    h = started()
    join(h, "B", regex=".*")
    settle(h, "A", "B")
    assert count(h) + count(h, "B") == TOPICS
    assert count(h, "B") == TOPICS // 2
    check_owners(h)


def test_partitions_that_others_hold_are_tried_again() -> None:
    """If this fails, a member that gets its partitions in pages never gets those that another one gives up later."""
    h = harness(2)
    join(h, "A", regex=".*", assignor="range")
    beat(h, "assign")
    settle(h, "A")
    join(h, "B", regex=".*", assignor="range")
    beat(h, "B assigns", "B")
    for number in range(3):
        beat(h, f"B waits {number}", "B")
    assert count(h, "B") == 0
    assert h.consumers().members["B"].state is MemberState.UNRELEASED_PARTITIONS
    settle(h, "A", "B")
    assert count(h) == count(h, "B") == TOPICS
    check_owners(h)


def test_a_topic_that_is_deleted_before_its_page() -> None:
    """If this fails, a member waits for the partitions of a deleted topic for ever, or gets them."""
    h = started()
    had = {topic.name for topic in h.topics.image.topics if topic.topic_id in h.consumers().members["A"].assigned}
    gone = min({f"t{number}" for number in range(TOPICS)} - had)
    h.change(h.topics.delete(gone))
    settle(h, "A")
    assert count(h) == TOPICS - 1


def test_a_member_that_leaves_between_two_pages() -> None:
    """If this fails, what is kept for its next page stays in memory."""
    h = started()
    assert h.consumers().pages
    h.beat("leave", "A", -1)
    assert not h.consumers().pages
    assert not h.consumers().owners


def test_a_static_member_comes_back_between_two_pages() -> None:
    """If this fails, a static member that restarts while it gets its partitions stays without the rest."""
    h = harness()
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS, instance_id="i")
    h.works_end()
    for token in ("assign", "first"):
        member = h.consumers().members["A"]
        h.beat(token, "A", member.epoch, owned=member.assigned, instance_id="i")
        h.works_end()
    h.beat("away", "A", -2, instance_id="i")
    h.beat("back", "B", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS, instance_id="i")
    assert count(h, "B") > 0
    settle(h, "B")
    assert count(h, "B") == TOPICS
    assert not h.consumers().pages
    check_owners(h)


def test_a_static_member_that_comes_back_gets_its_partitions_in_pages() -> None:
    """If this fails, a static member with 10,000 topics that restarts holds producers up, or gets others."""
    h = harness()
    join(h, "A", regex=".*", instance_id="i")
    join(h, "B", regex=".*")
    settle_static(h, "A")
    held, target = h.consumers().members["A"].assigned, h.consumers().target["A"]
    assert len(held) == TOPICS // 2 > PAGE
    epoch = h.consumers().epoch
    h.beat("away", "A", -2, instance_id="i")
    away = h.consumers().members["A"]
    assert {topic_id: dict(since) for topic_id, since in away.assigned.items()} == {each: {0: 0} for each in held}
    check_owners(h)
    answer = h.beat("back", "A2", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS, instance_id="i")
    assert len(answer.assignment.topic_partitions) == PAGE
    assert answer.member_epoch == epoch
    check_owners(h)
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before
    settle_static(h, "A2")
    assert h.consumers().members["A2"].assigned.keys() == held.keys()
    assert h.consumers().target["A2"] == target
    assert (h.consumers().epoch, "A" in h.consumers().members) == (epoch, False)
    check_owners(h)


def settle_static(h: ConsumerHarness, member_id: str) -> None:
    """As `settle`, with the static member of an instance, and B."""
    for number in range(HEARTBEATS_MAX):
        member = h.consumers().members[member_id]
        h.beat(
            f"{member_id} {number} {len(h.answers)}", member_id, member.epoch, owned=member.assigned, instance_id="i"
        )
        h.works_end()
        beat(h, f"B {number} {len(h.answers)}", "B")
        if h.consumers().is_stable:
            return
    raise AssertionError("the group is not stable")


def test_the_rebalance_ends_with_the_last_page() -> None:
    """If this fails, the event of a rebalance is reported too early, or without the moves of all pages."""
    h = harness()
    found: list[Event] = []
    right = h.take

    def take(step: GroupStep) -> GroupStep:
        found.extend(event for event in step.events if isinstance(event, Rebalance))
        return right(step)

    h.take = take  # type: ignore[method-assign]
    join(h, "A", regex=".*")
    beat(h, "assign")
    beat(h, "first")
    assert h.consumers().journal.is_open
    assert not found
    settle(h, "A")
    (event,) = found
    assert isinstance(event, Rebalance)
    assert (event.moves_total, event.kept) == (TOPICS, 0)


@pytest.mark.parametrize("seed", range(20))
def test_members_that_come_and_go(seed: int) -> None:
    """If this fails, pages give a partition to two members, or leave one without a reader."""
    draw = random.Random(seed)
    h = harness(draw.choice([1, 2]))
    names = ["A", "B", "C"]
    for step in range(30):
        member_id = draw.choice(names)
        if GROUP not in h.machine.groups or member_id not in h.consumers().members:
            join(h, member_id, regex=".*")
        elif draw.random() < 0.1:
            h.beat(f"leave {step}", member_id, -1)
        elif draw.random() < 0.05:
            h.restart()
        else:
            beat(h, f"{member_id} {step}", member_id)
        if GROUP in h.machine.groups:
            check_owners(h)
    for member_id in names:
        if member_id not in h.consumers().members:
            join(h, member_id, regex=".*")
    settle(h, *names)
    held = [place for member in h.consumers().members.values() for place in h.topics.places(member.assigned)]
    assert len(held) == len(set(held)) == sum(len(topic.partitions) for topic in h.topics.image.topics)
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


def test_a_member_that_names_fewer_topics_gives_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member keeps topics that it does not read any more; or the heartbeat that names 5,000 topics
    fewer looks at all of them, and holds producers up.
    """
    names = [f"t{number}" for number in range(TOPICS)]
    h = harness()
    join(h, "A", names=names)
    settle(h, "A")
    assert count(h) == TOPICS
    member = h.consumers().members["A"]
    monkeypatch.setattr(reconcile, "_without_unsubscribed", None)
    answer = h.beat("fewer", "A", member.epoch, names=names[::2], owned=member.assigned)
    assert answer.assignment is None
    assert h.consumers().epoch > member.epoch
    assert h.consumers().members["A"].assigned is member.assigned
    h.works_end()
    settle(h, "A")
    found = h.machine.image.topics.with_ids(h.consumers().members["A"].assigned)
    assert sorted(topic.name for topic in found if topic is not None) == sorted(names[::2])
    check_owners(h)


def test_a_member_whose_new_expression_matches_nothing() -> None:
    """If this fails, a member with very many topics keeps what it does not read any more: no epoch begins, as another
    member has its former expression.
    """
    h = harness()
    for member_id in "AB":
        join(h, member_id, regex=".*")
    settle(h, "A", "B")
    assert count(h) == TOPICS // 2 > PAGE
    h.advance(regex.REFRESH_MIN_MS + 1)
    member = h.consumers().members["A"]
    h.beat("other", "A", member.epoch, regex="nothing", owned=member.assigned)
    h.works_end()
    for number in range(2):
        h.beat(f"gives up {number}", "A", h.consumers().members["A"].epoch, owned={})
        h.works_end()
    assert count(h) == 0
    check_owners(h)
