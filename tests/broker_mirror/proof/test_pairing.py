"""Planted differences of each kind are found, with their reason and offsets, and equal logs are equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Batch
from broker_mirror.proof import pairing as module
from broker_mirror.proof.ranges import Extent, Window, linked
from tests.broker_mirror.proof.logs import Row, batches, compared, damaged, malformed, rows, verdicts

TEN = rows(*"abcdefghij")


@dataclass(frozen=True)
class Planted:
    name: str
    target: list[Row]
    found: list[tuple[str, int | None, int | None, int]]


PLANTED = [
    Planted("the target is equal", TEN, []),
    Planted("the target lost one record", TEN[:4] + TEN[5:], [("missing", 4, None, 1)]),
    Planted("the target lost its first record", TEN[1:], [("missing", 0, None, 1)]),
    Planted("the target lost its last record", TEN[:9], [("missing", 9, None, 1)]),
    Planted("the target lost three records in a row", TEN[:4] + TEN[7:], [("missing", 4, None, 3)]),
    Planted("the target has one record twice", TEN[:5] + TEN[4:], [("twice", None, 5, 1)]),
    Planted("the target has its last record twice", [*TEN, TEN[9]], [("twice", None, 10, 1)]),
    Planted("a batch was sent twice", TEN[:6] + TEN[3:6] + TEN[6:], [("twice", None, 6, 3)]),
    Planted("a record has another value", [*TEN[:4], Row(b"X"), *TEN[5:]], [("other content", 4, 4, 1)]),
    Planted("the last record has another value", [*TEN[:9], Row(b"X")], [("other content", 9, 9, 1)]),
    Planted("a record has another key", [TEN[0]._replace(key=b"x"), *TEN[1:]], [("other content", 0, 0, 1)]),
    Planted("a key is empty and not null", [TEN[0]._replace(key=b""), *TEN[1:]], [("other content", 0, 0, 1)]),
    Planted("a record has another header", [TEN[0]._replace(headers=(("h", b""),)), *TEN[1:]],
            [("other content", 0, 0, 1)]),
    Planted("a record has another timestamp", [*TEN[:4], TEN[4]._replace(timestamp=1_001), *TEN[5:]],
            [("other content", 4, 4, 1)]),
    Planted("two records changed their places", [*TEN[:4], TEN[5], TEN[4], *TEN[6:]], [("order", 4, 5, 1)]),
    Planted("the last two records changed their places", [*TEN[:8], TEN[9], TEN[8]], [("order", 8, 9, 1)]),
    Planted("a record came much too early", [TEN[8], *TEN[:8], TEN[9]], [("order", 8, 0, 1)]),
    Planted("the target has a record of its own", [*TEN[:4], Row(b"X"), *TEN[4:]], [("added", None, 4, 1)]),
    Planted("the target has a record of its own at the end", [*TEN, Row(b"X")], [("added", None, 10, 1)]),
    Planted("two differences are far from each other", [*TEN[1:9], Row(b"X")],
            [("missing", 0, None, 1), ("other content", 9, 8, 1)]),
]  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_a_planted_difference_is_found(planted: Planted) -> None:
    """If this fails, a mirror that lost or repeated records counts as equal, or the reason misleads."""
    assert verdicts(compared(batches(TEN), batches(planted.target))) == planted.found


def test_equal_batches_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer of the copy is in the header only; without this, verifying costs several times the CPU."""

    def refuse(*_: object) -> None:
        raise AssertionError("a batch was decoded")

    monkeypatch.setattr(module, "record_hashes", refuse)
    found = compared(batches(TEN, codec=Codec.GZIP), batches(TEN, first=7, producer_id=12, codec=Codec.GZIP))
    assert found.paired == 10
    assert found.differences == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_another_compression_is_no_difference(codec: Codec) -> None:
    """compression.type of the target decides how it stores batches."""
    found = compared(batches(TEN), batches(TEN, [1, 8], codec=codec))
    assert (found.paired, found.differences) == (10, [])


def test_records_on_their_way_are_not_missing() -> None:
    """A flow that runs is always a little behind."""
    found = compared(batches(TEN), batches(TEN[:7]), reached=7)
    assert (found.paired, found.behind, found.differences) == (7, 3, [])


