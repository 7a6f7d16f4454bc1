"""The state of a mirror before its promotion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker_cy.admin.mirror_links import MirrorTopic
from broker_mirror.promotion.linked import Ends, PromotionRow, row_of, wait_until_copied

MIRROR = MirrorTopic("orders", "east", "orders", None, 2)
FIRST, SECOND = MIRROR.keys


def test_a_topic_is_complete_if_all_was_copied_and_no_transaction_is_open() -> None:
    """If this fails, a planned failover loses the last records, or cuts a transaction in two."""
    whole = Ends(10, 10, 10)
    row = row_of(MIRROR, {FIRST: whole, SECOND: whole})
    assert (row.lag, row.waiting, row.open, row.is_complete) == (0, 0, 0, True)
    row = row_of(MIRROR, {FIRST: whole, SECOND: Ends(30, 10, 10)})
    assert (row.lag, row.waiting, row.is_complete) == (20, 1, False)
    row = row_of(MIRROR, {FIRST: Ends(10, 10, 7), SECOND: whole})
    assert (row.lag, row.open, row.is_complete) == (0, 1, False)
    row = row_of(MIRROR, {FIRST: whole, SECOND: whole}, 3)
    assert (row.problem, row.is_complete) == ("its source has 3 partitions", False)


def test_a_source_without_an_answer_is_not_complete() -> None:
    """If this fails, a mirror is promoted as complete while its source cannot be asked."""
    row = row_of(MIRROR, {FIRST: Ends(10, 10, 10), SECOND: Ends(None, 10, 10)})
    assert (row.lag, row.waiting, row.is_complete) == (None, None, False)


def waited(ends_of_looks: list[int], timeout_s: float) -> tuple[list[PromotionRow], int]:
    """Wait for a copy that has reached the end of its source at each look; the last end stays. Returns the rows, and
    how often they were shown.
    """
    ends = iter(ends_of_looks)
    shown: list[Sequence[PromotionRow]] = []
    end = 0

    async def look() -> tuple[list[PromotionRow], Sequence[int | None]]:
        nonlocal end
        end = next(ends, end)
        whole = Ends(end, end, end)
        return [row_of(MIRROR, {FIRST: whole, SECOND: whole})], [end, end]

    rows = asyncio.run(wait_until_copied(look, 0.0, timeout_s, shown.append))
    return rows, len(shown)


def test_a_source_that_still_grows_is_waited_for() -> None:
    """If this fails, records that a producer writes during a planned failover stay only in the source."""
    rows, looks = waited([10, 20, 30, 30], 60.0)
    assert (rows[0].is_complete, looks) == (True, 4)
    # Without time for a second look, it is not known whether the source grows.
    rows, looks = waited([10], 0.0)
    assert (rows[0].waiting, rows[0].is_complete, looks) == (1, False, 1)
