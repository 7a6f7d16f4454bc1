"""Internal topics of streams groups: who creates them, when, and what members learn of failures."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.streams.configure import Status
from broker_cy.coordinator.streams.internal_topics import NotCreated
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.streams_harness import REQUESTER, WORD_COUNT, StreamsHarness

MISSING = Status.MISSING_INTERNAL_TOPICS
HEARTBEAT_MS = 5_000


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def test_missing_topics_are_created_in_the_name_of_the_member(h: StreamsHarness) -> None:
    """If this fails, an application with state waits for topics that are never created."""
    h.enter("a", "A", WORD_COUNT)
    assert h.statuses("a") == {MISSING: "Internal topics are missing: counts, words"}
    (call,) = h.calls
    assert call.request.requester == REQUESTER
    assert [(topic.name, topic.partitions, topic.configs) for topic in call.request.topics] == [
        ("counts", 4, (("cleanup.policy", "compact"),)),
        ("words", 4, ()),
    ]
    # They are not asked for twice at the same time.
    h.beat("a 2", "A", 2)
    assert len(h.calls) == 1
    assert h.create() == ["counts", "words"]
    h.beat("a 3", "A", 2)
    assert h.statuses("a 3") == {}
    assert h.active("a 3") == {"0": {0, 1, 2, 3}, "1": {0, 1, 2, 3}}
    assert not h.calls


def test_failures_are_reported_and_tried_again_later(h: StreamsHarness) -> None:
    """If this fails, a controller is asked with each heartbeat, or a user does not learn what is wrong."""
    h.enter("a", "A", WORD_COUNT)
    h.create(NotCreated("words", "too many partitions"))
    h.advance(HEARTBEAT_MS)
    h.beat("a 2", "A", 2)
    assert h.statuses("a 2") == {
        MISSING: "Internal topics are missing: words; Creation failed: words (too many partitions)."
    }
    assert not h.calls
    h.advance(HEARTBEAT_MS)
    h.beat("a 3", "A", 3)
    assert h.statuses("a 3") == {MISSING: "Internal topics are missing: words"}
    assert h.create() == ["words"]


def test_an_unreachable_controller_is_a_failure(h: StreamsHarness) -> None:
    """If this fails, topics are never created after one request to the controller was lost."""
    h.enter("a", "A", WORD_COUNT)
    h.lose_calls()
    h.beat("a 2", "A", 2)
    assert h.statuses("a 2")[MISSING].endswith(
        "; Creation failed: counts (no active controller), words (no active controller)."
    )
    h.advance(2 * HEARTBEAT_MS)
    h.beat("a 3", "A", 2)
    assert len(h.calls) == 1


def test_a_member_without_the_right_creates_nothing(h: StreamsHarness) -> None:
    """If this fails, a client creates topics that its ACLs deny."""
    h.may_create = "counts".__eq__
    h.enter("a", "A", WORD_COUNT)
    assert h.statuses("a") == {
        MISSING: "Internal topics are missing: counts, words; Unauthorized to CREATE on topics words."
    }
    assert not h.calls
    # Another member may do so.
    h.may_create = None
    h.enter("b", "B", WORD_COUNT)
    assert len(h.calls) == 1


def test_topics_are_created_for_written_records_only(h: StreamsHarness) -> None:
    """If this fails, topics of a group that never existed stay behind, or they are never created."""
    h.hold = True
    h.enter("a", "A", WORD_COUNT)
    assert not h.calls
    h.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    h.hold = False
    assert not h.calls
    h.enter("a 2", "A", WORD_COUNT)
    assert len(h.calls) == 1
    h.hold = True
    h.enter("b", "B", WORD_COUNT)
    h.create(NotCreated("words", "no"))
    h.advance(2 * HEARTBEAT_MS)
    h.beat("a 3", "A", 2)
    assert not h.calls
    h.fail()
    h.hold = False
    h.beat("a 4", "A", 2)
    assert [topic.name for topic in h.calls[0].request.topics] == ["words"]
