"""Offsets of groups, translated from the source to the target."""

from __future__ import annotations

from random import Random

import pytest

from broker_mirror.translation import PARTITION_RANGES_MAX, PartitionRanges, Range, Translation


class SlowRanges:
    """The rule without ranges: the target offset of each copied record. The later copy of a record counts."""

    def __init__(self) -> None:
        self.copies: dict[int, int] = {}

    def add(self, source: int, target: int, count: int) -> None:
        self.copies = {each: copy for each, copy in self.copies.items() if each < source and copy < target}
        for index in range(count):
            self.copies[source + index] = target + index

    def translate(self, offset: int) -> int | None:
        if offset in self.copies:
            return self.copies[offset]
        before = [copy for each, copy in self.copies.items() if each < offset]
        return max(before) + 1 if before else None


def test_random_ranges_translate_as_single_records() -> None:
    """If this fails, a group that fails over skips records, or reads more of them again than needed."""
    for seed in range(300):
        draw = Random(seed)
        fast, slow = PartitionRanges(), SlowRanges()
        source = target = 0
        for _ in range(draw.randrange(1, 30)):
            match draw.randrange(12):
                case 0:  # copied again after a failure
                    source = max(0, source - draw.randrange(1, 20))
                case 1:  # the target lost its end
                    target = max(0, target - draw.randrange(1, 20))
                case 2 | 3:  # records that the source has deleted
                    source += draw.randrange(1, 5)
                case 4 | 5:  # markers of transactions, or records of others
                    target += draw.randrange(1, 5)
                case _:
                    pass
            count = draw.randrange(1, 8)
            fast.add(source, target, count)
            slow.add(source, target, count)
            source, target = source + count, target + count
            for offset in range(source + 10):
                assert fast.translate(offset) == slow.translate(offset), (seed, offset, fast.ranges())


def test_consecutive_ranges_are_one() -> None:
    """If this fails, the memory of a mirror grows with each batch."""
    ranges = PartitionRanges()
    for start in range(0, 100_000, 100):
        ranges.add(start, start + 7, 100)
    assert ranges.ranges() == [Range(0, 7, 100_000)]
    assert ranges.translate(54_321) == 54_328


def test_a_growing_range_replaces_itself() -> None:
    """An offset sync names all records of its range each time. If this fails, each one adds a range."""
    ranges = PartitionRanges()
    ranges.add(5, 5, 10, begins=True)
    ranges.add(5, 5, 20)
    assert ranges.ranges() == [Range(5, 5, 20)]
    assert ranges.begins


def test_an_offset_before_the_first_record_needs_its_begin() -> None:
    """If this fails, a group that has read nothing skips records, or one with an unknown position does."""
    ranges = PartitionRanges()
    ranges.add(100, 40, 10)
    assert ranges.translate(99) is None
    ranges.add(100, 40, 10, begins=True)
    assert ranges.translate(99) == 40
    ranges.add(200, 60, 10)
    ranges.forget_before(150)
    assert ranges.translate(99) == 40
    ranges.forget_before(205)
    assert ranges.translate(99) is None
    assert ranges.ranges() == [Range(200, 60, 10)]


def test_a_source_that_was_created_again_forgets_its_offsets() -> None:
    """If this fails, groups of the new partition continue at records of the old one."""
    ranges = PartitionRanges()
    ranges.add(0, 0, 1000, begins=True)
    ranges.add(0, 1000, 10, begins=True)
    assert ranges.translate(500) == 1010
    assert ranges.translate(5) == 1005


def test_too_many_ranges_lose_no_record() -> None:
    """Half of the older half is forgotten. If this fails, memory is not bounded, or a group skips records."""
    ranges, slow = PartitionRanges(1000), SlowRanges()
    for index in range(3000):
        ranges.add(2 * index, 3 * index, 1)
        slow.copies[2 * index] = 3 * index
        assert len(ranges) <= 1000
    for offset in range(0, 6000, 7):
        found, exact = ranges.translate(offset), slow.translate(offset)
        assert found is not None
        assert exact is not None
        assert found <= exact
    # The newer half is exact.
    for offset in range(5100, 6000):
        assert ranges.translate(offset) == slow.translate(offset)


def test_all_partitions_together_are_bounded() -> None:
    """If this fails, a mirror of many partitions uses all memory."""
    translation = Translation(ranges_max=400)
    for index in range(200):
        for partition in range(10):
            translation.add("t", partition, 2 * index, 3 * index)
            assert len(translation) <= 400
    assert translation.translate("t", 3, 398) == 597
    assert translation.translate("u", 3, 398) is None
    before = len(translation)
    translation.forget("t", 3)
    assert translation.translate("t", 3, 398) is None
    assert len(translation) < before


@pytest.mark.parametrize("count", [PARTITION_RANGES_MAX + 1])
def test_the_bound_of_a_partition(count: int) -> None:
    """If this fails, one partition with many transactions uses more than the stated memory."""
    ranges = PartitionRanges()
    for index in range(count):
        ranges.add(index, 2 * index, 1)
    assert len(ranges) <= PARTITION_RANGES_MAX
