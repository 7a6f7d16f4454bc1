from collections.abc import Callable

from broker_cy.storage.cleaner_source import BatchSource
from broker_cy.storage.cleaner_transactions import CleanedTransactions
from broker_cy.storage.offset_map import OffsetMap

def map_keys(
    source: BatchSource,
    offsets: OffsetMap,
    start_offset: int,
    transactions: CleanedTransactions,
    pause: Callable[[int], None],
    pause_bytes: int,
) -> bool: ...
