"""Compacted topics: the last record of each key counts."""

from __future__ import annotations

import pytest

from broker_mirror.proof.keys import LastOfKeys, TooManyKeys, differences
from broker_mirror.proof.ranges import Extent, Window
from tests.broker_mirror.proof.logs import Row, batches, damaged


def of(key: str, value: str | None) -> Row:
    return Row(None if value is None else value.encode(), key.encode())


def compared(
    source: list[Row], target: list[Row], reached: int = 100, window: Window | None = None
) -> tuple[list[tuple[str, int | None, int | None]], int, int]:
    sides = []
    for rows in (source, target):
        last = LastOfKeys(Extent(0, 100))
        for batch in batches(rows):
            last.add(batch)
        sides.append(last)
    found, equal, behind = differences(window or Window(Extent(0, 100), Extent(0, 100), reached), *sides)
    return [(each.reason.value, each.source_offset, each.target_offset) for each in found], equal, behind


LOG = [of("a", "1"), of("b", "1"), of("a", "2"), of("c", "1"), of("b", None)]


def test_a_side_that_is_compacted_further_is_equal() -> None:
    """Each cluster compacts at its own time."""
    assert compared(LOG, [of("a", "2"), of("c", "1")]) == ([], 3, 0)


def test_an_older_value_in_the_target_is_a_difference() -> None:
    """The last record of the key was lost."""
    assert compared(LOG, LOG[:2] + LOG[3:])[0] == [("other content", 2, 0)]


def test_a_lost_key_is_a_difference() -> None:
    """The table in the target would lack a row."""
    assert compared(LOG, [of("a", "2")])[0] == [("missing", 3, None)]


def test_a_lost_deletion_is_a_difference() -> None:
    """The table in the target would keep a row that was deleted."""
    assert compared(LOG, LOG[:4])[0] == [("other content", 4, 1)]
    assert compared([of("a", "1")], [of("a", "1"), of("b", "1")])[0] == [("added", None, 1)]


def test_a_key_that_changes_meanwhile_is_behind() -> None:
    """A flow that runs is always a little behind."""
    assert compared(LOG, LOG[:2], reached=2) == ([], 0, 3)


def test_keys_that_retention_removed_are_not_missing() -> None:
    """cleanup.policy=compact,delete removes old keys on each side by itself."""
    removed = Window(Extent(0, 100), Extent(0, 100), 100, 0, 5)
    assert compared(LOG, [of("a", "2")], window=removed)[0] == []


def test_a_damaged_batch_is_named() -> None:
    """A broken disk must not look like a mirror that loses records."""
    last = LastOfKeys(Extent(0, 9))
    last.add(damaged(batches(LOG)[0]))
    assert [offset for offset, _ in last.damage] == [0]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_passes_take_each_key_once(parts: int) -> None:
    """Many keys are compared in passes, so that memory is bounded."""
    rows = [of(str(each), "1") for each in range(50)]
    found = []
    for part in range(parts):
        last = LastOfKeys(Extent(0, 100), part, parts)
        for batch in batches(rows):
            last.add(batch)
        found += list(last.last)
    assert len(found) == len(set(found)) == 50


def test_too_many_keys_end_a_pass() -> None:
    """Without the bound, a topic with many keys would take all memory."""
    last = LastOfKeys(Extent(0, 100), keys_max=10)
    (batch,) = batches([of(str(each), "1") for each in range(50)], [50])
    with pytest.raises(TooManyKeys):
        last.add(batch)
