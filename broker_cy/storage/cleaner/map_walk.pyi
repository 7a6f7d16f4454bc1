from collections.abc import Callable

from broker_cy.storage.cleaner.source import BatchSource
from broker_cy.storage.cleaner.transactions import CleanedTransactions
from broker_cy.storage.cleaner.offset_map import OffsetMap

def map_keys(
    source: BatchSource,
    offsets: OffsetMap,
    start_offset: int,
    transactions: CleanedTransactions,
    pause: Callable[[int], None],
    pause_bytes: int,
) -> bool: ...
