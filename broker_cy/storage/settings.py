"""The broker settings that the log manager needs."""

from __future__ import annotations

from broker_cy.core.classes import dataclass
from broker_cy.storage.flusher import FLUSH_BYTES, NOTE_BYTES
from broker_cy.storage.log_opener import THREADS_PER_DIRECTORY
from broker_cy.storage.placement import PlacementRule


@dataclass(slots=True, frozen=True)
class StorageSettings:
    """Broker settings that storage acts on; Kafka's names with units."""

    open_files_max: int = 4096
    checkpoint_interval_ms: int = 60_000
    start_offset_checkpoint_interval_ms: int = 60_000
    # 0: on each tick.
    flush_check_interval_ms: int = 0
    retention_check_interval_ms: int = 300_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    flush_bytes: int = FLUSH_BYTES
    note_bytes: int = NOTE_BYTES
    # Logs that are opened, and recovered, at the same time in each data directory.
    recovery_threads: int = THREADS_PER_DIRECTORY
    placement: PlacementRule = PlacementRule.SPACE
    kept_whole: frozenset[str] = frozenset()
    """Topics whose damaged logs are taken offline instead of being truncated: see LoadContext."""
