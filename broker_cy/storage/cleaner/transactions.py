"""The data of aborted transactions, and the markers whose data is gone, as the cleaner reads a log
from its start (what Kafka calls CleanedTransactionMetadata).

The caller reports each batch before it processes it, in order of offsets. `kept` collects the entries that the
transaction index of the cleaned segment needs: those of aborted transactions that still had data to remove. The marker
of such a transaction stays for readers that are in the middle of it, until a later pass finds it without data.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from broker_cy.storage.txn_index import AbortedTransaction

# Types of control records (wire.control.ControlType).
ABORT, COMMIT = 0, 1


class CleanedTransactions:
    """Tracks the transactions of one log. `aborted` are the aborted transactions of the whole log, in any order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = [(entry[1], entry) for entry in set(aborted)]
        heapq.heapify(self._to_come)
        # By producer id: its current aborted transaction, and whether a batch of that transaction was read.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0][0] <= offset:
            entry = heapq.heappop(self._to_come)[1]
            self._aborted.setdefault(entry[0], (entry, False))

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Note that a transactional batch is read; return whether its transaction was aborted."""
        self._begin_up_to(last_offset)
        found = self._aborted.get(producer_id)
        if found is None:
            self._committed.add(producer_id)
            return False
        self._aborted[producer_id] = (found[0], True)
        return True

    def on_marker(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Note that a control batch is read, with a record of type `kind` (None: an empty batch). Return whether its
        transaction has no data left, so that the marker may be removed in time.
        """
        self._begin_up_to(last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            found = self._aborted.pop(producer_id, None)
            if found is None or not found[1]:
                return True
            self.kept.append(found[0])
            return False
        if kind == COMMIT:
            was_open = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_open
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the entries added to `kept` since the last call: those of the segment that was just completed."""
        kept, self.kept = self.kept, []
        return kept
