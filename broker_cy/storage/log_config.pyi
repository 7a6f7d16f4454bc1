from collections.abc import Collection, Mapping
from typing import Any

class LogConfig:
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    compact: bool
    delete: bool
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    def __init__(
        self,
        *,
        segment_bytes: int = ...,
        segment_ms: int = ...,
        segment_jitter_ms: int = ...,
        segment_index_bytes: int = ...,
        index_interval_bytes: int = ...,
        file_delete_delay_ms: int = ...,
        flush_messages: int = ...,
        flush_ms: int = ...,
        retention_bytes: int = ...,
        retention_ms: int = ...,
        cleanup_policy: Collection[str] = ...,
        min_cleanable_dirty_ratio: float = ...,
        min_compaction_lag_ms: int = ...,
        max_compaction_lag_ms: int = ...,
        delete_retention_ms: int = ...,
    ) -> None: ...
    @staticmethod
    def from_settings(settings: Mapping[str, Any]) -> LogConfig: ...
