from collections.abc import Callable, Mapping, Sequence

from broker_cy.storage.cleaner.output import CleanedOutput
from broker_cy.storage.cleaner.source import BatchSource
from broker_cy.storage.cleaner.transactions import CleanedTransactions
from broker_cy.storage.cleaner.offset_map import OffsetMap

class CleanWalk(CleanedOutput):
    records_read: int
    records_kept: int
    records_without_key: int
    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        base_offset: int,
        *,
        now_ms: int,
        delete_retention_ms: int,
        upper_offset: int,
        kept_offsets: Sequence[int],
        bare_producers: Mapping[int, int],
        buffer_bytes: int,
        index_interval_bytes: int,
        index_bytes_max: int,
        write: Callable[[memoryview, int], None],
    ) -> None: ...
    def clean(self, source: BatchSource, pause: Callable[[int], None], pause_bytes: int) -> None: ...
