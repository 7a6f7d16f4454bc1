"""The records that a group reads again or misses after a failover, against a count of each record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_mirror.proof.drilling import Counts, counts, nearest
from broker_mirror.proof.ranges import Extent, Window
from broker_mirror.translation import Range


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_counts_are_those_of_single_records(read: int, copied: int, before: int) -> None:
    """If this fails, a drill promises that nothing is lost, and a failover loses records."""
    before = min(before, copied)
    again = sum(number < read for number in range(before, copied))
    missed = sum(number >= read for number in range(before))
    assert counts(read, before, copied - before) == Counts(again, missed)


def test_counting_begins_near_the_offsets() -> None:
    """Otherwise a drill reads whole partitions."""
    window = Window(Extent(0, 900), Extent(0, 900), 900)
    pairs = [Range(100, 90, 50), Range(200, 180, 50), Range(400, 370, 50)]
    assert nearest(window, pairs, 220, 195) == (215, 195)
    assert nearest(window, pairs, 220, 100) == (110, 100)
    assert nearest(window, pairs, 50, 50) == (0, 0)
    assert nearest(window, pairs, 900, 900) == (449, 419)


def test_counting_does_not_begin_before_the_window() -> None:
    """Older records were removed."""
    window = Window(Extent(120, 900), Extent(110, 900), 900)
    assert nearest(window, [Range(100, 90, 50)], 200, 150) == (149, 139)
    assert nearest(window, [Range(10, 0, 50)], 200, 150) == (120, 110)
