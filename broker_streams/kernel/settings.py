"""The settings that a task needs, as values. Hosts read them from the application's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from broker_streams.kernel.errors import Handler, log_and_fail
from broker_streams.plan.functions import Function
from broker_streams.plan.timestamps import TimestampExtractor


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Defaults are Kafka's; the names of the settings are Kafka's with another spelling."""

    application_id: str
    # default.key.serde, default.value.serde: for sources, sinks and stores without serdes of their own.
    key_serde: Any = None
    value_serde: Any = None
    # default.timestamp.extractor
    timestamp_extractor: TimestampExtractor | Function = TimestampExtractor.FAIL_ON_INVALID
    # deserialization.exception.handler, production.exception.handler, processing.exception.handler
    deserialization_handler: Handler = log_and_fail
    production_handler: Handler = log_and_fail
    processing_handler: Handler = log_and_fail
    # processing.exception.handler.global.enabled
    global_processing_handler: bool = False
    # errors.dead.letter.queue.topic.name
    dead_letter_topic: str | None = None
    # max.task.idle.ms; -1: process without waiting.
    max_task_idle_ms: int = 0
    # statestore.cache.max.bytes, for all stores of one task.
    cache_bytes: int = 10 * 1024 * 1024
    # Joins and windows look for results that became final at most this often (Kafka's internal settings).
    emit_interval_ms: int = 1000
