"""Rates and buckets by themselves, against a plain model."""

from __future__ import annotations

from random import Random

import pytest

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quotas import entities
from broker_cy.quotas.bucket import Bucket, MutationQuota
from broker_cy.quotas.entities import Entities
from broker_cy.quotas.rate import PacedRate, Rate
from broker_cy.wire import messages

WHO = ("u", "c")


def test_any_client_that_waits_as_long_as_it_is_asked_to_keeps_its_quota() -> None:
    """If this fails, a client gets more or less than its quota. It sends all the time, and waits when it has to."""
    for seed in range(200):
        draw = Random(f"rate {seed}")
        limit = draw.choice([10.0, 1000.0, 5e6])
        windows, window_ms = draw.choice([(11, 1000), (2, 1000), (11, 5000)])
        rate = Rate(WHO, limit, windows, window_ms, 0)
        now_ms, used, largest = 0, 0.0, 0.0
        while now_ms < 30 * windows * window_ms:
            size = limit * draw.choice([0.01, 0.1, 0.5, 2.0])
            used += size
            largest = max(largest, size)
            now_ms += rate.charge(size, now_ms) + draw.randint(0, 3)
        mean = used * 1000 / now_ms
        # Allowed are one burst at the start, and the request in progress when the client is throttled. With requests of
        # two seconds' worth, a sample may be forgotten before the wait for it is over: Kafka's rate then lets some
        # percent more through.
        burst = limit * windows * window_ms / 1000 + largest
        assert limit * 0.9 <= mean <= limit * 1.08 + burst * 1000 / now_ms, f"seed {seed}: {mean} of {limit}"


def test_no_use_is_lost_or_counted_twice() -> None:
    """If this fails, the measured rate is that of other uses than those of the last windows."""
    for seed in range(300):
        draw = Random(f"sum {seed}")
        windows, window_ms = draw.randint(1, 12), draw.choice([10, 1000])
        rate, uses, now_ms = Rate(WHO, 1.0, windows, window_ms, 0), list[tuple[int, float]](), 0
        for _ in range(draw.randint(1, 80)):
            now_ms += draw.randint(0, 2 * window_ms)
            value = float(draw.randint(0, 1000))
            rate.record(value, now_ms)
            uses.append((now_ms, value))
            measured = rate.rate(now_ms)
            recent = sum(value for ms, value in uses if now_ms - ms < windows * window_ms)
            # A sample counts as a whole until its last use is too old, and so may the use in the windows before.
            older = sum(value for ms, value in uses if now_ms - ms < (windows + 1) * window_ms)
            assert measured * (windows + 2) * window_ms / 1000 >= recent - 1e-6
            assert measured * max((windows - 1) * window_ms, 1) / 1000 <= older + 1e-6


def test_what_is_taken_back_was_not_used() -> None:
    """If this fails, a consumer is throttled for records that it did not get."""
    rate = Rate(WHO, 100.0, 11, 1000, 0)
    assert rate.charge(5000.0, 0) == 40_000
    rate.record(-5000.0, 0)
    assert rate.wait_ms(0) == 0
    assert rate.charge(1000.0, 0) == 0


def test_a_wait_is_at_most_as_long_as_allowed() -> None:
    """If this fails, a client stops for more than a window because of one long request, or for a negative time."""
    assert Rate(WHO, 1.0, 11, 1000, 0, 1000).charge(1e9, 0) == 1000
    assert Rate(WHO, 1.0, 11, 1000, 0).charge(1e30, 0) == 2**31 - 1


@pytest.mark.parametrize("limit", [float("nan"), float("inf")])
def test_limits_that_limit_nothing(limit: float) -> None:
    """Kafka's controller accepts these."""
    assert Rate(WHO, limit, 11, 1000, 0).charge(1e30, 5) == 0
    quota = MutationQuota(Bucket(WHO, limit, 11, 1000, 0), strict=True)
    for _ in range(3):
        quota.take(1000, 7)
    assert quota.wait_ms(7) == 0


def test_a_strict_quota_refuses_and_draws_nothing() -> None:
    """If this fails, a client that retries again and again never creates a topic, or exceeds its quota."""
    bucket = Bucket(WHO, 2.0, 11, 1000, 0)
    quota = MutationQuota(bucket, strict=True)
    quota.take(30, 0)
    assert quota.wait_ms(0) == 0
    for _ in range(3):
        with pytest.raises(KafkaError) as caught:
            quota.take(1, 0)
        assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert quota.wait_ms(0) == 4000
    assert quota.wait_ms(1500) == 2500
    MutationQuota(bucket, strict=True).take(1, 4000)
    assert bucket.tokens(4000) == -1


def test_a_lenient_quota_changes_all_and_waits_afterwards() -> None:
    """If this fails, an old client gets an error that it does not know."""
    quota = MutationQuota(Bucket(WHO, 2.0, 11, 1000, 0), strict=False)
    for count in (30, 30):
        quota.take(count, 0)
    assert quota.wait_ms(0) == 19_000


def test_who_always_has_more_to_send_gets_the_quota() -> None:
    """If this fails, a client gets more or less than its quota over half a minute, after the burst that it may send."""
    for seed in range(200):
        draw = Random(f"paced {seed}")
        limit = draw.choice([1000.0, 2e6])
        sizes = [limit * share for share in draw.choice([(0.005,), (0.1, 0.5), (2.0,), (0.01, 6.0)])]
        rate = PacedRate(WHO, limit, 11, 1000, 0)
        gives_back = draw.random() < 0.5  # a consumer, which gets nothing while it is throttled
        now_ms, uses, size = 0, list[tuple[int, float]](), draw.choice(sizes)
        while now_ms < 100_000:
            wait_ms = rate.charge(size, now_ms)
            if wait_ms and gives_back:
                rate.record(-size, now_ms)
            else:
                uses.append((now_ms, size))
                size = draw.choice(sizes)
            now_ms += wait_ms + draw.randint(0, 3)
        for begin_ms in range(12_000, 70_000, 7_000):
            used = sum(value for ms, value in uses if begin_ms <= ms < begin_ms + 30_000)
            assert abs(used - 30 * limit) <= max(sizes) + 0.02 * 30 * limit, f"seed {seed}: {used / 30} of {limit}"


