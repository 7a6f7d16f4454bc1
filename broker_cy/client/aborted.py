"""The batches of a Fetch answer that belong to aborted transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.wire import messages
from broker_cy.wire.records import Batch


class AbortedTransactions:
    """The aborted transactions that an answer of read_committed lists; ask about its batches in their order.

    A transaction's batches are those of its producer from the first offset to its abort marker.
    """

    def __init__(self, transactions: Iterable[messages.FetchResponse.AbortedTransaction]) -> None:
        self._coming = sorted(
            ((each.first_offset, each.producer_id) for each in transactions), key=lambda pair: pair[0], reverse=True
        )
        self._active: set[int] = set()

    def hides(self, batch: Batch) -> bool:
        """Return whether read_committed leaves this batch out; the marker that ends the transaction is part of it."""
        while self._coming and self._coming[-1][0] <= batch.last_offset:
            self._active.add(self._coming.pop()[1])
        if not batch.is_transactional or batch.producer_id not in self._active:
            return False
        if batch.is_control:
            # An aborted transaction ends with an abort marker; later records of the producer belong to the next one.
            self._active.discard(batch.producer_id)
        return True
