"""Rings against a model that keeps every value, with late values and in any order."""

from __future__ import annotations

from array import array
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.collector.rings import (
    BLOCK,
    BLOCK_BYTES,
    COARSEST,
    RESOLUTIONS_MS,
    SPANS,
    Key,
    Line,
    Rings,
    grid_of,
    worst,
)

KEY, PRESENCE = Key(1, "in_bytes_per_s"), Key(1, "samples")
NEWEST_MS = 1_800_000_000_000
DAY_MS = 86_400_000
WINDOWS_MS = [resolution * span for resolution, span in zip(RESOLUTIONS_MS, SPANS, strict=True)]
Point = tuple[int, float]

# Ages around the ends of all windows, and within each.
ages_ms = st.one_of(
    st.integers(0, 10_000),
    *(st.integers(max(0, window - 30_000_000), window + 30_000_000) for window in WINDOWS_MS),
    st.integers(0, 8 * DAY_MS),
)
values = st.floats(-1e6, 1e9, width=32)
points = st.lists(st.tuples(ages_ms.map(lambda age: NEWEST_MS - age), values), min_size=1, max_size=60)


def f32(value: float) -> float:
    return array("f", [value])[0]


def first_kept_ms(level: int, newest_ms: int) -> int:
    """Return the first time that rings.py promises to keep: the window, and up to a block more."""
    block_ms = RESOLUTIONS_MS[level] * BLOCK
    return (newest_ms // block_ms - SPANS[level] // BLOCK) * block_ms


def kept(found: list[Point], level: int) -> list[Point]:
    newest_ms = max(time_ms for time_ms, _ in found)
    return [point for point in found if point[0] >= first_kept_ms(level, newest_ms)]


def filled(found: list[Point], key: Key = KEY) -> Rings:
    rings = Rings()
    for time_ms, value in found:
        rings.add(key, time_ms, value)
    return rings


@settings(max_examples=200, deadline=None)
@given(points, ages_ms, st.integers(1, 8 * DAY_MS), st.integers(2, 400))
def test_every_point_of_a_query_is_that_of_the_model(
    found: list[Point], age_ms: int, length_ms: int, points_max: int
) -> None:
    """If this fails, a chart hides a spike, or shows a value at a time at which it did not occur."""
    rings = filled(found)
    from_ms = max(0, NEWEST_MS - age_ms - length_ms)
    to_ms = from_ms + length_ms
    grid = rings.grid(from_ms, to_ms, points_max)
    line = rings.query(KEY, grid)
    assert grid.points == len(line.low) == len(line.high) == len(line.mean) == len(grid.times_ms) <= points_max
    model = kept(found, grid.level)
    for at, start_ms in enumerate(grid.times_ms):
        theirs = [value for time_ms, value in model if start_ms <= time_ms < start_ms + grid.step_ms]
        if not theirs:
            assert isnan(line.low[at])
            assert isnan(line.high[at])
            assert isnan(line.mean[at])
            continue
        assert (line.low[at], line.high[at]) == (f32(min(theirs)), f32(max(theirs)))
        size = sum(map(abs, theirs)) / len(theirs)
        assert line.mean[at] == pytest.approx(sum(theirs) / len(theirs), abs=1e-5 * size + 1e-30)
    wanted = [value for time_ms, value in kept(found, COARSEST) if from_ms <= time_ms < to_ms]
    if wanted:
        assert min(each for each in line.low if not isnan(each)) <= f32(min(wanted))
        assert max(each for each in line.high if not isnan(each)) >= f32(max(wanted))


@settings(max_examples=50, deadline=None)
@given(points, st.randoms(use_true_random=False))
def test_the_order_of_values_does_not_matter(found: list[Point], random: object) -> None:
    """If this fails, a history that was read backward differs from the one that was watched live."""
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = filled(found), filled(shuffled)
    assert one.newest_ms == two.newest_ms
    for points_max in (2, 50, 2_000):
        for length_ms in (600_000, 3_600_000, DAY_MS, 7 * DAY_MS):
            grid = one.grid(one.newest_ms - length_ms, one.newest_ms + 1, points_max)
            assert two.grid(one.newest_ms - length_ms, one.newest_ms + 1, points_max) == grid
            first, second = one.query(KEY, grid), two.query(KEY, grid)
            for mine, other in ((first.low, second.low), (first.high, second.high)):
                assert all(a == b or (isnan(a) and isnan(b)) for a, b in zip(mine, other, strict=True))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 3)), min_size=1, max_size=80), st.integers(2, 60))
