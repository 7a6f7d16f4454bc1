"""A profile in the parts that the C driver sends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.engines.pieces import Part, parts_of
from loadgen.pace.schedule import Schedule
from loadgen.scenario.profile import Piece, RateProfile

RATES = st.sampled_from([0.0, 0.3, 1.0, 7.5, 40.0])
PIECES = st.lists(st.builds(Piece, st.sampled_from([0.1, 1.0, 2.5]), RATES, RATES), min_size=1, max_size=6)


def due_s(part: Part, number: int) -> float:
    """Return when request `number` of a part is due, as bench.wire.schedule computes it."""
    at = part.first + number
    slope = (part.end - part.start) / part.seconds
    return part.at_s + 2 * at / (part.start + math.sqrt(max(0.0, part.start**2 + 2 * slope * at))) if at else part.at_s


def dues(part: Part) -> list[float]:
    count = (part.start + part.end) / 2 * part.seconds
    return [due_s(part, number) for number in range(math.ceil(count - part.first - 1e-6))]


@given(PIECES, st.booleans(), st.sampled_from([0.0, 0.25, 0.9]))
def test_all_workers_together_follow_the_profile(pieces: list[Piece], repeats: bool, share: float) -> None:
    """If this fails, the C engine sends more or less than the scenario's rate wherever the rate changes."""
    profile = RateProfile(tuple(pieces), repeats)
    seconds = 9.3
    found = [at for part in parts_of(profile, seconds, share) for at in dues(part)]
    whole = Schedule(profile)
    # Between the numbers of the schedule, the curve is exact to a fraction of a request.
    total = whole.due_before(seconds)
    assert abs(len(found) + share - total) <= 1.01
    assert found == sorted(found)
    assert all(0 <= at <= seconds + 0.01 for at in found)
    if share == 0.0:
        expected = [whole.due_s(number) for number in range(len(found))]
        # A rate near 0 makes single due times inexact, and no other ones.
        assert sum(abs(one - other) > 0.02 for one, other in zip(found, expected, strict=True)) <= len(pieces) * 10


@pytest.mark.parametrize("repeats", [False, True])
def test_a_constant_rate_is_one_part(repeats: bool) -> None:
    """If this fails, a soak of a constant rate restarts the driver each second."""
    profile = RateProfile((Piece(1.0, 50.0, 50.0),) * 3, repeats)
    (part,) = parts_of(profile, 3600.0)
    assert part == Part(0.0, 3600.0, 50.0, 50.0, 0.0)
