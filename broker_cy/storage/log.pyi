from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_slice import LogSlice, LogTotals
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.segment import OpenFiles, Segment
from broker_cy.storage.syncs import LogSyncs
from typing_extensions import Buffer

class Log:
    directory: str
    topic: str
    partition: int
    config: LogConfig
    segments: list[Segment]
    active: Segment
    log_start_offset: int
    log_end_offset: int
    written_end_offset: int
    recovery_point: int
    synced_end_offset: int
    leader_epoch: int
    producers: ProducerState
    epochs: LeaderEpochs
    offline: str | None
    closed: bool
    unflushed_bytes: int
    written_point: int
    unnoted_bytes: int
    last_append_ms: int
    last_flush_ms: int
    syncs: LogSyncs
    sync_failed: bool
    generation: int
    staged_batches: int
    def __init__(
        self,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        producers: ProducerState,
        epochs: LeaderEpochs,
        open_files: OpenFiles,
        totals: LogTotals,
    ) -> None: ...
    @staticmethod
    def create(
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        now_ms: int,
        open_files: OpenFiles | None = None,
        totals: LogTotals | None = None,
        start_offset: int = 0,
    ) -> Log: ...
    def adopt(self, open_files: OpenFiles, totals: LogTotals) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    def stage_batches(self, data: Buffer, now_ms: int) -> None: ...
    def append(self, data: Buffer, now_ms: int) -> int: ...
    def flush(self) -> None: ...
    def end_of(self, segment: Segment) -> int: ...
    def read_slice(
        self, offset: int, max_offset: int | None = None, max_bytes: int = ..., at_least_one: bool = True
    ) -> LogSlice | None: ...
    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None: ...
    def max_timestamp(self) -> tuple[int, int] | None: ...
    def aborted_transactions(self, offset: int, end_offset: int) -> list[tuple[int, int]]: ...
    def last_stable_offset(self, high_watermark: int) -> int: ...
    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...
    def mark_offline(self, reason: str, *, is_end: bool = False) -> None: ...
    def lose_disk(self, reason: str) -> None: ...
    def begin_segment(self, now_ms: int) -> None: ...
    def needs_flush(self, now_ms: int) -> bool: ...
    def reconfigure(self, config: LogConfig) -> None: ...