def test_zeros_are_restored_from_the_presence(samples: list[tuple[int, int]], points_max: int) -> None:
    """If this fails, an idle topic looks like a broker that was away, or the other way round."""
    rings = Rings()
    found = [(NEWEST_MS - age * 1_000, value) for age, value in dict(samples).items()]
    for time_ms, value in found:
        rings.add(PRESENCE, time_ms, 1)
        if value:
            rings.add(KEY, time_ms, value)
    grid = rings.grid(NEWEST_MS - 4_000_000, NEWEST_MS + 1, points_max)
    line = rings.query(KEY, grid, PRESENCE)
    model = kept([(time_ms, float(value)) for time_ms, value in found], grid.level)
    for at, start_ms in enumerate(grid.times_ms):
        theirs = [value for time_ms, value in model if start_ms <= time_ms < start_ms + grid.step_ms]
        if not theirs:
            assert isnan(line.mean[at])
            continue
        assert (line.low[at], line.high[at]) == (min(theirs), max(theirs))
        assert line.mean[at] == pytest.approx(sum(theirs) / len(theirs))


@given(st.integers(0, 10**13), st.integers(1, 30 * DAY_MS), st.integers(2, 5_000))
def test_a_grid_contains_its_range(from_ms: int, length_ms: int, points_max: int) -> None:
    """If this fails, the ends of a chart are missing, or a viewer receives more points than were asked for."""
    grid = grid_of(from_ms, from_ms + length_ms, points_max)
    times = grid.times_ms
    assert 1 <= len(times) <= points_max
    assert times[0] <= from_ms
    assert times[-1] + grid.step_ms >= from_ms + length_ms


def test_points_do_not_change_while_a_range_moves() -> None:
    """If this fails, spikes of a live chart jump back and forth as time passes."""
    rings = filled([(NEWEST_MS - age * 1_000, float(age % 97)) for age in range(3_000)])
    seen: dict[int, float] = {}
    for shift in range(0, 60_000, 1_000):
        grid = rings.grid(NEWEST_MS - 2_000_000 - shift, NEWEST_MS - shift, 100)
        line = rings.query(KEY, grid)
        for time_ms, high in list(zip(grid.times_ms, line.high, strict=True))[1:-1]:
            assert seen.setdefault(time_ms, high) == high


def test_memory_is_bounded() -> None:
    """If this fails, a cluster with many topics exhausts the memory of the dashboard's host."""
    rings = filled([(NEWEST_MS - age * 1_000, 1.0) for age in range(0, 7 * 86_400, 10)])
    assert rings.size_bytes <= 65 * BLOCK_BYTES
    rings.add(KEY, NEWEST_MS + 30 * DAY_MS, 1.0)
    assert rings.blocks == len(RESOLUTIONS_MS)
    rings.drop(KEY)
    assert (rings.blocks, len(rings)) == (0, 0)
    small = Rings(blocks_max=4, series_max=2)
    for measure in ("a", "b", "c"):
        small.add(Key(1, measure), NEWEST_MS, 1.0)
    assert (small.blocks, len(small), small.refused) == (4, 2, 3)


def test_the_worst_of_several_lines() -> None:
    """If this fails, the p99 of all brokers is less than that of one of them."""
    nan = float("nan")
    found = worst([Line([], [1.0, nan, 5.0], []), Line([], [2.0, nan, nan], [])])
    assert found[0] == 2.0
    assert isnan(found[1])
    assert found[2] == 5.0


def test_too_few_points_are_refused() -> None:
    """If this fails, a query of one point divides by zero or returns nothing."""
    with pytest.raises(ValueError, match="at least 2"):
        grid_of(0, 10, 1)
