"""The topic settings that storage acts on, as C fields."""


cdef class LogConfig:
    """Settings of one log. Defaults are Kafka's; sizes in bytes, times in milliseconds."""

    def __init__(
        self,
        *,
        segment_bytes=1 << 30,
        segment_ms=604_800_000,
        segment_jitter_ms=0,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        file_delete_delay_ms=60_000,
        flush_messages=(1 << 63) - 1,
        flush_ms=(1 << 63) - 1,
        retention_bytes=-1,
        retention_ms=604_800_000,
        cleanup_policy=("delete",),
        min_cleanable_dirty_ratio=0.5,
        min_compaction_lag_ms=0,
        max_compaction_lag_ms=(1 << 63) - 1,
        delete_retention_ms=86_400_000,
    ):
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.segment_jitter_ms = segment_jitter_ms
        self.segment_index_bytes = segment_index_bytes
        self.index_interval_bytes = index_interval_bytes
        self.file_delete_delay_ms = file_delete_delay_ms
        self.flush_messages = flush_messages
        self.flush_ms = flush_ms
        self.retention_bytes = retention_bytes
        self.retention_ms = retention_ms
        self.compact = "compact" in cleanup_policy
        self.delete = "delete" in cleanup_policy
        self.min_cleanable_dirty_ratio = min_cleanable_dirty_ratio
        self.min_compaction_lag_ms = min_compaction_lag_ms
        self.max_compaction_lag_ms = max_compaction_lag_ms
        self.delete_retention_ms = delete_retention_ms
        if self.compact and max_compaction_lag_ms > 0:
            # The active segment cannot be cleaned, so it has to roll in time.
            self.segment_ms = min(self.segment_ms, max_compaction_lag_ms)

    @staticmethod
    def from_settings(settings):
        """A LogConfig from a mapping of Kafka's topic setting names to typed values (`config.TopicSettings`, or a dict of some)."""
        names = {
            "segment.bytes": "segment_bytes",
            "segment.ms": "segment_ms",
            "segment.jitter.ms": "segment_jitter_ms",
            "segment.index.bytes": "segment_index_bytes",
            "index.interval.bytes": "index_interval_bytes",
            "file.delete.delay.ms": "file_delete_delay_ms",
            "flush.messages": "flush_messages",
            "flush.ms": "flush_ms",
            "retention.bytes": "retention_bytes",
            "retention.ms": "retention_ms",
            "cleanup.policy": "cleanup_policy",
            "min.cleanable.dirty.ratio": "min_cleanable_dirty_ratio",
            "min.compaction.lag.ms": "min_compaction_lag_ms",
            "max.compaction.lag.ms": "max_compaction_lag_ms",
            "delete.retention.ms": "delete_retention_ms",
        }
        found = {}
        for name, field in names.items():
            try:
                found[field] = settings[name]
            except KeyError:
                continue
        return LogConfig(**found)
