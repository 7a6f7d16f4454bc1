"""Sorting of long tables in turns, so that other tasks of the loop run meanwhile.

Rows are sorted in chunks, and the chunks are merged only as far as the window reaches: the first block of 200,000 rows
takes little longer than reading them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from broker_cy.client.turns import Turns

Row = TypeVar("Row")

# Rows that are sorted in one go: about 1 ms.
CHUNK_ROWS = 1_000
# Merged rows after which other tasks may run.
_MERGED_A_TURN = 200


class _Sorted(NamedTuple, Generic[Row]):
    """A row with its value and id."""

    value: Any
    row_id: str
    row: Row


_VALUE = itemgetter(0)
_ID = itemgetter(1)


def _rising(each: _Sorted[Any]) -> tuple[Any, str]:
    return each.value, each.row_id


class _Falling:
    """A value in descending order, with the id of its row in ascending order."""

    __slots__ = ("row_id", "value")

    def __init__(self, each: _Sorted[Any]) -> None:
        self.value = each.value
        self.row_id = each.row_id

    def __lt__(self, other: _Falling) -> bool:
        if other.value < self.value:
            return True
        return not self.value < other.value and self.row_id < other.row_id


async def window_of(
    rows: Sequence[Row],
    value: Callable[[Row], Any],
    row_id: Callable[[Row], str],
    *,
    is_descending: bool,
    first: int,
    count: int,
) -> list[Row]:
    """Return `count` rows from number `first` on, in the order of `value`, and by id if values are equal.

    Rows whose value is None are last in either direction.
    """
    turns = Turns()
    known: list[list[_Sorted[Row]]] = []
    unknown: list[list[_Sorted[Row]]] = []
    end = first + count
    size = 0
    for start in range(0, len(rows), CHUNK_ROWS):
        chunk = [_Sorted(value(row), row_id(row), row) for row in rows[start : start + CHUNK_ROWS]]
        chunk.sort(key=_ID)
        lack = [each for each in chunk if each.value is None]
        have = [each for each in chunk if each.value is not None]
        # The sort is stable: ids stay in ascending order if values are equal.
        have.sort(key=_VALUE, reverse=is_descending)
        size += len(have)
        # Later rows of a chunk have at least `end` rows before them.
        known.append(have[:end])
        unknown.append(lack[:end])
        await turns.pause()
    order = _Falling if is_descending else _rising
    found = await _part(known, order, first, min(end, size), turns)
    return found + await _part(unknown, _ID, max(0, first - size), end - size, turns)


async def _part(
    chunks: Iterable[list[_Sorted[Row]]], order: Callable[[Any], Any], first: int, end: int, turns: Turns
) -> list[Row]:
    """Merge sorted chunks up to row `end`, and return the rows from `first` on."""
    found: list[Row] = []
    if first >= end:
        return found
    for number, each in enumerate(heapq.merge(*chunks, key=order)):
        if number >= end:
            break
        if number >= first:
            found.append(each.row)
        if number % _MERGED_A_TURN == 0:
            await turns.pause()
    return found
