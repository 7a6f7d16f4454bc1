"""The reading of a partition by a source of a task: formats of records, and the extractor of their timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_cy.wire.record import Record as Input
from broker_streams.kernel.processor import Forward
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.records import Headers
from broker_streams.serdes import Serde


class ConsumedRecord(NamedTuple):
    """The record that a user's timestamp extractor sees."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


class InvalidTimestamp(Exception):
    """The extractor of a source ends the task."""


# (record, largest timestamp of the partition or -1) -> timestamp; a negative one skips the record.
Extract = Callable[[ConsumedRecord, int], int]


class Entry(NamedTuple):
    """`forward` takes each record. `refuse` takes the input that cannot be read, with topic and partition; `skip` is
    called for one with a negative timestamp.

    `extract` None: the timestamp of the input, which must not be negative.
    """

    node: str
    key: Serde
    value: Serde
    forward: Forward
    extract: Extract | None
    refuse: Callable[[str, int, Input, Exception], None]
    skip: Callable[[], None]


def extractor(kind: TimestampExtractor, now_ms: Callable[[], int]) -> Extract | None:
    """Kafka's own extractors. Return None for the default one."""
    match kind:
        case TimestampExtractor.FAIL_ON_INVALID:
            return None
        case TimestampExtractor.LOG_AND_SKIP_ON_INVALID:
            return lambda record, partition_time_ms: record.timestamp
        case TimestampExtractor.USE_PARTITION_TIME_ON_INVALID:
            return _or_partition_time
        case TimestampExtractor.WALL_CLOCK:
            return lambda record, partition_time_ms: now_ms()


def _or_partition_time(record: ConsumedRecord, partition_time_ms: int) -> int:
    if record.timestamp >= 0:
        return record.timestamp
    if partition_time_ms < 0:
        raise InvalidTimestamp("no record of the partition had a timestamp before")
    return partition_time_ms
