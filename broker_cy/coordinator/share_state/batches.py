"""The union of state batches, as a newer write changes the batches of a share partition.

A list of batches is in order, without overlaps, and neighbours that touch differ. Each offset has the highest delivery
count that any batch gives it, and of these the highest delivery state. So a late write of an older attempt changes
nothing. Kafka's PersisterStateBatchCombiner has the same result, but leaves some equal neighbours apart.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from broker_cy.coordinator.share_state.state import NO_START_OFFSET, StateBatch


def combine(
    so_far: tuple[StateBatch, ...], new: Iterable[StateBatch], start_offset: int = NO_START_OFFSET
) -> tuple[StateBatch, ...]:
    """The union of `so_far`, which has the form above, and `new`, without the offsets below `start_offset` (-1: all
    offsets). No batch of `new` may be empty. The cost depends on `new`, and on the batches between its first and last
    offset.
    """
    added = sorted(new)
    if start_offset != NO_START_OFFSET:
        so_far = cut(so_far, start_offset)
        if added and added[0].first_offset < start_offset:
            added = [
                batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
                for batch in added
                if batch.last_offset >= start_offset
            ]
    if not added:
        return so_far
    if len(added) == 1 and (not so_far or so_far[-1].last_offset < added[0].first_offset):
        # Most writes: one range behind the others.
        found = list(so_far)
        _extend(found, added[0])
        return tuple(found)
    # Batches that touch the added ones may become one with them.
    begin = _first_from(so_far, added[0].first_offset - 1)
    last_offset = max(batch.last_offset for batch in added)
    end = bisect_left(so_far, (last_offset + 2,))
    if begin < end or not _is_union(added):
        added = _union([*so_far[begin:end], *added])
    return (*so_far[:begin], *added, *so_far[end:])


def cut(batches: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    """The batches without the offsets below `start_offset`."""
    if not batches or batches[0].first_offset >= start_offset:
        return batches
    kept = batches[_first_from(batches, start_offset) :]
    if kept and kept[0].first_offset < start_offset:
        return (kept[0]._replace(first_offset=start_offset), *kept[1:])
    return kept


def _first_from(batches: Sequence[StateBatch], offset: int) -> int:
    """The index of the first batch that has an offset of at least `offset`."""
    index = bisect_left(batches, (offset,))
    return index - 1 if index and batches[index - 1].last_offset >= offset else index


def _is_union(batches: list[StateBatch]) -> bool:
    """Whether batches in order have the form above."""
    return all(
        before.last_offset + 1 < after.first_offset
        or (before.last_offset < after.first_offset and before[2:] != after[2:])
        for before, after in pairwise(batches)
    )


def _union(batches: list[StateBatch]) -> list[StateBatch]:
    """The union of any batches: from each place where one begins or ends, the highest of those that cover it."""
    batches.sort()
    edges = sorted({batch.first_offset for batch in batches} | {batch.last_offset + 1 for batch in batches})
    found: list[StateBatch] = []
    # Those that have begun: the highest first; the ended ones are removed when they come up.
    covering: list[tuple[int, int, int]] = []
    at = 0
    for edge, next_edge in pairwise(edges):
        while at < len(batches) and batches[at].first_offset == edge:
            batch = batches[at]
            heapq.heappush(covering, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            at += 1
        while covering and covering[0][2] < edge:
            heapq.heappop(covering)
        if covering:
            _extend(found, StateBatch(edge, next_edge - 1, -covering[0][0], -covering[0][1]))
    return found


def _extend(found: list[StateBatch], batch: StateBatch) -> None:
    """Append a batch, or make the last one longer if the two touch and are equal."""
    if found and found[-1].last_offset + 1 == batch.first_offset and found[-1][2:] == batch[2:]:
        found[-1] = found[-1]._replace(last_offset=batch.last_offset)
    else:
        found.append(batch)