def test_a_record_that_the_flow_has_committed_is_missing() -> None:
    """The last records of a flow that was cut would otherwise count as on their way for ever."""
    found = compared(batches(TEN), batches(TEN[:7]), reached=8)
    assert verdicts(found) == [("missing", 7, None, 1)]
    assert found.behind == 2


def test_records_before_the_window_are_left_out() -> None:
    """Retention of one side removes whole segments, so both logs start at different offsets inside batches."""
    source, target = batches(TEN, [6, 4]), batches(TEN[4:], first=4)
    found = compared(source, target, window=linked(Extent(0, 10), Extent(4, 10)))
    assert (found.paired, found.differences) == (6, [])


def test_another_offset_in_a_link_flow_is_a_difference() -> None:
    """Groups continue at equal offsets after a failover; with other offsets they lose or repeat records."""
    window = Window(Extent(0, 20), Extent(0, 20), 20)
    found = compared(batches(TEN), batches(TEN, first=1), window=window, with_offsets=True)
    assert {each.reason.value for each in found.differences} == {"other offset"}
    assert sum(each.count for each in found.differences) == 10


def test_timestamps_that_the_target_sets_are_left_out() -> None:
    """A target with message.timestamp.type=LogAppendTime would differ in every record."""
    later = [each._replace(timestamp=5_000) for each in TEN]
    assert compared(batches(TEN), batches(later)).differences
    assert compared(batches(TEN), batches(later), with_times=False).differences == []


@pytest.mark.parametrize("breaks", [damaged, malformed])
def test_a_damaged_batch_is_named(breaks: Callable[[Batch], Batch]) -> None:
    """A broken disk must not look like a mirror that loses records, nor stop the comparison."""
    target = batches(TEN)
    target[1] = breaks(target[1])
    found = compared(batches(TEN), target)
    assert verdicts(found)[0] == ("damaged", None, 3, 1)
    assert ("missing", 3, None, 3) in verdicts(found)


def test_comparing_ends_after_many_differences() -> None:
    """A partition of another topic has a difference at each record; memory and time stay bounded."""
    other = [Row(str(each).encode()) for each in range(500)]
    mine = [Row(str(-each - 1).encode()) for each in range(500)]
    found = compared(batches(mine, [500]), batches(other, [500]))
    assert found.is_cut
    assert len(found.differences) == module.DIFFERENCES_MAX


def test_ranges_count_both_sides() -> None:
    """The counts by range show where both sides differ."""
    found = compared(batches(TEN), batches(TEN[:4] + TEN[5:]), range_offsets=5)
    counted = [(each.start, each.source.records, each.target.records, each.is_equal) for each in found.ranges]
    assert counted == [(0, 5, 4, False), (5, 5, 5, True)]


VALUES = st.lists(st.sampled_from("abcdef"), max_size=30)
SIZES = st.lists(st.integers(1, 7), max_size=20)


@settings(max_examples=300, deadline=None)
@given(VALUES, VALUES, SIZES, SIZES, st.integers(1, 4), st.booleans())
def test_any_cutting_gives_the_same_verdict(
    one: list[str], other: list[str], cuts: list[int], others: list[int], fed: int, is_packed: bool
) -> None:
    """Both clusters choose the sizes of batches and answers. If this fails, a verdict depends on them."""
    expected = compared(batches(rows(*one)), batches(rows(*other)), with_checksums=True)
    codec = Codec.LZ4 if is_packed else None
    found = compared(batches(rows(*one), cuts), batches(rows(*other), others, codec=codec), fed=fed)
    assert verdicts(found) == verdicts(expected)
    assert found.paired == expected.paired
    assert (not found.differences) == (one == other)


@settings(max_examples=200, deadline=None)
@given(VALUES, SIZES, SIZES, st.integers(1, 12), st.integers(1, 12))
def test_any_ranges_have_the_same_checksum_together(
    values: list[str], cuts: list[int], others: list[int], some: int, more: int
) -> None:
    """Checksums of ranges are compared with those of other runs; they must not depend on batches."""
    whole = []
    for sizes, offsets in ((cuts, some), (others, more)):
        log = batches(rows(*values), sizes)
        found = compared(log, log, with_checksums=True, range_offsets=offsets).ranges
        first = found[0].source
        for each in found[1:]:
            first.join(each.source)
        whole.append((first.records, first.digest))
    assert whole[0] == whole[1]
    assert whole[0][0] == len(values)
