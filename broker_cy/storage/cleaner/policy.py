"""The choice of the log to clean next, as a pure state machine: its inputs are the state of the logs and the time, its
output is a choice (Kafka's LogCleanerManager).

A partition is idle, being cleaned, or uncleanable: a cleaning failed, and the next one would fail for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.storage.checkpoints import TopicPartition

NEVER_MS = 2**63 - 1


class LogView(Protocol):
    """The properties of a log that the choice depends on. Timestamps are in ms, -1 if there is none."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    # (base offset, bytes) of the segments; the last one is active.
    segments: list[tuple[int, int]]
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int

    def largest_timestamp(self, number: int) -> int:
        """Largest timestamp of segment `number`."""

    def first_timestamp(self, number: int) -> int:
        """Largest timestamp of the first batch of segment `number`."""


class Choice(NamedTuple):
    """A log to clean: records from `first_dirty_offset` on have not been cleaned yet; no segment from
    `first_uncleanable_offset` on is touched.
    """

    key: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    dirty_ratio: float


def _segment_at(log: LogView, offset: int) -> int:
    """Number of the segment that contains `offset`."""
    number = len(log.segments) - 1
    while number > 0 and log.segments[number][0] > offset:
        number -= 1
    return number


def first_uncleanable_offset(log: LogView, dirty_offset: int, now_ms: int) -> int:
    """Base offset of the first segment that must stay unchanged: the active one, one with an undecided transaction, or
    one that is younger than min.compaction.lag.ms.
    """
    active = len(log.segments) - 1
    bound = min(log.last_stable_offset, log.segments[active][0])
    if log.min_compaction_lag_ms > 0:
        for number in range(_segment_at(log, dirty_offset), active):
            if log.largest_timestamp(number) > now_ms - log.min_compaction_lag_ms:
                bound = min(bound, log.segments[number][0])
                break
    bound = max(bound, dirty_offset)
    return log.segments[min(_segment_at(log, bound), active)][0]


def overdue_ms(log: LogView, dirty_offset: int, now_ms: int) -> int:
    """Time in ms by which the oldest record not yet cleaned exceeds max.compaction.lag.ms; 0 if it does not."""
    if log.max_compaction_lag_ms >= NEVER_MS:
        return 0
    numbers = range(_segment_at(log, dirty_offset), len(log.segments) - 1)
    earliest = min((first for number in numbers if (first := log.first_timestamp(number)) > 0), default=NEVER_MS)
    return max(0, now_ms - log.max_compaction_lag_ms - earliest)


def examine(key: TopicPartition, log: LogView, cleaned_offset: int | None, now_ms: int) -> Choice | None:
    """A Choice if this log is dirty enough, or has waited too long; else None. `cleaned_offset` is within the log, or
    None if the log was never cleaned.
    """
    dirty_offset = log.log_start_offset if cleaned_offset is None else cleaned_offset
    uncleanable = first_uncleanable_offset(log, dirty_offset, now_ms)
    clean_bytes = sum(size for base, size in log.segments if base < min(dirty_offset, uncleanable))
    first = _segment_at(log, min(dirty_offset, uncleanable))
    dirty_bytes = sum(size for base, size in log.segments[first:] if base < uncleanable)
    # A segment that was cleaned up to its middle counts as clean and as dirty, as in Kafka.
    total = clean_bytes + dirty_bytes
    if total == 0 or uncleanable <= dirty_offset:
        return None
    ratio = dirty_bytes / total
    if ratio > log.min_cleanable_dirty_ratio or (dirty_bytes > 0 and overdue_ms(log, dirty_offset, now_ms) > 0):
        return Choice(key, dirty_offset, uncleanable, ratio)
    return None


class CleanerPolicy:
    """The states of all partitions."""

    def __init__(self, backoff_ms: int) -> None:
        self.backoff_ms = backoff_ms
        # The end offset of the clean part of each log.
        self.cleaned: dict[TopicPartition, int] = {}
        self.in_progress: set[TopicPartition] = set()
        self.uncleanable: set[TopicPartition] = set()
        self._next_look_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to look for a log to clean."""
        return now_ms >= self._next_look_ms

    def look_again(self, now_ms: int) -> None:
        """Look for a log immediately: a cleaning succeeded, and more logs may need one."""
        self._next_look_ms = now_ms

    def back_off(self, now_ms: int) -> None:
        """Wait before the next search: there was nothing to clean, or a cleaning failed."""
        self._next_look_ms = now_ms + self.backoff_ms

    def fit(self, key: TopicPartition, log_start_offset: int, log_end_offset: int) -> bool:
        """If the checkpoint of a log is outside of the log, move it to the log's start; return whether it was. Has to
        be called for every log each time: a log that ends before its checkpoint may grow beyond it, and the checkpoint
        would then seem to fit, although the records appended since were never cleaned.
        """
        if log_start_offset <= self.cleaned.get(key, log_start_offset) <= log_end_offset:
            return False
        self.cleaned[key] = log_start_offset
        return True

    def choose(self, logs: Iterable[tuple[TopicPartition, LogView]], now_ms: int) -> Choice | None:
        """Choose the dirtiest of `logs`, and mark it as in progress; None if none is dirty enough."""
        best: Choice | None = None
        for key, log in logs:
            if key in self.in_progress or key in self.uncleanable:
                continue
            found = examine(key, log, self.cleaned.get(key), now_ms)
            if found is not None and (best is None or found.dirty_ratio > best.dirty_ratio):
                best = found
        if best is not None:
            self.in_progress.add(best.key)
        return best

    def done(self, key: TopicPartition, end_offset: int | None) -> None:
        """Note the end of a cleaning: everything before `end_offset` is clean; None if it was aborted or failed."""
        self.in_progress.discard(key)
        if end_offset is not None:
            self.cleaned[key] = end_offset

    def mark_uncleanable(self, key: TopicPartition) -> None:
        """Leave this partition alone until the next start, or until it is created again."""
        self.uncleanable.add(key)

    def truncated(self, key: TopicPartition, offset: int) -> bool:
        """Note that a log was truncated to `offset`; return whether that changes the checkpoint."""
        if self.cleaned.get(key, 0) <= offset:
            return False
        self.cleaned[key] = offset
        return True

    def forget(self, key: TopicPartition) -> bool:
        """Forget a partition that no longer exists; return whether that changes the checkpoint."""
        self.uncleanable.discard(key)
        return self.cleaned.pop(key, None) is not None
