"""Windows of plans: the times that they hold, and the texts of what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from broker_streams.plan.functions import Function
from broker_streams.plan.steps.aggregates import Count, Fold
from broker_streams.plan.steps.windows import SessionAggregate, WindowAggregate
from broker_streams.plan.windows import (
    MAX_MS,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)

FUNCTION = Function("node.function", lambda: None)


@pytest.mark.parametrize(
    ("windows", "timestamp", "starts"),
    [
        (TimeWindows.of(10), 0, [0]),
        (TimeWindows.of(10), 9, [0]),
        (TimeWindows.of(10), 10, [10]),
        (TimeWindows.of(10).advance_by(5), 12, [5, 10]),
        # The advance does not divide the size: two or three windows hold a time.
        (TimeWindows.of(10).advance_by(4), 11, [4, 8]),
        (TimeWindows.of(10).advance_by(4), 12, [4, 8, 12]),
        # No window begins before 0.
        (TimeWindows.of(10).advance_by(4), 1, [0]),
        (UnlimitedWindows.of(), 7, [0]),
        (UnlimitedWindows.of().start_on(7), 7, [7]),
        (UnlimitedWindows.of().start_on(7), 6, []),
    ],
)
def test_times_of_windows(windows: TimeWindows | UnlimitedWindows, timestamp: int, starts: list[int]) -> None:
    """If this fails, records are counted in windows of other times."""
    assert list(windows.starts_of(timestamp)) == starts


def test_durations_are_texts_or_ms() -> None:
    """If this fails, a window is a thousand times as long as the user wrote."""
    assert TimeWindows.of("1m").advance_by("10s").grace("1h30m") == TimeWindows(60_000, 10_000, 5_400_000)
    assert SlidingWindows.of("1s").grace(5) == SlidingWindows(1_000, 5)
    assert SessionWindows.of("5min").grace("1d") == SessionWindows(300_000, 86_400_000)
    assert JoinWindows.of(10).before("1s").after(-3).grace(2) == JoinWindows(1_000, -3, 2)
    assert JoinWindows.of(10).size_ms == 20
    assert UnlimitedWindows.of().end_of(0) == MAX_MS


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TimeWindows.of(0), "the size of time windows is 0 ms; 1 to 9223372036854775807 are allowed"),
        (
            lambda: TimeWindows.of("1s").advance_by("2s"),
            "the advance of time windows is 2000 ms; 1 to their size of 1000 ms are allowed",
        ),
        (lambda: TimeWindows.of(5).advance_by(0), "the advance of time windows is 0 ms; 1 to their size"),
        (lambda: TimeWindows.of(5).grace(-1), "the grace period of time windows is -1 ms; 0 to"),
        (lambda: SlidingWindows.of(0), "the time difference of sliding windows is 0 ms; 1 to"),
        (lambda: SessionWindows.of(-1), "the inactivity gap of session windows is -1 ms; 0 to"),
        (lambda: UnlimitedWindows.of().start_on(-1), "the start of unlimited windows is -1 ms; 0 to"),
        (lambda: JoinWindows.of(5).before(-6), "the sum of before and after of join windows is -1 ms; 0 to"),
        (lambda: TimeWindows.of("1 hour"), "the size of time windows: '1 hour' has the unit 'hour'"),
        (
            lambda: WindowAggregate("s", Count(), emit=EmitStrategy.ON_WINDOW_CLOSE, windows=UnlimitedWindows()),
            "unlimited windows never close",
        ),
        (
            lambda: SessionAggregate("s", Fold(FUNCTION, FUNCTION), windows=SessionWindows(5)),
            "an aggregation of sessions needs a merger",
        ),
    ],
)
def test_refusals_name_value_and_limits(make: Callable[[], object], text: str) -> None:
    """If this fails, an impossible window is found at the first record, or never."""
    with pytest.raises(ValueError, match=re.escape(text)):
        make()


def test_other_types_are_refused() -> None:
    """If this fails, `True` or 1.5 is taken for a number of milliseconds."""
    for duration in (True, 1.5, None):
        with pytest.raises(TypeError, match="ms as int or a text"):
            TimeWindows.of(duration)  # type: ignore[arg-type]
