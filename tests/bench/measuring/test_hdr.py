"""Histograms that cross processes or go to other tools must have the same values there."""

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.measuring import hdr
from bench.measuring.histogram import Histogram

VALUES = st.lists(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 10_000_000)), max_size=60)
TOP = (1 << 63) - 1


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_merged_parts_are_the_whole(parts: list[list[int]]) -> None:
    """p99.9 over several processes is that of all their values, also after each was sent through a pipe."""
    merged = Histogram()
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(filled(part))))
    whole = filled([value for part in parts for value in part])
    assert merged.state() == whole.state()
    assert (merged.count, merged.negative) == (whole.count, whole.negative)


@given(VALUES)
def test_nothing_is_clamped_or_lost(values: list[int]) -> None:
    """Every value is within 1/128 of its bucket's end, and every negative one is counted."""
    histogram = filled(values)
    known = sorted(value for value in values if value >= 0)
    assert sum(count for _, count in histogram.buckets()) == len(known)
    assert histogram.negative == len(values) - len(known)
    ends = [highest for highest, count in histogram.buckets() for _ in range(count)]
    for value, end in zip(known, ends, strict=True):
        assert value <= end <= value * (1 + 1 / 128)


@given(VALUES.filter(lambda values: any(value >= 0 for value in values)))
def test_hdr_text_says_the_same_as_our_histogram(values: list[int]) -> None:
    """Another tool must read our percentiles from the JSON: never below, and above by at most the rounding to 3
    digits.
    """
    histogram = filled(values)
    decoded = hdr.decode(hdr.hdr_base64(histogram))
    assert decoded.get_total_count() == histogram.count
    for percent in (1, 50, 99, 100):
        ours_us = histogram.percentile(percent) / 1000
        assert ours_us <= decoded.get_value_at_percentile(percent) <= ours_us * 1.001 + 1


@example([[0, 0, 0, 0, 4_194_304], [4_227_001]])
@given(st.lists(VALUES, min_size=1, max_size=4))
def test_hdr_texts_merge_exactly(parts: list[list[int]]) -> None:
    """The report's curve of several runs is that of all their requests."""
    whole = hdr.decode(hdr.hdr_base64(filled([value for part in parts for value in part])))
    merged = hdr.merged([hdr.hdr_base64(filled(part)) for part in parts])
    assert merged.get_total_count() == whole.get_total_count()
    for percent in (10, 50, 90, 99.9):
        ours, theirs = merged.get_value_at_percentile(percent), whole.get_value_at_percentile(percent)
        # The end of the last bucket is its highest value, which is only known from all parts together. Both are rounded
        # to microseconds with 3 digits.
        assert ours == pytest.approx(theirs, rel=1 / 128 + 1 / 1000, abs=1)


WHOLE = hdr.hdr_base64(Histogram())


@pytest.mark.parametrize("text", ["", "?", "AAAA", "\u00e4", WHOLE[:-8], WHOLE[:20]])
def test_text_that_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(hdr.HdrError, match="HdrHistogram"):
        hdr.decode(text)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ((0, 5, ((7296, 1),)), "bucket 7296"),
        ((0, 5, ((5, 1), (5, 1))), "bucket 5"),
        ((0, 5, ((-1, 1),)), "bucket -1"),
        ((0, 5, ((5, 0),)), "holds 0"),
        ((0, 6, ((5, 1),)), "highest value 6"),
        ((0, 0, ()), "highest value of no values"),
        ((-1, -1, ()), "-1 negative"),
    ],
)
def test_state_that_no_histogram_has_is_refused(
    state: tuple[int, int, tuple[tuple[int, int], ...]], words: str
) -> None:
    """A bucket out of range would be written beyond the counts."""
    with pytest.raises(ValueError, match=words):
        Histogram.from_state(state)


def test_mean() -> None:
    """This is the average that Kafka's tools print."""
    assert filled([10, 20, 60]).mean() == 30
    assert filled([1_000_000] * 3 + [5_000_000]).mean() == pytest.approx(2_000_000, rel=1 / 128)
    assert filled([TOP]).mean() == pytest.approx(TOP, rel=1 / 128)
    with pytest.raises(ValueError, match="empty"):
        Histogram().mean()
