"""Timestamps of records, as Kafka's own extractors choose them.

A source may name one of these in place of a function `(record, partition_time_ms) -> timestamp`.
"""

from __future__ import annotations

import enum


class TimestampExtractor(enum.Enum):
    """The values are the class names of Kafka's extractors, as `default.timestamp.extractor` has them."""

    # The timestamp of the record; a negative one ends the task.
    FAIL_ON_INVALID = "FailOnInvalidTimestamp"
    # As above, but the record is skipped.
    LOG_AND_SKIP_ON_INVALID = "LogAndSkipOnInvalidTimestamp"
    # As above, but the record gets the largest timestamp that its partition had; without one the task ends.
    USE_PARTITION_TIME_ON_INVALID = "UsePartitionTimeOnInvalidTimestamp"
    # The clock of the host.
    WALL_CLOCK = "WallclockTimestampExtractor"
