"""The followers that are silent, step by step. tests/sim/replica_world.py has the interleavings."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.in_sync import Altered
from broker_cy.replica.replica import Replica
from broker_cy.replica.silence import FORGIVEN_MS, LATE_MS, SENT_BYTES_PER_MS, FollowerSilence
from tests.broker_cy.replica.test_in_sync import SILENCE_MS, in_sync_of, leader

TICK_MS = 25
LIMIT_MS, LAG_MAX_MS = 100, 700


def heard(silence: FollowerSilence, broker_id: int, now_ms: int) -> None:
    """A fetch that is answered immediately."""
    silence.fetched(broker_id, now_ms)
    silence.answered(broker_id, now_ms)


def quiet(silence: FollowerSilence, from_ms: int, for_ms: int) -> int | None:
    """Let only broker 3 fetch for `for_ms`. Returns when broker 2 was first silent, or None."""
    for now_ms in range(from_ms, from_ms + for_ms + 1, TICK_MS):
        heard(silence, 3, now_ms)
        silence.tick(now_ms)
        if 2 in silence.silent:
            return now_ms
    return None


def new() -> FollowerSilence:
    silence = FollowerSilence(LIMIT_MS, LAG_MAX_MS, {2, 3})
    heard(silence, 2, 0)
    return silence


def test_who_stops_fetching_is_silent_until_it_fetches() -> None:
    """If this fails, a cut link between two brokers stops acks=all for replica.lag.time.max.ms."""
    silence = new()
    assert quiet(silence, 0, 1_000) == LIMIT_MS
    assert silence.silent == {2}
    silence.fetched(2, 110)
    assert not silence.silent
    assert quiet(silence, 125, 1_000) is None, "its fetch waits here"
    silence.answered(2, 1_150)
    assert quiet(silence, 1_150, 1_000) == 1_150 + LIMIT_MS, "it was not dropped: its limit is as before"


def test_a_long_answer_may_take_its_time() -> None:
    """If this fails, a follower on a slow link leaves in-sync sets while the records that it asked for are on their
    way.
    """
    silence = new()
    silence.fetched(2, 100)
    silence.answered(2, 100, 1_000_000)
    assert quiet(silence, 100, 1_000) == 100 + LIMIT_MS + 1_000_000 // SENT_BYTES_PER_MS
    silence.fetched(2, 500)
    silence.answered(2, 500)
    assert quiet(silence, 500, 1_000) == 500 + LIMIT_MS


def test_a_leader_that_hears_nobody_takes_nobody_for_silent() -> None:
    """If this fails, a leader that is cut off itself makes in-sync sets as small as they may be."""
    silence = new()
    heard(silence, 3, 0)
    for now_ms in range(0, 2_000, TICK_MS):
        assert not silence.tick(now_ms)
    heard(silence, 3, 2_000)
    assert silence.tick(2_000)
    assert silence.silent == {2}


def test_who_was_silent_is_not_when_nobody_is_heard_any_more() -> None:
    """If this fails, a leader that was cut off drops followers that it considered silent before, because it could not
    propose that immediately (seed 11187 of the replication simulation).
    """
    silence = new()
    assert quiet(silence, 0, 200) == LIMIT_MS
    assert not silence.tick(2 * LIMIT_MS)
    assert not silence.silent
    heard(silence, 3, 500)
    assert silence.tick(500)
    assert silence.silent == {2}


def test_a_leader_that_stood_still_has_missed_nothing() -> None:
    """If this fails, one long turn of a leader drops followers whose fetches wait in its sockets."""
    silence = new()
    silence.tick(0)
    late_ms = LATE_MS + 1
    heard(silence, 3, late_ms)
    assert not silence.tick(late_ms)
    assert quiet(silence, late_ms, 1_000) == late_ms + LIMIT_MS


def test_the_limit_doubles_for_a_follower_that_comes_back() -> None:
    """If this fails, a follower that is slow again and again leaves and rejoins forever (KAFKA-19996)."""
    silence = new()
    now_ms = 0
    limits = []
    for _ in range(5):
        found_ms = quiet(silence, now_ms, 10_000)
        assert found_ms is not None
        limits.append(found_ms - now_ms)
        silence.dropped(2)
        now_ms = found_ms + TICK_MS
        heard(silence, 2, now_ms)
    assert limits == [100, 200, 400, LAG_MAX_MS, LAG_MAX_MS]
    assert silence.limit_ms(2) == LAG_MAX_MS
    for _ in range(4):
        for _ in range(0, FORGIVEN_MS + TICK_MS, LATE_MS):
            now_ms += LATE_MS
            heard(silence, 2, now_ms)
            silence.tick(now_ms)
    assert silence.limit_ms(2) == LIMIT_MS


def test_only_known_brokers_are_remembered() -> None:
    """If this fails, fetches with invented broker ids exhaust memory; or the setting 0 drops a follower."""
    brokers = {2, 3}
    silence = FollowerSilence(LIMIT_MS, LAG_MAX_MS, brokers)
    heard(silence, 4, 0)
    heard(silence, 2, 0)
    assert quiet(silence, 0, 1_000) == LIMIT_MS
    brokers.discard(2)
    silence.tick(LIMIT_MS + TICK_MS)
    assert not silence.silent
    never = FollowerSilence(0, LAG_MAX_MS, brokers)
    heard(never, 3, 0)
    assert not never.tick(100_000)


def silent_third() -> Replica:
    """A leader whose third replica lacks two records and has stopped fetching; the second one has all 12."""
    replica = leader()
    replica.fetched(2, 102, 10, 0, 1)
    replica.fetched(3, 103, 10, 0, 1)
    replica.wrote(12, 12, 1 << 60)
    replica.fetched(2, 102, 12, 0, 1)
    silence = in_sync_of(replica).silence
    heard(silence, 3, 1)
    heard(silence, 2, SILENCE_MS)
    assert silence.tick(SILENCE_MS + 1)
    return replica


def test_a_silent_member_leaves_and_does_not_hold_the_high_watermark() -> None:
    """If this fails, producers wait for a follower that gets nothing, or wait again while it catches up."""
    replica = silent_third()
    assert replica.tick(SILENCE_MS + 1)["wants_alter"]
    proposal = in_sync_of(replica).sent()
    assert proposal.isr == ((1, 101), (2, 102))
    assert replica.high["offset"] == 10, "until it is committed the third one is in the set"
    assert replica.answered(proposal, Altered(ErrorCode.NONE, 5, 8, (1, 2)))["high_watermark"] == 12
    replica.fetched(3, 103, 10, 0, SILENCE_MS + 2)
    replica.wrote(14, 14, 1 << 60)
    assert replica.fetched(2, 102, 14, 0, SILENCE_MS + 2)["high_watermark"] == 14
    replica.fetched(3, 103, 14, 0, SILENCE_MS + 3)
    assert in_sync_of(replica).sent().added == 3


def test_silence_never_makes_too_few() -> None:
    """If this fails, a cut link makes a leader refuse producers that it could serve once the link is back."""
    replica = silent_third()
    replica.require(3)
    assert not replica.tick(SILENCE_MS + 1)["wants_alter"]
    assert in_sync_of(replica).isr == {1, 2, 3}


def test_who_has_all_records_or_none_of_this_epoch_stays() -> None:
    """If this fails, an idle partition loses its replicas, or a follower that is just finding its new leader does."""
    replica = silent_third()
    in_sync_of(replica).followers[3].end_offset = 12
    assert not replica.tick(SILENCE_MS + 1)["wants_alter"]
    in_sync_of(replica).followers[3].end_offset = -1
    assert not replica.tick(SILENCE_MS + 1)["wants_alter"]
