"""Rates over time, as a scenario describes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.scenario.profile import Piece, RateProfile
from loadgen.scenario.toml_file import SpecError, read_scenario


def rate_of(tmp_path: Path, text: str) -> RateProfile:
    (tmp_path / "s.toml").write_text(f'[[users]]\nkind = "producer"\nrate = {text}\n')
    found = read_scenario(tmp_path / "s.toml").users[0].rate
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"5000/s"', RateProfile.constant(5000)),
        ('"90/min"', RateProfile.constant(1.5)),
        ('{ profile = "constant", rate = "5/s" }', RateProfile.constant(5)),
        ('"10/s to 20/s over 1 min"', RateProfile.ramp(10, 20, 60)),
        ('{ profile = "ramp", from = "0/s", to = "2/s", over = "3s" }', RateProfile.ramp(0, 2, 3)),
        ('{ profile = "soak", rate = "5/s", ramp = "20s" }', RateProfile.soak(5, 20)),
        ('{ profile = "diurnal", low = "0/s", high = "5/s", period = "1h" }', RateProfile.diurnal(0, 5, 3600)),
        ('{ profile = "spike", base = "1/s", peak = "9/s", at = "0s", for = "2s" }', RateProfile.spike(1, 9, 0, 2)),
        (
            '{ profile = "spike", base = "0/s", peak = "9/s", at = "3s", for = "2s", every = "5s" }',
            RateProfile.spike(0, 9, 3, 2, 5),
        ),
        (
            '{ profile = "points", points = [["0s", "1/s"], ["5s", "1/s"], ["5s", "3/s"]] }',
            RateProfile.points([(0, 1), (5, 1), (5, 3)]),
        ),
        (
            '{ profile = "points", repeat = true, points = [["0s", "1/s"], ["5s", "2/s"]] }',
            RateProfile.points([(0, 1), (5, 2)], repeats=True),
        ),
    ],
)
def test_each_profile(tmp_path: Path, text: str, expected: RateProfile) -> None:
    """If this fails, a scenario runs at another rate than the one in its file."""
    assert rate_of(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{ profile = "spike", base = "9/s", peak = "9/s", at = "0s", for = "1s" }', "9/s is not above the base of 9/"),
        (
            '{ profile = "spike", base = "1/s", peak = "9/s", at = "3s", for = "2s", every = "4s" }',
            "rate.every: 4 s is too short: the spike ends 5 s after each start",
        ),
        ('{ profile = "diurnal", low = "5/s", high = "5/s" }', "5/s is not above the low rate of 5/s"),
        ('{ profile = "ramp", from = "0/s", to = "0/s", over = "3s" }', "the rate is never above 0/s"),
        ('{ profile = "ramp", from = "0/s", to = "1/s", over = "0s" }', "'0s' is out of range (allowed: 0.001 s"),
        ('{ profile = "points", points = [["0s", "1/s"]] }', "needs 2 to 2048 points"),
        ('{ profile = "points", points = [["1s", "1/s"], ["2s", "1/s"]] }', "the first point is at '1s' (allowed: 0 s"),
        ('{ profile = "points", points = [["0s", "1/s"], ["0s", "2/s"]] }', "all points are at 0 s"),
        (
            '{ profile = "points", points = [["0s", "1/s"], ["5s", "2/s"], ["4s", "1/s"]] }',
            "the point at 4 s follows one at 5 s (allowed: ascending times)",
        ),
        (
            '{ profile = "points", points = [["0s", "1/s"], ["1s", "1/s"], ["1s", "2/s"], ["1s", "3/s"]] }',
            "more than two points at one time",
        ),
        ('{ profile = "points", points = [["0s"], ["1s"]] }', "['0s'] is not a point"),
    ],
)  # fmt: skip
def test_a_wrong_profile_is_refused(tmp_path: Path, text: str, reported: str) -> None:
    """If this fails, a run has an unintended rate, or ends with a traceback."""
    with pytest.raises(SpecError) as refused:
        rate_of(tmp_path, text)
    assert reported in str(refused.value)
    assert "s.toml:3: users[0].rate." in str(refused.value)


def test_a_jump_at_the_last_point_stays() -> None:
    """If this fails, the rate after the last point is the one before its jump."""
    profile = RateProfile.points([(0, 1), (5, 1), (5, 3)])
    assert profile.operations(15) == 5 + 10 * 3
    assert RateProfile.points([(0, 1), (5, 3)]).operations(7) == 10 + 2 * 3


def test_a_mean_counts_the_rate_that_is_kept() -> None:
    """If this fails, `--rate` scales a soak by the mean of its ramp, which is a small part of it."""
    soak = RateProfile.soak(100, 10)
    assert soak.mean_over(10) == 50
    assert soak.mean_over(1000) == pytest.approx(99.5)
    assert RateProfile.diurnal(10, 30, 60).mean_over(600) == pytest.approx(20)
    assert RateProfile.spike(1, 11, 2, 3, 10).mean_over(1000) == pytest.approx(4)


def test_a_scaled_profile_has_the_same_shape() -> None:
    """If this fails, `--rate` changes the times of high load, and not only its height."""
    scaled = RateProfile.spike(1, 11, 2, 3, 10).scaled(2)
    assert scaled.pieces == (Piece(2, 2, 2), Piece(3, 22, 22), Piece(5, 2, 2))
    assert (scaled.repeats, scaled.highest) == (True, 22)


def test_a_scaled_curve_keeps_its_warm_up() -> None:
    """If this fails, a spike comes while the engine raw still warms up."""
    profile = RateProfile.ramp(10, 20, 5).led_by(3)
    assert profile.scaled(2).lead == Piece(3, 20, 20)
