"""The union of state batches: each rule, and against an obvious twin that looks at every offset."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from broker_cy.coordinator.share_state.batches import combine, cut
from broker_cy.coordinator.share_state.state import NO_START_OFFSET, StateBatch

Batches = list[tuple[int, int, int, int]]


def offset_by_offset(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The twin: the highest delivery count, then state, of each offset."""
    best: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            if start_offset == NO_START_OFFSET or offset >= start_offset:
                best[offset] = max(best.get(offset, (-1, -1)), batch[2:])
    found: list[StateBatch] = []
    for offset, value in sorted(best.items()):
        if found and found[-1].last_offset == offset - 1 and found[-1][2:] == value:
            found[-1] = found[-1]._replace(last_offset=offset)
        else:
            found.append(StateBatch(offset, offset, *value))
    return tuple(found)


@pytest.mark.parametrize(
    ("so_far", "new", "start_offset", "expected"),
    [
        pytest.param([], [(5, 9, 1, 0)], -1, [(5, 9, 1, 0)], id="a first batch"),
        pytest.param([(0, 9, 1, 0)], [(3, 5, 2, 0)], -1, [(0, 2, 1, 0), (3, 5, 2, 0), (6, 9, 1, 0)], id="a part"),
        pytest.param([(0, 9, 2, 0)], [(3, 5, 1, 4)], -1, [(0, 9, 2, 0)], id="an older attempt changes nothing"),
        pytest.param([(0, 9, 1, 0)], [(0, 9, 1, 2)], -1, [(0, 9, 1, 2)], id="the later state of one attempt"),
        pytest.param([(0, 4, 1, 2)], [(5, 9, 1, 2)], -1, [(0, 9, 1, 2)], id="equal neighbours become one"),
        pytest.param([(0, 4, 1, 2)], [(6, 9, 1, 2)], -1, [(0, 4, 1, 2), (6, 9, 1, 2)], id="a gap stays"),
        pytest.param([(0, 4, 1, 2), (6, 9, 1, 2)], [(5, 5, 1, 2)], -1, [(0, 9, 1, 2)], id="a gap is filled"),
        pytest.param([(0, 9, 1, 0)], [(20, 29, 1, 0)], 5, [(5, 9, 1, 0), (20, 29, 1, 0)], id="cut at the start"),
        pytest.param([(0, 9, 1, 0)], [(3, 12, 2, 0)], 10, [(10, 12, 2, 0)], id="below the start nothing is left"),
        pytest.param([(0, 9, 1, 0)], [(0, 3, 2, 0)], 30, [], id="everything is finished"),
        pytest.param([], [(0, 9, 1, 0), (5, 14, 1, 2)], -1, [(0, 4, 1, 0), (5, 14, 1, 2)], id="new ones overlap"),
        pytest.param([], [(0, 4, 2, 0), (5, 6, 1, 0), (5, 9, 2, 0)], -1, [(0, 9, 2, 0)], id="Kafka leaves these apart"),
    ],
)
def test_a_write_changes_the_batches(so_far: Batches, new: Batches, start_offset: int, expected: Batches) -> None:
    """If this fails, a share group gets records again that it has finished, or loses the count of their deliveries."""
    known = tuple(StateBatch(*batch) for batch in so_far)
    assert combine(known, [StateBatch(*batch) for batch in new], start_offset) == tuple(expected)


def drawn(rng: random.Random, count: int, span: int) -> list[StateBatch]:
    found = []
    for _ in range(count):
        first = rng.randrange(span)
        found.append(StateBatch(first, first + rng.randrange(12), rng.randrange(3), rng.choice([0, 2, 4])))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_union_is_that_of_each_offset(seed: int) -> None:
    """If this fails, some sequence of acknowledgements leaves other batches than those of the newest attempts."""
    rng = random.Random(seed)
    known: tuple[StateBatch, ...] = ()
    span = rng.choice([20, 100])
    for _ in range(60):
        new = drawn(rng, rng.randrange(5), span)
        start_offset = rng.choice([NO_START_OFFSET, rng.randrange(span)])
        before, known = known, combine(known, new, start_offset)
        assert known == offset_by_offset([*before, *new], start_offset), (before, new, start_offset)


def test_cut_keeps_what_begins_at_the_offset() -> None:
    """If this fails, the state of the first unfinished record is lost when the start offset moves to it."""
    batches = (StateBatch(0, 4, 1, 2), StateBatch(5, 9, 1, 0))
    assert cut(batches, 5) == batches[1:]
    assert cut(batches, 10) == ()
    assert cut((), 3) == ()
