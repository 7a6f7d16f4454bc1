"""Rates over windows, and which replicas a throttle holds (KIP-73)."""

from __future__ import annotations

import random

from broker_cy.replica.throttle import UNLIMITED, ReplicaThrottle, WindowedRate


def throttle(limit: int = 1000) -> ReplicaThrottle:
    made = ReplicaThrottle(11, 1000)
    made.limit_to(limit)
    return made


def test_the_rate_is_that_of_kafka() -> None:
    """SimpleRate: the first window counts as a whole one, later the time since the oldest one that is kept."""
    rate = WindowedRate(3, 1000)
    rate.record(500, 0)
    assert rate.bytes_per_s(0) == 500
    rate.record(500, 900)
    assert rate.bytes_per_s(999) == 1000
    rate.record(1000, 1000)
    assert rate.bytes_per_s(2000) == 1000
    rate.record(0, 2000)
    assert rate.bytes_per_s(2500) == 800
    assert rate.bytes_per_s(3000) == 1000 * 1000 / 2000
    assert rate.bytes_per_s(60_000) == 0


def test_waiting_as_long_as_it_says_is_enough_and_needed() -> None:
    """If this fails, a follower asks again too early, or sleeps although it might copy."""
    draw = random.Random(7)
    for _ in range(300):
        rate, limit, now_ms = WindowedRate(draw.randint(1, 11), 1000), draw.choice([0, 1, 1000, 50_000]), 0
        for _ in range(draw.randint(1, 30)):
            now_ms += draw.randint(0, 1500)
            rate.record(draw.randint(0, 100_000), now_ms)
        while wait_ms := rate.wait_ms(limit, now_ms):
            assert rate.bytes_per_s(now_ms) > limit
            assert wait_ms == 1 or rate.bytes_per_s(now_ms + wait_ms - 1) > limit
            now_ms += wait_ms
        assert rate.bytes_per_s(now_ms) <= limit


def test_only_listed_replicas_that_are_not_in_sync_wait() -> None:
    """If this fails, a throttle of a move makes in-sync sets smaller, or slows other partitions."""
    made = throttle()
    made.list_replicas("moved", ["0:1", "2:1", "1:2"], 1)
    made.list_replicas("all", ["*"], 1)
    made.list_replicas("elsewhere", ["0:2"], 1)
    assert not made.holds("moved", 0, 0, is_in_sync=False)
    made.record(1001, 0)
    assert made.holds("moved", 0, 0, is_in_sync=False)
    assert made.holds("moved", 2, 0, is_in_sync=False)
    assert made.holds("all", 7, 0, is_in_sync=False)
    assert not made.holds("moved", 0, 0, is_in_sync=True)
    for topic, partition in (("moved", 1), ("elsewhere", 0), ("other", 0)):
        assert not made.holds(topic, partition, 0, is_in_sync=False)


def test_a_throttle_that_is_removed_holds_nothing() -> None:
    """If this fails, replicas stay slow after a reassignment, or forever."""
    made = throttle(0)
    made.list_replicas("moved", ["0:1"], 1)
    made.record(1, 0)
    assert made.holds("moved", 0, 0, is_in_sync=False)
    made.limit_to(UNLIMITED)
    assert not made.holds("moved", 0, 0, is_in_sync=False)
    assert made.wait_ms(0) == 0
    made.limit_to(0)
    made.list_replicas("moved", [], 1)
    assert not made.is_set
    assert not made.holds("moved", 0, 0, is_in_sync=False)
