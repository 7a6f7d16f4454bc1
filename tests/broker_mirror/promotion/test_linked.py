"""The state of a mirror before its promotion."""

from __future__ import annotations

from broker_cy.admin.mirror_links import MirrorTopic
from broker_mirror.promotion.linked import Ends, row_of

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
