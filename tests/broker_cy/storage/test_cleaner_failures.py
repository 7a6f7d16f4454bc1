"""Cleanings that fail: the old log remains, and continues to work."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.storage.cleaner.files import CLEANED, DELETED, SWAP
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log import Log
from broker_cy.wire.records import decode_batches
from tests.broker_cy.storage.cleaning import (
    KEY,
    UnsyncedFiles,
    Written,
    clean,
    compacted_config,
    make_cleaner,
    segment_paths,
    stored,
)
from tests.broker_cy.storage.test_cleaner_model import reload

NOW_MS = 2_000_000


def dirty_log(directory: Path, partition: int = 0) -> Written:
    """Make several segments that become one."""
    config = compacted_config(segment_bytes=600, index_interval_bytes=100)
    written = Written(Log.create(str(directory / f"t-{partition}"), "t", partition, config, 0))
    for number in range(40):
        written.data([(b"key-%d" % (number % 5), b"value-%d" % number)])
    written.roll()
    # All of it is cleaned into one segment, so that many names change together.
    written.log.reconfigure(compacted_config(segment_bytes=1 << 20, index_interval_bytes=100))
    return written


class FailingRename(UnsyncedFiles):
    """Rename number `fail_at` of a swap fails; `undo_fails`: so do the renames that undo it."""

    fail_at = 0
    undo_fails = False
    renames = 0

    def rename(self, old: str, new: str) -> None:
        kind = type(self)
        if old.endswith(".cleaned"):
            super().rename(old, new)
            return
        if old.endswith(DELETED) or new.endswith(SWAP):
            if kind.undo_fails:
                raise OSError(errno.EIO, "Input/output error", old)
        else:
            kind.renames += 1
            if kind.renames == kind.fail_at:
                raise OSError(errno.EIO, "Input/output error", old)
        super().rename(old, new)


def failing(at: int, *, undo_fails: bool = False) -> type[FailingRename]:
    return type("Failing", (FailingRename,), {"fail_at": at, "undo_fails": undo_fails, "renames": 0})


class FullAt(UnsyncedFiles):
    """The disk has no room for operation number `fail_at` and those after it."""

    fail_at = 0
    operations = 0
    in_swap = False

    def _count(self) -> None:
        kind = type(self)
        kind.operations += 1
        if kind.operations >= kind.fail_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    def create(self, name: str) -> int:
        self._count()
        return super().create(name)

    def write(self, fd: int, data: memoryview | bytes, position: int) -> None:
        # There may have been room for a part of it.
        super().write(fd, memoryview(data)[: len(data) // 2], position)
        self._count()
        super().write(fd, data, position)

    def sync(self, fd: int) -> None:
        # Segments that are read had room when they were written: if their sync fails anyway, data is lost.
        if os.readlink(f"/proc/self/fd/{fd}").endswith(CLEANED):
            self._count()

    def sync_directory(self) -> None:
        self._count()

    def rename(self, old: str, new: str) -> None:
        type(self).in_swap = not old.endswith(".cleaned")
        self._count()
        super().rename(old, new)


def full_at(at: int) -> type[FullAt]:
    return type("Full", (FullAt,), {"fail_at": at, "operations": 0, "in_swap": False})


def readable(log: Log) -> list[int]:
    offsets, offset = [], log.log_start_offset
    while (part := log.read_slice(offset)) is not None:
        for batch in decode_batches(part.read()):
            offsets += [record.offset for record in batch.records() if record.offset >= offset]
            offset = batch.last_offset + 1
    return offsets


def test_a_swap_that_cannot_be_completed_is_undone(tmp_path: Path) -> None:
    """If this fails, one failed rename takes the partition offline, or leaves half of the old and half of the new
    segment.
    """
    at = 0
    while True:
        at += 1
        written = dirty_log(tmp_path / str(at))
        log = written.log
        before, names = stored(log.directory), sorted(os.listdir(log.directory))
        held = log.read_slice(0)
        assert held is not None
        files = failing(at)
        cleaner, jobs = make_cleaner(log, files=files)
        clean(log, NOW_MS, cleaner)
        if files.renames < at:
            break
        assert log.offline is None
        assert cleaner.policy.uncleanable == {KEY}
        assert stored(log.directory) == before
        assert sorted(os.listdir(log.directory)) == names
        assert readable(log) == list(range(40))
        jobs.run_due()
        written.data([(b"more", b"v")])
        assert readable(log) == list(range(41))
        assert len(held.read()) == segment_paths(log.directory)[0].stat().st_size
        again = reload(log, log.config)
        assert readable(again) == list(range(41))
    # The number of renames of a swap: each file of each old segment, and of the new one.
    assert at > 30
    assert len(readable(log)) == 5


def test_a_full_disk_leaves_the_old_segments_wherever_it_strikes(tmp_path: Path) -> None:
    """If this fails, a disk that is full for a moment costs records, leaves files behind, or ends compaction until the
    next start.
    """
    at = 0
    while True:
        at += 1
        log = dirty_log(tmp_path / str(at)).log
        before, names = stored(log.directory), sorted(os.listdir(log.directory))
        full = full_at(at)
        cleaner, _ = make_cleaner(log, CleanerSettings(backoff_ms=100), full)
        cleaner.tick(NOW_MS, lambda topic, partition: 40)
        if full.operations < at:
            break
        # Undoing a swap may need disk space, too.
        assert log.offline is None or full.in_swap
        if log.offline is None:
            assert stored(log.directory) == before
            assert sorted(os.listdir(log.directory)) == names
            assert cleaner.policy.uncleanable == set()
            # It backs off, and then there is room.
            full.fail_at = 1 << 30
            operations = full.operations
            cleaner.tick(NOW_MS + 99, lambda topic, partition: 40)
            assert full.operations == operations
            cleaner.tick(NOW_MS + 100, lambda topic, partition: 40)
        else:
            log = reload(log, log.config)
        assert len(readable(log)) == 5
        assert log.log_end_offset == 40
    assert at > 40


@pytest.mark.parametrize("at", [1, 2, 9, 24, 30])
def test_a_swap_that_cannot_be_undone_either_waits_for_a_start(tmp_path: Path, at: int) -> None:
    """If this fails, after a disk failed at both, records are lost or a wrong segment is served."""
    log = dirty_log(tmp_path).log
    newest = {key: offset for batch in stored(log.directory) for offset, _, key, _ in batch.records}
    files = failing(at, undo_fails=True)
    cleaner, _ = make_cleaner(log, files=files)
    clean(log, NOW_MS, cleaner)
    # The first rename leaves nothing to undo.
    assert (log.offline is None) == (at == 1)
    again = reload(log, log.config)
    assert set(readable(again)) >= set(newest.values())
    assert again.log_end_offset == 40
    left = {key: offset for batch in stored(log.directory) for offset, _, key, _ in batch.records}
    assert left == newest
    assert not [name for name in os.listdir(log.directory) if name.endswith((".swap", ".cleaned", ".deleted"))]


def test_one_damaged_partition_is_left_alone_and_the_others_are_cleaned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, one bad sector ends the compaction of every topic; or the damaged log is retried forever."""
    logs = {("t", number): dirty_log(tmp_path, number).log for number in range(3)}
    broken = logs["t", 1]
    path = segment_paths(broken.directory)[2]
    data = bytearray(path.read_bytes())
    data[90] ^= 1
    path.write_bytes(data)
    before = [each.read_bytes() for each in segment_paths(broken.directory)]
    jobs = InlineJobs()
    cleaner = LogCleaner(
        logs,
        [str(tmp_path)],
        CleanerSettings(backoff_ms=0),
        jobs,
        lambda paths, delay_ms: None,
        MACHINE_CLOCK,
        MACHINE_RANDOMNESS,
        UnsyncedFiles,
    )
    with caplog.at_level(logging.ERROR):
        for now_ms in range(NOW_MS, NOW_MS + 10):
            cleaner.tick(now_ms, lambda topic, partition: logs[topic, partition].written_end_offset)
    assert cleaner.policy.uncleanable == {("t", 1)}
    assert set(cleaner.policy.cleaned) == {("t", 0), ("t", 2)}
    assert len(caplog.records) == 1
    assert [each.read_bytes() for each in segment_paths(broken.directory)] == before
    assert broken.offline is None
    for number in (0, 2):
        assert len(readable(logs["t", number])) == 5
    # If it is deleted and created again under the same name, it is cleaned again.
    cleaner.forget(("t", 1))
    assert cleaner.policy.uncleanable == set()
