"""The offsets that are compared on both sides."""

from __future__ import annotations

import itertools

import pytest

from broker_mirror.proof.ranges import Extent, Ranges, Unaligned, Window, copied, linked
from broker_mirror.translation import Range


def test_a_link_flow_compares_what_both_sides_have() -> None:
    """Records that retention removed on one side are not lost ones."""
    assert linked(Extent(5, 20), Extent(8, 18)) == Window(Extent(8, 20), Extent(8, 18), 18, 0, 3)
    assert linked(Extent(9, 20), Extent(8, 18)) == Window(Extent(9, 20), Extent(9, 18), 18, 1, 0)


def test_a_link_flow_without_common_records_has_an_empty_window() -> None:
    """Retention may have removed all that was copied."""
    assert linked(Extent(30, 40), Extent(0, 10)) == Window(Extent(30, 40), Extent(30, 30), 10, 30, 0)


def test_whole_logs_belong_together_without_offset_syncs() -> None:
    """The topic of offset syncs is compacted, so that only the newest one may be left."""
    whole = Window(Extent(0, 20), Extent(0, 18), 17)
    assert copied(Extent(0, 20), Extent(0, 18), [], 17) == whole
    assert copied(Extent(0, 20), Extent(0, 18), [Range(15, 14, 3)], 17) == whole


def test_a_flow_that_began_later_is_compared_from_its_first_record() -> None:
    """With auto.offset.reset=latest, older records of the source were never to be copied."""
    found = copied(Extent(0, 20), Extent(0, 8), [Range(12, 0, 8)], 20)
    assert found == Window(Extent(12, 20), Extent(0, 8), 20, 0, 12)


@pytest.mark.parametrize(
    ("source", "target", "first"),
    [(Extent(0, 90), Extent(0, 90), (0, 0)), (Extent(45, 90), Extent(0, 90), (45, 35)),
     (Extent(0, 90), Extent(37, 90), (47, 37)), (Extent(55, 90), Extent(0, 90), (60, 48))],
)  # fmt: skip
def test_comparing_begins_at_the_first_pair_that_both_logs_have(
    source: Extent, target: Extent, first: tuple[int, int]
) -> None:
    """Offsets before a log start cannot be read."""
    found = copied(source, target, [Range(40, 30, 10), Range(60, 48, 5)], None)
    assert (found.source.start, found.target.start) == first
    assert found.removed_in_source == first[1] - target.start
    assert found.removed_in_target == first[0] - source.start


def test_logs_without_a_known_pair_are_not_compared() -> None:
    """A guess would call each record different."""
    with pytest.raises(Unaligned, match="no offset sync"):
        copied(Extent(5, 90), Extent(0, 90), [Range(1, 1, 3)], None)


def test_ranges_stay_bounded() -> None:
    """A partition may have billions of records."""
    ranges = Ranges(3, 10, ranges_max=4)
    for offset in range(3, 1_000, 7):
        ranges.at(offset).source.records += 1
    found = ranges.found()
    assert len(found) <= 4
    assert sum(each.source.records for each in found) == len(range(3, 1_000, 7))
    assert [each.start for each in found] == sorted(each.start for each in found)
    assert all(each.end <= later.start for each, later in itertools.pairwise(found))
