"""Due times follow the profile exactly, in one worker or in many."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loadgen.pace.schedule import Schedule
from loadgen.scenario.profile import Piece, RateProfile
from loadgen.scenario.share import Share

# Neither so low that an operation takes a year, nor so high that floats cannot represent nanoseconds.
RATES = st.one_of(st.just(0.0), st.floats(0.01, 10_000.0))
PIECES = st.builds(Piece, st.floats(0.01, 1_000.0), RATES, RATES)
PROFILES = st.builds(RateProfile, st.lists(PIECES, min_size=1, max_size=6).map(tuple), st.booleans()).filter(
    lambda each: each.highest > 0
)


def times(profile: RateProfile, count: int, first: int = 0, stride: int = 1) -> list[float]:
    schedule = Schedule(profile, Share(first, stride, stride))
    return [schedule.due_s(number) for number in range(count)]


@given(PROFILES, st.integers(0, 200_000))
def test_as_many_operations_are_due_as_the_rate_makes(profile: RateProfile, number: int) -> None:
    """If this fails, the load has another rate than the profile: at the due time of operation n, n are due."""
    due_s = Schedule(profile).due_s(number)
    assume(math.isfinite(due_s))
    # The time of a float near due_s is known to its last bit, and the integral no better than that times the rate.
    assert profile.operations(due_s) == pytest.approx(number, rel=1e-9, abs=1e-6 + 1e-11 * due_s * profile.highest)


def test_the_integral_is_that_of_small_steps() -> None:
    """If this fails, the formula of the profile is wrong, and with it the reference of the other tests."""
    profile = RateProfile((Piece(3.0, 10.0, 70.0), Piece(2.0, 0.0, 0.0), Piece(5.0, 30.0, 0.0)), repeats=True)

    def rate(at_s: float) -> float:
        at_s %= 10
        if at_s < 3:
            return 10 + 20 * at_s
        return 0.0 if at_s < 5 else 30 - 6 * (at_s - 5)

    step_s = 1e-3
    sums = list(itertools.accumulate(rate((step + 0.5) * step_s) * step_s for step in range(27_000)))
    for at_s in (0.5, 3, 4, 5, 7.5, 10, 13, 14.5, 20, 27):
        assert profile.operations(at_s) == pytest.approx(sums[round(at_s / step_s) - 1], abs=0.05)
    # Operations that fall on a pause, 120 of the 195 of each period, are due when it ends.
    due = {number: at for number, at in enumerate(times(profile, 500)) if number % 195 not in (0, 120)}
    assert max(abs(bisect_left(sums, number) * step_s - at) for number, at in due.items()) < 0.02


@given(PROFILES, st.integers(0, 100_000))
def test_due_times_never_go_back(profile: RateProfile, number: int) -> None:
    """If this fails, an operation becomes due before its predecessor, and a pacer that waits for the predecessor is
    late.
    """
    schedule = Schedule(profile)
    due = [schedule.due_s(each) for each in range(number, number + 50)]
    assert all(before <= after or math.isclose(before, after) for before, after in itertools.pairwise(due))
    assert due[0] >= 0


@given(PROFILES, st.integers(1, 7))
def test_workers_together_are_one(profile: RateProfile, workers: int) -> None:
    """If this fails, a run over several workers has another load than the same run in one."""
    apart = [times(profile, 40, first, workers) for first in range(workers)]
    assert sorted(itertools.chain.from_iterable(apart)) == sorted(times(profile, 40 * workers))


@given(PROFILES, st.integers(0, 3), st.floats(0, 5_000))
def test_due_before_counts_the_due_times(profile: RateProfile, first: int, seconds: float) -> None:
    """If this fails, a run expects more or fewer operations than it performs."""
    assume(profile.operations(seconds) < 1e7)
    schedule = Schedule(profile, Share(first, 4, 4))
    count = schedule.due_before(seconds)
    assert count == 0 or schedule.due_s(count - 1) < seconds
    assert schedule.due_s(count) >= seconds


def test_a_constant_rate_is_even() -> None:
    """If this fails, operations come in bursts."""
    assert times(RateProfile.constant(4), 6) == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert times(RateProfile.constant(4), 3, 1, 2) == [0.25, 0.75, 1.25]


def test_a_spike_begins_and_ends_at_its_times() -> None:
    """If this fails, the peak of a spike is too early, too late or too long."""
    due = times(RateProfile.spike(2, 10, 1, 2, 5), 100)
    assert due[:3] == [0, 0.5, 1]  # the peak begins
    assert due[3] == pytest.approx(1.1)
    assert due[22:25] == pytest.approx([3, 3.5, 4])  # it has ended
    assert due[26:29] == pytest.approx([5, 5.5, 6])  # the next cycle
    assert due[29] == pytest.approx(6.1)
    assert times(RateProfile.spike(1, 10, 0, 1), 12)[8:] == pytest.approx([0.8, 0.9, 1, 2])


def test_nothing_is_due_while_the_rate_is_0() -> None:
    """If this fails, a pause in a profile has operations, or the run ends with it."""
    pause = RateProfile.points([(0, 0), (2, 0), (2, 1), (4, 1), (4, 0), (10, 0)])
    assert times(pause, 3) == [2, 3, math.inf]
    assert Schedule(pause).due_before(1e9) == 2
    assert times(RateProfile(pause.pieces, repeats=True), 5) == [2, 3, 12, 13, 22]
    assert times(RateProfile((Piece(5, 0, 0),), repeats=True), 1) == [math.inf]
    assert Schedule(RateProfile((Piece(5, 0, 0),))).due_before(100) == 0


def test_the_last_rate_is_kept() -> None:
    """If this fails, a run that is longer than its ramp has no load after it."""
    due = times(RateProfile.ramp(0, 10, 2), 40)
    assert due[10] == 2
    assert due[20] == 3
    assert due[39] == pytest.approx(4.9)
    assert times(RateProfile.ramp(10, 0, 2), 12)[10:] == [math.inf, math.inf]
