"""Deletion of old records: the work in one iteration of the loop, failures, and the time of each run."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.storage import disk, removal, retention
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, read_entries
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.errors import OffsetOutOfRange, StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.settings import StorageSettings

from .batches import batch, some_slice
from .managing import TOPIC_ID, ClockedJobs, HeldJobs, Manager, open_manager

DELAY_MS = 60_000


def many_segments(manager: Manager, count: int, topic: str = "t", **settings: Any) -> Log:
    """Make a log of `count` segments of one record each, and an empty active one."""
    config = LogConfig(file_delete_delay_ms=DELAY_MS, **settings)
    log = manager.create(topic, 0, TOPIC_ID, config, 0)
    for number in range(count):
        log.append(batch(number, timestamp=1_000), 1_000)
        log.begin_segment(1_000)
    return log


def test_thousands_of_segments_are_renamed_over_many_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one DeleteRecords, or a change of retention.ms, keeps every producer waiting while 50,000
    files are renamed.
    """
    jobs = ClockedJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    log = many_segments(manager, 1_000)
    renames = 0
    original = os.rename

    def counted(old: str, new: str) -> None:
        nonlocal renames
        renames += 1
        original(old, new)

    monkeypatch.setattr(os, "rename", counted)
    manager.delete_records_before(log, 990, 1_000)
    assert log.log_start_offset == 990
    with pytest.raises(OffsetOutOfRange):
        log.read_slice(989)
    assert some_slice(log, 990).first_offset == 990
    turns = [renames]
    while len(log.segments) > 11:
        assert jobs.pending, "the deletion stopped half-way"
        jobs.turn()
        turns.append(renames)
    per_turn = [after - before for before, after in zip([0, *turns], turns, strict=False)]
    assert max(per_turn) <= 5 * retention.SEGMENTS_PER_TURN
    assert len(turns) == -(-990 // retention.SEGMENTS_PER_TURN)
    jobs.advance(DELAY_MS - 1)
    assert len([name for name in os.listdir(log.directory) if name.endswith(".log.deleted")]) == 990
    jobs.advance(2 * DELAY_MS)
    assert not [name for name in os.listdir(log.directory) if name.endswith(".deleted")]
    manager.crash()


def test_the_segments_of_many_logs_share_the_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a start after a long pause, or a shorter retention.ms for all topics, blocks the event loop until
    the files of all partitions are renamed.
    """
    jobs = ClockedJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    logs = [many_segments(manager, 8, f"t{number}", retention_ms=5_000) for number in range(40)]
    renames = 0
    original = os.rename

    def counted(old: str, new: str) -> None:
        nonlocal renames
        renames += old.startswith(f"{tmp_path}/t") and new.endswith(".deleted")
        original(old, new)

    monkeypatch.setattr(os, "rename", counted)
    turns = 0
    manager.apply_retention(10_000, lambda topic, partition: 8)
    assert all(log.log_start_offset == 8 for log in logs), "the offset moves at once"
    while True:
        assert renames <= 5 * retention.SEGMENTS_PER_TURN
        renames = 0
        turns += 1
        if all(len(log.segments) == 1 for log in logs):
            break
        jobs.turn()
    assert turns == -(-40 * 8 // retention.SEGMENTS_PER_TURN)
    manager.crash()


def test_no_file_is_renamed_before_the_log_start_is_checkpointed(tmp_path: Path) -> None:
    """If this fails, a replica that loses its power right after a deletion drops records that were synced: the missing
    segments look like lost ones.
    """
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    logs = [many_segments(manager, 8, topic) for topic in ("a", "b")]

    def starts() -> list[int]:
        return [log.segments[0].base_offset for log in logs]

    while jobs.held:
        jobs.held.pop(0)()
    for log in logs:
        manager.delete_records_before(log, 3, 1_000)
    manager.apply_retention(1_000, lambda topic, partition: 8)
    jobs.run_due()
    assert starts() == [0, 0]
    # The first write began before the second log moved, and the first log moves again in the meantime.
    manager.delete_records_before(logs[0], 5, 1_000)
    jobs.held.pop(0)()
    assert read_entries(f"{tmp_path}/{LOG_START_OFFSETS}").offsets == {("a", 0): 3}
    assert starts() == [0, 0]
    while starts() != [5, 3]:
        assert jobs.held, "the deletion stopped half-way"
        jobs.held.pop(0)()
    assert read_entries(f"{tmp_path}/{LOG_START_OFFSETS}").offsets == {("a", 0): 5, ("b", 0): 3}
    manager.crash()


def test_removal_lets_other_work_of_the_workers_through(tmp_path: Path) -> None:
    """If this fails, flushes and checkpoints wait until the files of every deleted topic are removed."""
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    for topic in ("a", "b"):
        many_segments(manager, 300, topic)
    jobs.held.clear()
    for topic in ("a", "b"):
        manager.delete(topic, 0)
    jobs.run_due()
    parts = 0
    while jobs.held:
        assert len(jobs.held) == 1, "two directories take both workers"
        left = sum(len(os.listdir(path)) for path in tmp_path.glob("*-delete"))
        jobs.held.pop()()
        now = sum(len(os.listdir(path)) for path in tmp_path.glob("*-delete"))
        assert left - now <= removal.FILES_PER_JOB
        parts += 1
    assert parts >= 4
    assert not list(tmp_path.glob("*-delete"))
    manager.crash()


def test_a_file_that_cannot_be_renamed_stays_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, one failed rename loses segments that are still on the disk, or never frees the space of all
    others.
    """
    jobs = ClockedJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    log = many_segments(manager, 10, retention_ms=5_000)
    original = os.rename
    broken = f"{log.directory}/{3:020d}.log"

    def fail(old: str, new: str) -> None:
        if old == broken:
            raise OSError(errno.EIO, "Input/output error", old)
        original(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        manager.delete_records_before(log, 6, 1_000)
        jobs.advance(10)
        assert [segment.base_offset for segment in log.segments][:2] == [3, 4]
        manager.delete_records_before(log, 7, 1_000)
        assert log.segments[0].base_offset == 3
        assert "could not delete old segments; will retry" in caplog.messages
        assert log.log_start_offset == 7
        assert some_slice(log, 7).first_offset == 7
    manager.apply_retention(1_000, lambda topic, partition: 10)
    assert log.segments[0].base_offset == 7
    manager.crash()


def test_a_file_that_cannot_be_removed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, one file with wrong permissions fills the disk: everything that is deleted after it remains."""
    jobs = ClockedJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    log = many_segments(manager, 10)
    manager.delete_records_before(log, 10, 1_000)
    stuck = sorted(Path(log.directory).glob("*.log.deleted"))[3]
    original = os.unlink

    def fail(path: str) -> None:
        if path == str(stuck):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        original(path)

    monkeypatch.setattr(os, "unlink", fail)
    jobs.advance(2 * DELAY_MS)
    assert [name for name in os.listdir(log.directory) if name.endswith(".deleted")] == [stuck.name]
    assert [record.message for record in caplog.records] == ["background work failed"]
    manager.crash()


def test_the_first_check_comes_soon_and_then_at_its_interval(tmp_path: Path) -> None:
    """If this fails, a broker that is started every few minutes never deletes anything; or checks all logs all the
    time.
    """
    manager = open_manager(tmp_path, settings=StorageSettings(retention_check_interval_ms=300_000))
    checks = []
    monkeypatched = manager.apply_retention

    def noted(now_ms: int, *arguments: Any, **named: Any) -> None:
        checks.append(now_ms)
        monkeypatched(now_ms, *arguments, **named)

    manager.apply_retention = noted  # type: ignore[method-assign]
    for now_ms in range(1_000_000, 2_000_000, 1_000):
        manager.tick(now_ms, lambda topic, partition: 0)
    assert checks == [1_030_000, 1_330_000, 1_630_000, 1_930_000]
    manager.crash()


@pytest.mark.parametrize("enable", [True, False])
def test_logs_that_are_compacted_too_lose_old_segments_each_backoff(tmp_path: Path, enable: bool) -> None:
    """If this fails, cleanup.policy=compact,delete keeps records for minutes after retention.ms; or, as in Kafka
    without its cleaner, they are deleted although log.cleaner.enable is false.
    """
    jobs = ClockedJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    both = many_segments(manager, 5, "both", cleanup_policy=("compact", "delete"), retention_ms=10_000)
    only = many_segments(manager, 5, "only", cleanup_policy=("compact",), retention_ms=10_000)
    settings = CleanerSettings(enable=enable, backoff_ms=15_000)
    manager.cleaner = LogCleaner(
        manager.logs, manager.directories, settings, jobs, manager.removal.files, MACHINE_CLOCK, MACHINE_RANDOMNESS
    )
    # There is nothing to compact, so that segments are only deleted by age.
    for log in (both, only):
        manager.cleaner.policy.mark_uncleanable((log.topic, 0))
    starts = []
    for now_ms in range(0, 40_000, 1_000):
        manager.tick(now_ms, lambda topic, partition: 5)
        jobs.advance(now_ms)
        starts.append(both.log_start_offset)
    if enable:
        # Older than 10 s at 11,001; the cleaner checks at 15,000.
        assert starts.index(5) == 15
    else:
        assert set(starts) == {0}
    assert only.log_start_offset == 0
    manager.crash()


def test_rolls_at_the_very_byte_and_millisecond(tmp_path: Path) -> None:
    """If this fails, segment.bytes and segment.ms are off by one compared with Kafka."""
    config = LogConfig(segment_bytes=300, segment_ms=1_000)
    log = Log.create(str(tmp_path / "t-0"), "t", 0, config, 0)
    log.append(batch(0, size=39, timestamp=5_000), 0)
    log.append(batch(1, size=39, timestamp=6_000), 0)
    log.append(batch(2, size=39, timestamp=4_000), 0)
    assert len(log.segments) == 1
    log.append(batch(3, size=0, timestamp=4_000), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 3], "301 bytes do not fit"
    log.append(batch(4, size=0, timestamp=5_001), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 4], "1,001 ms are too long"


def test_records_deleted_while_a_rolled_write_is_staged(tmp_path: Path) -> None:
    """If this fails, after DeleteRecords in the iteration of the loop in which a log rolls and whose write then fails,
    the new segment gets the size of the old one, and acknowledged records are read from the wrong place, or not at all.
    """
    jobs = ClockedJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(segment_bytes=300, file_delete_delay_ms=DELAY_MS), 0)
    for number in range(6):
        log.append(batch(number, size=40), 1_000)
    before = [(segment.base_offset, segment.size) for segment in log.segments]
    unflushed = manager.totals.unflushed_bytes
    assert before == [(0, 202), (2, 202), (4, 202)]
    log.append(batch(6, size=3), 1_000)
    before[-1] = (4, 266)
    log.stage_batches(batch(7, size=40), 1_000)
    assert log.segments[-1].base_offset == 7, "the log rolled"
    manager.delete_records_before(log, 7, 1_000)
    assert log.log_start_offset == 7
    disk.set_write_budget(50, errno.ENOSPC)
    try:
        with pytest.raises(StorageError, match="No space"):
            log.flush()
    finally:
        disk.set_write_budget(-1, 0)
    assert [(segment.base_offset, segment.size) for segment in log.segments] == before
    assert os.path.getsize(log.active.path) == 266
    assert (log.written_end_offset, manager.totals.unflushed_bytes) == (7, unflushed + 64)
    jobs.advance(10)
    assert [segment.base_offset for segment in log.segments] == [4], "what was deleted goes once nothing is staged"
    log.append(batch(7, size=40), 1_000)
    assert some_slice(log, 7).read() == batch(7, size=40)
    manager.stop()
    again = open_manager(tmp_path)
    log = again.logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (7, 8)
    assert some_slice(log, 7).read() == batch(7, size=40)
    again.crash()