def test_what_was_not_used_before_may_be_used_in_a_burst() -> None:
    """If this fails, a client that was silent waits where Kafka would not let it, or may save more than all windows."""
    for silent_ms in (0, 5_000, 1_000_000):
        paced, kafkas = PacedRate(WHO, 100.0, 11, 1000, 0), Rate(WHO, 100.0, 11, 1000, 0)
        for size in (400.0, 600.0, 0.5, 99.5, 3000.0):
            assert abs(paced.charge(size, silent_ms) - kafkas.charge(size, silent_ms)) <= 1
        assert paced.wait_ms(silent_ms) == 31_000
        assert paced.wait_ms(silent_ms + 30_999) == 1
        assert paced.wait_ms(silent_ms + 31_000) == 0


def test_what_is_owed_is_bounded_where_waits_are() -> None:
    """If this fails, one long request throttles its client for minutes; or bytes are not charged in full."""
    time = PacedRate(WHO, 10.0, 11, 1000, 0, 1000)
    assert time.charge(1e6, 0) == 1000
    assert time.wait_ms(9_990) == 10
    assert time.wait_ms(10_000) == 0
    assert PacedRate(WHO, 10.0, 11, 1000, 0).charge(1e6, 0) == 99_990_000


def test_a_paced_rate_is_kept_until_it_is_as_new() -> None:
    """If this fails, a sweep that new clients cause drops the rate of a throttled client, which is served early."""
    rate = PacedRate(WHO, 1.0, 11, 1000, 0)
    rate.record(1000.0, 0)
    assert not rate.is_idle(999_999)
    assert rate.is_idle(1_000_000)


@pytest.mark.parametrize("limit", [0.0, float("nan"), float("inf")])
def test_paced_limits_that_are_no_rates(limit: float) -> None:
    rate = PacedRate(WHO, limit, 11, 1000, 0)
    assert rate.charge(1e30, 5) == (2**31 - 1 if limit == 0.0 else 0)


class TestEntities:
    """The meters of one kind of quota."""

    def make(self, entities_max: int = entities.ENTITIES_MAX, **names: str | None) -> Entities[Rate]:
        table = Entities(lambda tags, limit, now: Rate(tags, limit, 11, 1000, now), entities_max)
        self.set(table, 100.0, **names)
        return table

    @staticmethod
    def set(table: Entities[Rate], limit: float | None, **names: str | None) -> None:
        part = messages.ClientQuotaRecord.EntityData
        kinds = {"user": "user", "client_id": "client-id"}
        table.limits.set([part(entity_type=kinds[kind], entity_name=name) for kind, name in names.items()], limit)
        table.renew()

    def test_a_change_of_a_limit_keeps_what_was_used(self) -> None:
        """If this fails, each change of a quota lets all clients send a burst."""
        table = self.make(user=None)
        first = table.of("a", "x", 0)
        assert first is not None
        first.record(5000.0, 0)
        self.set(table, 500.0, user=None)
        again = table.of("a", "y", 0)
        assert again is first
        assert again.limit == 500.0
        assert again.wait_ms(0) == 0
        self.set(table, None, user=None)
        assert table.of("a", "y", 0) is None
        assert len(table) == 0

    def test_entities_that_use_nothing_make_room(self) -> None:
        """If this fails, clients with ever new client ids fill the memory, or all but the first ones wait together."""
        table = self.make(3, client_id=None)
        for number in range(3):
            meter = table.of("u", f"c{number}", 0)
            assert meter is not None
            meter.record(1.0, 0)
        before = table.generation
        shared = table.of("u", "c3", 5_000)
        assert shared is not None
        assert shared is table.of("u", "c4", 5_000)
        assert shared.entity == entities.OTHERS
        shared.record(1.0, 5_000)
        assert len(table) == 4
        kept = table.of("u", "c2", 11_000)
        assert kept is not None
        kept.record(1.0, 10_999)
        found = table.of("u", "c5", 11_000)
        assert found is not None
        assert found.entity == ("", "c5")
        assert table.generation > before
        assert [meter.entity[1] for meter in table] == ["c2", "c5", "(others)"]

    def test_idle_entities_go_after_an_hour(self) -> None:
        """If this fails, the memory of a broker grows with each client that ever was."""
        table = self.make(client_id=None)
        for number, ms in enumerate((0, 60_000)):
            meter = table.of("u", f"c{number}", ms)
            assert meter is not None
            meter.record(1.0, ms)
        table.expire(entities.IDLE_MS + 12_000)
        assert [meter.entity[1] for meter in table] == ["c1"]

    def test_a_bucket_is_kept_until_it_is_full(self) -> None:
        """If this fails, a sweep drops the bucket of a throttled client, which is then served early."""
        bucket = Bucket(WHO, 1.0, 11, 1000, 0)
        bucket.draw(1000, 0)
        assert not bucket.is_idle(900_000)
        assert not bucket.is_idle(-5)
        assert bucket.is_idle(1_000_000)
        assert bucket.wait_ms(0) == 989_000
