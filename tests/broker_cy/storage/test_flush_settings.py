"""flush.ms and log.flush.scheduler.interval.ms: when logs are flushed to disk, with a clock that the test advances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.settings import StorageSettings

from .batches import batch
from .managing import TOPIC_ID, Manager, open_manager

START_MS = 5_000_000
# Long before all times in this test.
QUIET: dict[str, Any] = {"checkpoint_interval_ms": 1 << 40, "retention_check_interval_ms": 1 << 40}


class Flushed:
    """A log with flush.ms = 1,000; `at` has the times at which its recovery point moved."""

    def __init__(self, path: Path, flush_check_interval_ms: int, flush_ms: int = 1_000) -> None:
        settings = StorageSettings(flush_check_interval_ms=flush_check_interval_ms, **QUIET)
        self.manager: Manager = open_manager(path, settings=settings, now_ms=START_MS)
        self.log: Log = self.manager.create("t", 0, TOPIC_ID, LogConfig(flush_ms=flush_ms), START_MS)
        self.at: list[int] = []
        self.now_ms = START_MS
        self.tick(START_MS)

    def tick(self, now_ms: int) -> None:
        before = self.log.recovery_point
        self.now_ms = now_ms
        self.manager.tick(now_ms, lambda topic, partition: self.log.written_end_offset)
        if self.log.recovery_point != before:
            assert self.log.recovery_point == self.log.written_end_offset
            self.at.append(now_ms - START_MS)

    def run(self, until_ms: int, appends: set[int], step_ms: int = 50) -> list[int]:
        """Tick every `step_ms`, with a record before the tick at each time in `appends`; returns the flush times."""
        while self.now_ms - START_MS < until_ms:
            now_ms = self.now_ms + step_ms
            if now_ms - START_MS in appends:
                self.log.append(batch(self.log.log_end_offset), now_ms)
            self.tick(now_ms)
        self.manager.crash()
        return self.at


def test_flush_ms_counts_from_the_last_flush(tmp_path: Path) -> None:
    """If this fails, the first record of a log is synced immediately, or a log with continuous writes is synced too
    often.
    """
    flushed = Flushed(tmp_path, 0)
    assert flushed.run(5_000, {200, 600, 1_050, 1_900, 4_000}) == [1_000, 2_000, 4_000]


def test_a_log_that_is_loaded_waits_for_flush_ms(tmp_path: Path) -> None:
    """If this fails, all logs are synced together after a crash, when the disk is busiest."""
    flushed = Flushed(tmp_path, 0)
    flushed.run(100, {50})
    manager = open_manager(
        tmp_path, settings=StorageSettings(**QUIET), config=LogConfig(flush_ms=1_000), now_ms=START_MS + 10_000
    )
    log = manager.logs["t", 0]
    assert (log.recovery_point, log.written_end_offset) == (0, 1)
    manager.flush_old(START_MS + 10_999)
    assert log.recovery_point == 0
    manager.flush_old(START_MS + 11_000)
    assert log.recovery_point == 1
    manager.crash()


@pytest.mark.parametrize(("interval_ms", "expected"), [(0, [100, 250, 400]), (200, [200, 400]), (1_000, [])])
def test_logs_are_looked_at_each_scheduler_interval(tmp_path: Path, interval_ms: int, expected: list[int]) -> None:
    """If this fails, log.flush.scheduler.interval.ms is accepted and has no effect."""
    flushed = Flushed(tmp_path, interval_ms, flush_ms=100)
    assert flushed.run(450, {50, 250, 400}) == expected


def test_nothing_is_flushed_without_flush_ms(tmp_path: Path) -> None:
    """If this fails, there is a sync each second, which makes the disk busy unnecessarily: Kafka's default leaves
    flushing to the kernel.
    """
    flushed = Flushed(tmp_path, 0, flush_ms=(1 << 63) - 1)
    assert flushed.run(100_000, {50, 5_000, 90_000}, step_ms=50) == []
