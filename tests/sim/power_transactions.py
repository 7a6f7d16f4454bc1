"""The view that consumers with isolation.level=read_committed must have of a log after a start: the records of
committed transactions, no records of aborted ones, and nothing from the first undecided one on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log


@dataclass(frozen=True)
class TransactionPart:
    """The part that a batch has in a producer's transaction that began at `first_offset`: data, or the end marker."""

    producer_id: int
    first_offset: int
    is_marker: bool = False
    is_commit: bool = False


# (base offset, last offset, part of a transaction)
Written = tuple[int, int, TransactionPart | None]


def check(name: str, log: Log, high_watermark: int, written: Iterable[Written]) -> None:
    """Compare the last stable offset and the aborted transactions of the log with the batches that were written to
    it.
    """
    start, end = log.log_start_offset, log.log_end_offset
    there = [each for each in written if start <= each[1] and each[0] < end]
    undecided = _undecided(there)
    stable = max(log.last_stable_offset(high_watermark), start)
    # An undecided transaction whose records were deleted may still count, or be forgotten with them.
    latest = min([end, *(max(base, start) for base, _ in undecided.values())])
    earliest = start if start > 0 else min([end, *(first for _, first in undecided.values())])
    assert earliest <= stable <= latest, f"{name}: the last stable offset is {stable}, expected {earliest} to {latest}"
    if start == stable:
        return
    try:
        aborted = log.aborted_transactions(start, stable)
    except StorageError as error:
        raise AssertionError(f"{name}: {error}") from error
    seen = _seen_by_consumer([each for each in there if each[0] < stable], aborted)
    expected = [base for base in _committed(there) if base < stable]
    assert seen == expected, f"{name}: read_committed sees {seen}, expected {expected}; aborted: {aborted}"


def _undecided(there: list[Written]) -> dict[int, tuple[int, int]]:
    """By producer id, of a transaction without a marker: the offset of its first batch that exists in the log, and the
    first offset that it ever had.
    """
    found: dict[int, tuple[int, int]] = {}
    for base, _, part in there:
        if part is None:
            continue
        if part.is_marker:
            found.pop(part.producer_id, None)
        else:
            found.setdefault(part.producer_id, (base, part.first_offset))
    return found


def _committed(there: list[Written]) -> list[int]:
    """Base offsets of the batches that do not belong to an aborted transaction."""
    aborted: set[int] = set()
    kept: list[int] = []
    # From the end, so that a marker comes before the data of its transaction.
    for base, _, part in reversed(there):
        if part is None:
            kept.append(base)
        elif part.is_marker:
            (aborted.discard if part.is_commit else aborted.add)(part.producer_id)
        elif part.producer_id not in aborted:
            kept.append(base)
    return kept[::-1]


def _seen_by_consumer(there: list[Written], aborted: list[tuple[int, int]]) -> list[int]:
    """The result of a fetch in Kafka's consumer: base offsets of the batches that it returns to the application."""
    to_come = sorted(aborted, key=lambda entry: entry[1])
    skipped: set[int] = set()
    kept: list[int] = []
    for base, last, part in there:
        while to_come and to_come[0][1] <= last:
            skipped.add(to_come.pop(0)[0])
        if part is None:
            kept.append(base)
        elif part.is_marker:
            if not part.is_commit:
                skipped.discard(part.producer_id)
        elif part.producer_id not in skipped:
            kept.append(base)
    return kept
