"""When a warm-up ends: a ratio to a target that is still getting faster does not describe its steady state."""

import pytest

from bench.targets.brokers import Attached, BrokerCy, Floor, Kafka
from bench.window.steady import PATIENCE, PATIENCE_COMPILING, WINDOW_S, Warming, spread


def warming(
    *values: float, bound_s: float = 60.0, metric: str = "records_per_s", patience: int = PATIENCE_COMPILING
) -> Warming:
    made = Warming("kafka", "", metric, bound_s, patience)
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
        ((10.0, 20.0, 20.0, 10.0), False),  # its last windows do not agree, and improved on the first
        ((0.0, 0.0, 0.0), False),
    ],
)
def test_steady_is_within_five_percent_over_three_windows(values: tuple[float, ...], steady: bool) -> None:
    """If this fails, a cold peer is measured, and the ratios fall from pair to pair."""
    assert warming(*values, patience=PATIENCE).steady is steady
    assert warming(*values, patience=PATIENCE).over is steady


def test_windows_of_a_virtual_machine_may_agree_between_two_steps_of_its_compilers() -> None:
    """If this fails, a half-compiled virtual machine is measured: 885, 852 and 895 instead of the final 1,420."""
    step = (291.0, 613.0, 885.0, 852.0, 895.0)
    assert warming(*step, patience=PATIENCE).steady
    assert not warming(*step).steady
    assert warming(*step, 1_380.0, 1_400.0, 1_420.0).steady


NOISE = (70.0, 100.0, 80.0, 60.0, 104.0, 75.0, 90.0, 65.0)  # no three of them agree


@pytest.mark.parametrize(
    ("values", "patience", "steady"),
    [
        (NOISE, 8, False),  # no earlier windows to compare with
        ((100.0, *NOISE), 8, True),
        ((98.0, *NOISE), 8, False),  # 104 is more than 5 % better
        ((60.0, 70.0, 50.0), 3, False),
        ((100.0, 70.0, 50.0, 104.0), 3, True),
        ((0.0, 0.0, 0.0, 0.0), 3, False),
    ],
)
def test_steady_is_also_what_has_stopped_improving(values: tuple[float, ...], patience: int, steady: bool) -> None:
    """If this fails, a noisy host keeps every target at its bound, or a target that is still compiling is measured."""
    assert warming(*values, patience=patience).steady is steady
    costs = [1 / value if value else 0.0 for value in values]
    assert warming(*costs, metric="cpu_us_per_request", patience=patience).steady is steady


def test_a_target_that_is_compiled_beforehand_needs_less_patience() -> None:
    """If this fails, every comparison warms broker-cy up for as long as a Java virtual machine."""
    assert [target.compiles for target in (BrokerCy, Floor, Kafka, Attached)] == [False, False, True, True]
    assert PATIENCE < PATIENCE_COMPILING


def test_the_bound_ends_a_warm_up_and_is_said() -> None:
    """If this fails, a target that is never steady is warmed up forever, or measured without notice."""
    made = warming(*range(1, 5), bound_s=4 * WINDOW_S, patience=PATIENCE)
    assert made.over
    assert not made.steady
    assert made.verdict() == "not steady after 6 s of warm-up (its last 3 windows differ by 67%; at most 5% is steady)"
    assert warming(1.0, bound_s=WINDOW_S).verdict() == (
        "not steady after 2 s of warm-up (too few windows to know; at most 5% is steady)"
    )
    assert warming(7.0, 7.0, 7.0, patience=PATIENCE).verdict() is None


def test_the_document_has_every_window() -> None:
    """If this fails, a reader cannot see afterwards how warm a target was."""
    found = warming(1.0, 2.0).result()
    assert (found.values, found.seconds, found.steady) == ((1.0, 2.0), 2 * WINDOW_S, False)
    assert spread([5.0, 1.0, 2.0, 4.0]) == 1.5
