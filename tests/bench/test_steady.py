"""When a warm-up ends: a ratio to a target that still becomes faster is not one to it at work."""

import pytest

from bench.steady import WINDOW_S, Warming, spread


def warming(*values: float, bound_s: float = 60.0) -> Warming:
    made = Warming("kafka", "", "records_per_s", bound_s)
    for value in values:
        made.add(WINDOW_S, value)
    return made


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        ((), False),
        ((100.0, 100.0), False),  # too few to know
        ((10.0, 50.0, 100.0), False),  # a virtual machine that compiles
        ((10.0, 50.0, 100.0, 103.0, 105.0), True),
        ((100.0, 103.0, 106.0), False),
        ((100.0, 100.0, 100.0, 50.0), False),  # it was steady, and is no longer
        ((0.0, 0.0, 0.0), False),
    ],
)
def test_steady_is_within_five_percent_over_three_windows(values: tuple[float, ...], steady: bool) -> None:
    """If this fails, a cold peer is measured, and the ratios fall from pair to pair."""
    assert warming(*values).steady is steady
    assert warming(*values).over is steady


def test_the_bound_ends_a_warm_up_and_is_said() -> None:
    """If this fails, a target that is never steady is warmed up forever, or measured without notice."""
    made = warming(*range(1, 5), bound_s=4 * WINDOW_S)
    assert made.over
    assert not made.steady
    assert made.verdict() == "not steady after 6 s of warm-up (its last 3 windows differ by 67%; at most 5% is steady)"
    assert warming(1.0, bound_s=WINDOW_S).verdict() == (
        "not steady after 2 s of warm-up (too few windows to know; at most 5% is steady)"
    )
    assert warming(7.0, 7.0, 7.0).verdict() is None


def test_the_document_has_every_window() -> None:
    """If this fails, nobody can see afterwards how warm a target was."""
    found = warming(1.0, 2.0).result()
    assert (found.values, found.seconds, found.steady) == ((1.0, 2.0), 2 * WINDOW_S, False)
    assert spread([5.0, 1.0, 2.0, 4.0]) == 1.5
