"""The target assignment of a large share group, which is computed in the background, and its bounds."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.settings import ShareGroupSettings
from broker_cy.coordinator.share import initialization
from broker_cy.coordinator.share.state_calls import InitializeState
from broker_cy.core.step import WorkFailed
from broker_cy.metadata.topics import TopicImage, TopicsImage
from tests.broker_cy.coordinator.consumer_harness import Topics, topic_id
from tests.broker_cy.coordinator.share_harness import ShareHarness

T = topic_id("t")
ALL = {("t", partition) for partition in range(4)}
SETTINGS = ShareGroupSettings(assignment_interval_ms=0, assigned_at_once_max=0)


@pytest.fixture
def h() -> ShareHarness:
    """Each group is a large one. A has joined, and its partitions have their state."""
    h = ShareHarness(share=SETTINGS)
    h.enter("join", "A")
    h.serve()
    h.work()
    assert (h.initialized(), h.sharers().target) == (ALL, {"A": {}})
    return h


def test_members_learn_the_result_from_their_next_heartbeats(h: ShareHarness) -> None:
    """If this fails, a large share group is never assigned, or its assignor holds all clients of the broker up."""
    answer = h.beat("a", "A", 1)
    assert (answer.member_epoch, len(h.works)) == (2, 1)
    assert answer.heartbeat_interval_ms < 5_000
    h.beat("meanwhile", "A", 2)
    assert len(h.works) == 1
    h.work()
    answer = h.beat("a 2", "A", 2)
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (3, 5_000)
    assert h.assigned("a 2") == ALL


def test_a_small_group_is_assigned_at_once() -> None:
    """If this fails, each new consumer of a small group waits for one more heartbeat."""
    h = ShareHarness(share=SETTINGS._replace(assigned_at_once_max=1 + 4))
    h.ready("A")
    assert (h.works, h.sharers().target) == ([], {"A": {T: frozenset(range(4))}})
    h.enter("b", "B")
    assert len(h.works) == 1


def test_partitions_that_lost_their_state_are_not_assigned(h: ShareHarness) -> None:
    """If this fails, a member gets partitions whose start offset was deleted, which it cannot read."""
    h.beat("a", "A", 1)
    h.beat("a unsubscribes", "A", -1)
    h.delete_start_offsets("delete", "t")
    assert h.initialized() == set()
    h.enter("a again", "A")
    h.work()
    assert h.sharers().target == {}
    h.serve()
    h.serve()
    for token in range(3):
        h.beat(token, "A", h.sharers().members["A"].epoch)
        h.work()
        h.serve()
    h.beat("last", "A", h.sharers().members["A"].epoch)
    assert h.sharers().members["A"].assigned == {T: frozenset(range(4))}


def test_a_member_that_comes_back_between_two_parts_gets_nothing_of_before(
    h: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a member gets what it had before it left, whose state may have been deleted meanwhile."""
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    h.beat("a", "A", 1)
    h.work()
    h.beat("a 2", "A", 2)
    h.enter("b", "B")
    h.work()
    group = h.sharers()
    assert group.shown == {"A": {T: frozenset(range(4))}, "B": {}}
    h.beat("a unsubscribes", "A", -1)
    h.enter("a again", "A")
    assert (group.target_of("A"), h.assigned("a again")) == ({}, set())


def test_a_failed_assignor_is_run_again(h: ShareHarness) -> None:
    """If this fails, one failure leaves a group without partitions until a restart."""
    h.beat("a", "A", 1)
    (work,) = h.works
    h.works = []
    h.run(work.then, *work.about, WorkFailed("no memory"))
    assert h.sharers().target == {"A": {}}
    h.beat("a 2", "A", 2)
    h.work()
    assert h.sharers().target == {"A": {T: frozenset(range(4))}}


def test_very_many_topics_are_looked_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, producers wait while a member names 10,000 topics."""
    names = [f"t{number}" for number in range(7)]
    h = ShareHarness(Topics(**dict.fromkeys(names, 1)), share=SETTINGS)
    monkeypatch.setattr(assigning, "TOPICS_PER_TURN", 3)
    h.enter("join", "A", *names)
    h.serve()
    asked: list[int] = []
    right = TopicsImage.named

    def named(self: TopicsImage, names: Collection[str]) -> list[TopicImage]:
        asked.append(len(names))
        return right(self, names)

    monkeypatch.setattr(TopicsImage, "named", named)
    for _ in range(6):
        h.work()
    assert asked == [3, 3, 1]
    assert len(h.sharers().target["A"]) == len(names)


def test_the_state_of_very_many_partitions_is_requested_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, producers wait while the share coordinator's answer about 10,000 partitions is noted."""
    monkeypatch.setattr(initialization, "ASKED_PER_CALL", 3)
    h = ShareHarness(Topics(t=4, u=5), share=SETTINGS)
    h.enter("join", "A", "t", "u")
    requests = [call.request for call in h.calls]
    assert all(isinstance(each, InitializeState) for each in requests)
    sizes = [sum(len(offsets) for offsets in each.start_offsets.values()) for each in requests]
    assert sizes == [3, 3, 3]
    known: list[int] = []
    while h.calls:
        h.serve(1)
        known.append(len(h.initialized()))
        # No request is repeated while others about the topic are under way.
        h.beat(("meanwhile", len(known)), "A", 2)
    assert known == [3, 6, 9]
    assert h.initialized() == ALL | {("u", partition) for partition in range(5)}


def test_a_coordinator_that_is_loaded_requests_very_many_states_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, producers wait after a move of the coordinator, or partitions stay without state."""
    monkeypatch.setattr(initialization, "ASKED_PER_CALL", 3)
    h = ShareHarness(Topics(t=4, u=5), share=SETTINGS)
    h.enter("join", "A", "t", "u")
    h.restart()
    assert len(h.calls) == 3
    h.serve()
    assert len(h.initialized()) == 9
