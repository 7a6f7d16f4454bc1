"""The interval until the next heartbeat: shorter for a member that a rebalance lets wait."""

from __future__ import annotations

from broker_cy.coordinator.consumer.pace import RELEASE_MIN_MS
from broker_cy.coordinator.modern.pace import AGE_DIVISOR, PROMPT_MIN_MS, PROMPT_PER_S_MAX
from broker_cy.coordinator.settings import ConsumerGroupSettings
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Topics, topic_id

T = topic_id("t")
USUAL_MS = 5_000


def at_once() -> ConsumerHarness:
    return ConsumerHarness(Topics(t=4), consumer=ConsumerGroupSettings(assignment_interval_ms=0))


def test_a_member_that_waits_for_partitions_asks_again_soon() -> None:
    """If this fails, a partition that a consumer has given up has no reader for a whole interval."""
    h = at_once()
    assert h.enter("a", "A").heartbeat_interval_ms == USUAL_MS
    assert h.enter("b", "B").heartbeat_interval_ms == PROMPT_MIN_MS
    # It has to give up partitions, and reports that as soon as it has done so.
    assert h.beat("a learns", "A", 2, owned={T: [0, 1, 2, 3]}).heartbeat_interval_ms == USUAL_MS
    kept = sorted(partition for _, partition in h.assigned("a learns") or ())
    assert h.beat("a has revoked", "A", 2, owned={T: kept}).heartbeat_interval_ms == USUAL_MS
    assert h.beat("b gets them", "B", 3).heartbeat_interval_ms == USUAL_MS
    assert h.beat("b has them", "B", 3).heartbeat_interval_ms == USUAL_MS


def test_a_member_asks_again_soon_while_the_assignment_is_not_due() -> None:
    """If this fails, members whose heartbeats come just before the assignment learn of it an interval later."""
    h = ConsumerHarness(Topics(t=4))
    assert h.enter("a", "A").heartbeat_interval_ms == USUAL_MS
    assert h.enter("b", "B").heartbeat_interval_ms == PROMPT_MIN_MS
    assert h.beat("a waits", "A", 2).heartbeat_interval_ms == PROMPT_MIN_MS


def test_a_member_that_waits_for_long_asks_less_often() -> None:
    """If this fails, consumers that wait for a slow one load the broker for minutes."""
    h = at_once()
    h.enter("a", "A")
    h.enter("b", "B")
    h.advance(2_000 * AGE_DIVISOR)
    assert h.beat("b 2", "B", 3).heartbeat_interval_ms == 2_000
    h.advance(USUAL_MS * AGE_DIVISOR - 2_000 * AGE_DIVISOR + 1)
    h.beat("a is there", "A", 2)
    # It may give partitions up at any moment.
    assert h.beat("b 3", "B", 3).heartbeat_interval_ms == RELEASE_MIN_MS
    h.advance(USUAL_MS - 1)
    h.beat("a keeps them", "A", 2)
    h.advance(1)
    assert h.beat("b 4", "B", 3).heartbeat_interval_ms == USUAL_MS


def test_the_members_of_a_large_group_ask_less_often() -> None:
    """If this fails, a rebalance of 10,000 consumers loads the broker with 20,000 heartbeats a second."""
    h = ConsumerHarness(Topics(t=4))
    size = PROMPT_PER_S_MAX + 1
    h.enter("first", "A")
    for number in range(size - 1):
        answer = h.enter(f"join {number}", f"m{number}")
    assert (len(h.consumers().members), answer.heartbeat_interval_ms) == (size, 1_000)


def test_a_member_asks_just_after_the_holder_has_learned() -> None:
    """If this fails, a partition has no reader for up to half a second after a consumer has given it up."""
    h = at_once()
    h.enter("a", "A")
    h.advance(4_800)
    assert h.enter("b", "B").heartbeat_interval_ms == USUAL_MS - 4_800 + RELEASE_MIN_MS
    h.advance(200)
    # A learns, and has not given anything up.
    assert h.beat("a learns", "A", 2).heartbeat_interval_ms == USUAL_MS
    intervals: list[int] = []
    for number in range(6):
        h.advance(RELEASE_MIN_MS if not intervals else intervals[-1])
        intervals.append(h.beat(f"b {number}", "B", 3).heartbeat_interval_ms)
    assert intervals == [25, 50, 100, 200, 400, PROMPT_MIN_MS]
    kept = sorted(partition for _, partition in h.assigned("a learns") or ())
    h.beat("a has revoked", "A", 2, owned={T: kept})
    assert h.beat("b gets them", "B", 3).heartbeat_interval_ms == USUAL_MS
    assert h.consumers().unreleased == 0


def test_a_holder_that_was_told_to_ask_soon_is_expected_then() -> None:
    """If this fails, consumers wait for the usual heartbeat of one that waits for an assignment itself."""
    h = ConsumerHarness(Topics(t=4))
    h.enter("a", "A")
    h.enter("b", "B")
    h.advance(700)
    # The assignment is due in 300 ms, so A asks again in 500 ms.
    assert h.beat("a waits", "A", 2).heartbeat_interval_ms == PROMPT_MIN_MS
    h.advance(301)
    assert h.beat("b 2", "B", 2).heartbeat_interval_ms == 199 + RELEASE_MIN_MS
    h.beat("b leaves", "B", -1)
    assert "B" not in h.consumers().prompted
    assert h.consumers().unreleased == 0
