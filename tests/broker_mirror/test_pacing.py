"""Which offset syncs are written: the scenarios of MirrorMaker 2's MirrorSourceTaskTest and OffsetSyncWriterTest.
tests/broker_mirror/test_like_mirror_maker.py compares random records.
"""

from __future__ import annotations

from random import Random

from broker_mirror.formats.offset_syncs import OffsetSync
from broker_mirror.pacing import RatePacing, SyncPacing
from broker_mirror.translation import Translation


def test_the_mean_rate_is_bounded() -> None:
    """If this fails, a mirror takes the bandwidth that other programs need."""
    for seed in range(20):
        draw = Random(seed)
        rate, largest, now_ms, total = 10_000, 4_000, 0.0, 0
        pacing = RatePacing(rate)
        for _ in range(200):
            wait_ms = pacing.wait_ms(int(now_ms))
            now_ms += wait_ms + draw.choice((0, 0, 5, 700))
            size = draw.randrange(1, largest)
            total += size
            pacing.took(size, int(now_ms))
            # The times are whole milliseconds.
            assert total <= rate * (now_ms + 200) / 1000 + largest
    assert RatePacing(0).wait_ms(5) == 0


def test_a_pause_gives_no_room_for_more() -> None:
    """If this fails, a mirror copies at full speed after a night without records."""
    pacing = RatePacing(1_000)
    pacing.took(500, 0)
    assert pacing.wait_ms(0) == 500
    assert pacing.wait_ms(60_000) == 0
    pacing.took(500, 60_000)
    assert pacing.wait_ms(60_000) == 500


def sync(source: int, target: int, count: int = 1) -> OffsetSync:
    return OffsetSync("t", 0, source, target, count)


def test_the_first_record_and_each_hundredth_have_a_sync() -> None:
    """If this fails, the topic of syncs has a record for each batch, or groups read much again after a restart."""
    pacing = SyncPacing("t", 0, 100)
    assert pacing.copied(0, 0) == [sync(0, 0)]
    assert pacing.due() is None
    for offset in range(1, 101):
        assert pacing.copied(offset, offset) == []
    assert pacing.copied(101, 101) == [sync(101, 101, 102)]
    assert pacing.copied(102, 102, 50) == []
    assert pacing.due() == sync(151, 151, 152)
    assert pacing.due() is None


def test_records_that_the_source_lacks_end_a_range() -> None:
    """If this fails, a group continues before or after its record, because both sides moved by different numbers."""
    pacing = SyncPacing("t", 0, 100)
    assert pacing.copied(0, 0, 10) == [sync(9, 9, 10)]
    assert pacing.copied(10, 10, 5) == []
    assert pacing.copied(20, 15, 5) == [sync(14, 14, 15), sync(24, 19, 5)]


def test_markers_of_the_target_wait_for_the_lag() -> None:
    """Each transaction ends a range. If this fails, each one writes two syncs for each partition."""
    pacing = SyncPacing("t", 0, 100)
    assert pacing.copied(0, 0, 10) == [sync(9, 9, 10)]
    assert pacing.copied(10, 11, 10) == []
    assert pacing.copied(20, 22, 10) == []
    assert pacing.due() == sync(29, 31, 10)
    assert pacing.copied(30, 33, 100) == [sync(129, 132, 100)]


def test_a_target_that_lost_its_end_is_synced_at_once() -> None:
    """If this fails, groups continue at offsets that the target has given to other records."""
    pacing = SyncPacing("t", 0, 100)
    assert pacing.copied(0, 0, 10) == [sync(9, 9, 10)]
    assert pacing.copied(10, 10, 5) == []
    assert pacing.copied(15, 12, 2) == [sync(16, 13, 2)]


def test_written_syncs_are_as_exact_as_the_lag() -> None:
    """A restarted mirror has only the written syncs. If this fails, a group then skips records, or reads more again
    than `offset.lag.max` allows.
    """
    for seed in range(50):
        draw = Random(seed)
        lag_max = draw.choice([0, 5, 100])
        pacing, exact, read = SyncPacing("t", 0, lag_max), Translation(), Translation()
        source = target = 0
        for _ in range(60):
            source += draw.choice([0, 0, 0, 3])
            target += draw.choice([0, 0, 1])
            count = draw.randrange(8, 20)
            exact.add("t", 0, source, target, count)
            for each in pacing.copied(source, target, count):
                read.apply(each)
            source, target = source + count, target + count
            for offset in (*draw.sample(range(source), 8), *range(source - 5, source + 3)):
                best, found = exact.translate("t", 0, offset), read.translate("t", 0, offset)
                if best is None:
                    assert found is None
                else:
                    assert found is not None
                    assert best - lag_max - 1 <= found <= best, (seed, offset)
