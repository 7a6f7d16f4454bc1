"""Members that name very many topics: what one turn of the loop does for them, counted in topics."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.consumer import records
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.modern import group as modern_group
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.topics import TopicsImage
from broker_cy.wire import codec
from tests.broker_cy.coordinator.consumer.test_many_topics import PER_TURN, TOPICS, Counting
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP, durable

NAMES = [f"t{number}" for number in range(TOPICS)]
INDEXED_MAX = 20


def test_the_topics_of_a_member_are_hashed_in_later_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member that names 10,000 topics holds producers up for 60 ms when it joins; or the group never
    learns that they have changed.
    """
    h = Counting(monkeypatch)
    h.enter("join", "A", *NAMES)
    assert h.consumers().epoch == 2
    h.works_end()
    assert (h.hashed, h.hashed_max) == (TOPICS, PER_TURN // 2)
    # The metadata hash of the epoch follows.
    h.beats("compare")
    assert (h.consumers().epoch, h.consumers().metadata_hash) == (3, h.hash_now)
    for token in ("assign", "move"):
        h.beats(token)
    assert len(h.consumers().members["A"].assigned) == TOPICS
    h.change(h.topics.put("t7", 3))
    h.beats("grows")
    assert (h.consumers().epoch, h.consumers().metadata_hash) == (4, h.hash_now)


def test_a_member_that_leaves_before_the_topics_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the first member that leaves after a start holds producers up while 10,000 topics are hashed."""
    h = Counting(monkeypatch)
    for member_id in "AB":
        h.enter(f"{member_id} joins", member_id, *NAMES)
        h.works_end()
    for token in ("compare", "assign", "move"):
        h.beats(token)
    known, epoch = h.consumers().metadata_hash, h.consumers().epoch
    h.restart()
    h.hashed = h.hashed_max = 0
    h.beat("leave", "B", -1)
    assert (h.consumers().epoch, h.consumers().metadata_hash) == (epoch + 1, known)
    h.works_end()
    assert (h.hashed, h.hashed_max) == (TOPICS, PER_TURN // 2)
    for token in ("assign again", "move again"):
        h.beats(token)
    assert (h.consumers().epoch, h.consumers().metadata_hash) == (epoch + 1, h.hash_now)


def test_the_record_of_a_member_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member that names 10,000 topics holds producers up longer, or a restart knows another one."""
    h = Counting(monkeypatch)
    decoded: list[type[Any]] = []
    right = codec.decode_versioned

    def decode(kind: type[Any], value: bytes) -> Any:
        decoded.append(kind)
        return right(kind, value)

    monkeypatch.setattr(codec, "decode_versioned", decode)
    h.enter("join", "A", *NAMES)
    assert records.MemberValue not in decoded
    monkeypatch.undo()
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


# ---- the index of topics ----


def indexed(h: ConsumerHarness) -> list[str]:
    return [name for name in NAMES if list(h.machine.subscribers.of(name))]


def is_marked(h: ConsumerHarness, name: str, partitions: int) -> bool:
    h.consumers().refreshed(h.mono_ms)
    h.change(h.topics.put(name, partitions))
    return h.consumers().is_refresh_due(h.mono_ms)


def test_very_many_names_are_not_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member that names 10,000 topics fills an index with all of them in one turn; or its group does
    not consume new partitions of them.
    """
    monkeypatch.setattr(modern_group, "INDEXED_MAX", INDEXED_MAX)
    h = ConsumerHarness(
        Topics(other=1, **dict.fromkeys(NAMES, 1)), consumer=ConsumerGroupSettings(assignment_interval_ms=0)
    )
    h.enter("few", "A", *NAMES[:INDEXED_MAX])
    assert indexed(h) == NAMES[:INDEXED_MAX]
    assert not h.machine.subscribers.wide
    h.enter("many", "B", *NAMES[1:])
    assert indexed(h) == []
    assert list(h.machine.subscribers.wide) == [GROUP]
    assert is_marked(h, "t0", 2)
    assert is_marked(h, "t30", 2)
    assert not is_marked(h, "other", 2)
    before = durable(h.machine)
    h.hold = True
    h.beat("leave", "B", -1)
    assert indexed(h) == NAMES[:INDEXED_MAX]
    assert not h.machine.subscribers.wide
    h.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    h.hold = False
    assert durable(h.machine) == before
    assert indexed(h) == []
    h.beat("leave again", "B", -1)
    assert is_marked(h, "t0", 3)
    assert not is_marked(h, "t30", 3)
    h.beat("fewer", "A", h.consumers().members["A"].epoch, names=["other"])
    assert indexed(h) == []
    assert is_marked(h, "other", 3)


def test_members_share_the_names_that_they_have_in_common() -> None:
    """If this fails, each member that names 10,000 topics takes 1 MB, and each of its heartbeats compares the names."""
    h = ConsumerHarness(Topics(**dict.fromkeys(NAMES, 1)))
    h.enter("a", "A", *NAMES)
    h.enter("b", "B", *reversed(NAMES))
    h.enter("c", "C", *NAMES[1:])
    a, b, c = (h.consumers().members[member_id].topics for member_id in "ABC")
    assert a is b
    assert (a, c) == (frozenset(NAMES), frozenset(NAMES[1:]))


def assigned_later() -> ConsumerHarness:
    """As with 10,000 topics, the assignor runs in the background."""
    settings = ConsumerGroupSettings(assignment_interval_ms=0, assigned_at_once_max=0)
    return ConsumerHarness(Topics(**dict.fromkeys(NAMES, 1)), consumer=settings)


def move(h: ConsumerHarness) -> set[tuple[str, int]]:
    """The member moves to the newest target; returns its partitions."""
    h.beat("move", "A", h.consumers().members["A"].epoch, owned={})
    return h.topics.places(h.consumers().members["A"].assigned)


def test_the_topics_of_a_new_target_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the heartbeat of a member that gets 10,000 topics looks each up, and holds producers up."""
    h = assigned_later()
    h.enter("join", "A", *NAMES)
    h.works_end()
    monkeypatch.setattr(TopicsImage, "with_ids", None)
    assert move(h) == {(name, 0) for name in NAMES}


@pytest.mark.parametrize("passed", [0, 1, 2, TOPICS])
def test_a_topic_that_is_deleted_before_a_member_gets_it(monkeypatch: pytest.MonkeyPatch, passed: int) -> None:
    """If this fails, a member gets partitions of a topic that was deleted while the assignment was computed, or since.
    `passed` turns of the assignment have passed by then.
    """
    monkeypatch.setattr(assigning, "TOPICS_PER_TURN", TOPICS // 2)
    h = assigned_later()
    h.enter("join", "A", *NAMES)
    for _ in range(passed):
        if h.works:
            h.work()
    h.change(h.topics.delete("t7"))
    h.works_end()
    assert move(h) == {(name, 0) for name in NAMES if name != "t7"}


def test_a_member_that_names_other_topics_before_it_gets_any() -> None:
    """If this fails, a member gets topics that it does not read any more."""
    h = assigned_later()
    h.enter("join", "A", *NAMES)
    h.works_end()
    member = h.consumers().members["A"]
    h.beat("fewer", "A", member.epoch, names=NAMES[::2], owned={})
    assert h.topics.places(h.consumers().members["A"].assigned) == {(name, 0) for name in NAMES[::2]}


@pytest.mark.parametrize("given", [None, ["b", "a", "c"], ["a", "b", "c"], ["a", "b", "b", "a", "c"]])
def test_the_names_of_a_record_are_in_order(given: list[str] | None) -> None:
    """If this fails, the record of a member names a topic twice, or has another order on each node."""
    member = ConsumerMember("A", topics=frozenset("abc"))
    record = records.member_record(GROUP, member, given)
    assert record.value is not None
    data, _ = codec.decode_versioned(records.MemberValue, record.value)
    assert data.subscribed_topic_names == ["a", "b", "c"]
