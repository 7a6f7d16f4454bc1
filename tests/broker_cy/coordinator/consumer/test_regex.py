"""Subscriptions by regular expressions: looked up in the background, for all expressions of a group together."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import durable, replayed

REFRESH_MS = 600_000


@pytest.fixture
def h() -> ConsumerHarness:
    topics = Topics(orders=1, orders_eu=1, payments=1)
    return ConsumerHarness(topics, consumer=ConsumerGroupSettings(assignment_interval_ms=0))


def enter(h: ConsumerHarness, token: object, member_id: str, regex: str) -> int:
    answer = h.beat(token, member_id, 0, regex=regex, owned={}, rebalance_ms=REBALANCE_MS)
    return int(answer.error_code)


def settled(h: ConsumerHarness, token: str, member_id: str) -> set[tuple[str, int]]:
    """The partitions of a member after two more heartbeats."""
    for number in range(2):
        member = h.consumers().members[member_id]
        h.beat((token, number), member_id, member.epoch, owned=member.assigned)
    return h.topics.places(h.consumers().members[member_id].assigned)


def test_the_topics_that_match(h: ConsumerHarness) -> None:
    """If this fails, a consumer reads other topics than its expression matches as a whole."""
    assert enter(h, "a", "A", "orders.*") == ErrorCode.NONE
    assert h.assigned("a") == set()
    assert len(h.works) == 1
    assert settled(h, "before", "A") == set()
    assert len(h.works) == 1
    h.work()
    assert settled(h, "after", "A") == {("orders", 0), ("orders_eu", 0)}
    assert h.consumers().is_subscribed("orders")
    assert enter(h, "b", "B", "orders") == ErrorCode.NONE
    assert durable(replayed(h.log, h.settings, h.now, h.topics.image)) == durable(h.machine)


def test_an_expression_that_is_none(h: ConsumerHarness) -> None:
    """If this fails, an expression with a mistake matches nothing, without an error."""
    assert enter(h, "a", "A", "orders(") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not h.machine.groups
    assert not h.log
    assert not h.works


def test_topics_that_the_member_may_not_see(h: ConsumerHarness) -> None:
    """If this fails, a consumer learns the names of topics that it has no rights on."""
    h.may_describe = lambda topic: topic != "payments"
    enter(h, "a", "A", ".*")
    h.work()
    assert settled(h, "after", "A") == {("orders", 0), ("orders_eu", 0)}


def test_when_topics_are_looked_up_again(h: ConsumerHarness) -> None:
    """If this fails, new topics are not read, or each heartbeat searches all topics."""
    enter(h, "a", "A", "orders.*")
    h.work()
    settled(h, "first", "A")
    h.change(h.topics.put("orders_us", 1))
    settled(h, "too early", "A")
    assert not h.works
    h.advance(10_001)
    settled(h, "created", "A")
    h.work()
    assert len(settled(h, "with it", "A")) == 3
    for number in range(REFRESH_MS // 30_000):
        h.advance(30_000)
        settled(h, f"wait {number}", "A")
        assert bool(h.works) is (number * 30_000 + 30_000 > REFRESH_MS)
    h.advance(30_000)
    settled(h, "refresh", "A")
    assert len(h.works) == 1


def test_a_known_expression_is_used_at_once(h: ConsumerHarness) -> None:
    """If this fails, the second consumer of an expression waits for another search."""
    enter(h, "a", "A", "pay.*")
    h.work()
    settled(h, "a", "A")
    epoch = h.consumers().epoch
    enter(h, "b", "B", "pay.*")
    assert h.consumers().epoch == epoch + 1
    assert not h.works


def test_an_expression_that_nobody_has(h: ConsumerHarness) -> None:
    """If this fails, a group goes on reading topics that no member asks for (KAFKA-19899)."""
    enter(h, "a", "A", "pay.*")
    h.work()
    assert settled(h, "a", "A") == {("payments", 0)}
    epoch = h.consumers().epoch
    h.beat("none", "A", epoch, regex="", names=["orders"], owned=h.consumers().members["A"].assigned)
    assert h.consumers().epoch == epoch + 1
    assert not h.consumers().resolved
    assert settled(h, "then", "A") == {("orders", 0)}
    assert not h.consumers().is_subscribed("payments")


def test_a_result_that_comes_too_late(h: ConsumerHarness) -> None:
    """If this fails, the result for a group that was deleted belongs to the next one of its id."""
    enter(h, "a", "A", "pay.*")
    h.beat("leaves", "A", -1)
    h.delete_groups("d", "readers")
    enter(h, "again", "A", "orders")
    first, second = h.works
    h.works = [first]
    h.work()
    assert not h.consumers().resolved
    h.works = [second]
    h.work()
    assert set(h.consumers().resolved) == {"orders"}


def test_names_and_an_expression(h: ConsumerHarness) -> None:
    """If this fails, a consumer with both reads only one of them."""
    answer = h.beat("a", "A", 0, regex="pay.*", names=["orders"], owned={}, rebalance_ms=REBALANCE_MS)
    assert answer.error_code == ErrorCode.NONE
    assert h.assigned("a") == {("orders", 0)}
    h.work()
    assert settled(h, "a", "A") == {("orders", 0), ("payments", 0)}
    assert not h.consumers().is_homogeneous


def test_an_expression_ends(h: ConsumerHarness) -> None:
    """If this fails, no member reads the partitions of a member without a subscription (KAFKA-19899)."""
    enter(h, "a", "A", "pay.*")
    h.work()
    settled(h, "a", "A")
    epoch = h.consumers().epoch
    h.beat("none", "A", epoch, regex="", owned=h.consumers().members["A"].assigned)
    assert h.consumers().epoch == epoch + 1


def test_a_classic_member_takes_the_place_of_an_expression(h: ConsumerHarness) -> None:
    """If this fails, a group goes on reading the topics of an expression that no member has (KAFKA-19720)."""
    h.beat("a", "A", 0, regex="pay.*", owned={}, rebalance_ms=REBALANCE_MS, instance_id="one")
    h.enter("b", "B", "orders")
    h.work()
    assert set(h.consumers().resolved) == {"pay.*"}
    value = messages.ConsumerProtocolSubscription(topics=["orders"])
    h.join("classic", protocols=[("range", codec.encode_versioned(value, 1))], instance_id="one")
    assert h.answers["classic"].error_code == ErrorCode.NONE
    assert not h.consumers().resolved
    assert not h.consumers().is_subscribed("payments")
