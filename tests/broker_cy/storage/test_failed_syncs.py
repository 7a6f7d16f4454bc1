"""A sync that failed: nothing of that log is considered synced any more, in this process and in the next."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from broker_cy.storage import checkpoints, disk, flusher, log_flush, syncs
from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig

from .batches import batch, some_slice
from .cleaning import Written, clean, compacted_config, make_cleaner
from .managing import TOPIC_ID, Manager, open_manager

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


class Kernel:
    """Syncs as Linux does them: a page that could not be written is reported to one sync, and then counts as clean."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost: set[str] = set()
        self.synced: list[str] = []
        self.whole: list[str] = []
        self._original = disk.sync_file
        monkeypatch.setattr(disk, "sync_file", self.sync)
        monkeypatch.setattr(disk, "sync_filesystem", self.sync_filesystem)
        self._reported = False

    def sync(self, path: str) -> None:
        self.synced.append(path)
        if path in self.lost:
            self.lost.remove(path)
            raise OSError(errno.EIO, "Input/output error", path)
        self._original(path)

    def sync_filesystem(self, path: str) -> None:
        self.whole.append(path)
        if self.lost and not self._reported:
            self._reported = True
            raise OSError(errno.EIO, "Input/output error", path)


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(batch(log.log_end_offset, size=60), 1_000)


def contents(log: Log) -> bytes:
    return b"".join(some_slice(log, offset, offset + 1, max_bytes=1).read() for offset in range(log.log_end_offset))


def recovery_point(directory: Path) -> int:
    return checkpoints.read_entries(str(directory / checkpoints.RECOVERY_POINTS)).offsets["t", 0]


def test_a_flush_that_failed_takes_the_partition_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the next sync succeeds, and records that the kernel dropped are acknowledged, checkpointed and
    served as if they were on the disk.
    """
    kernel = Kernel(monkeypatch)
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(flush_messages=10), 0)
    other = manager.create("u", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 3)
    manager.flusher.start()
    fill(log, 3)
    fill(other, 3)
    kernel.lost.add(log.active.path)
    manager.flusher.start()
    assert (log.recovery_point, log.synced_end_offset, log.sync_failed) == (3, 3, True)
    assert other.recovery_point == 3
    with pytest.raises(StorageError, match="is offline: a sync failed"):
        fill(log, 10)
    with pytest.raises(StorageError, match="is offline: a sync failed"):
        log.read_slice(0)
    manager.flusher.start()
    with pytest.raises(StorageError, match="cannot sync"):
        log_flush.complete_sync(log, log_flush.begin_sync(log).run())
    assert (log.recovery_point, log.synced_end_offset) == (3, 3)
    manager.stop()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert recovery_point(tmp_path) == 3


def test_a_stop_notes_a_failed_sync_that_the_disk_had_no_room_to_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a full disk that got free space before the restart leaves a partition whose pages are never
    written again: the next power loss takes acknowledged records.
    """
    kernel = Kernel(monkeypatch)
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 3)
    kernel.lost.add(log.active.path)

    def full(directory: str) -> None:
        """Note nothing."""

    with monkeypatch.context() as patch:
        patch.setattr(syncs, "mark_failed", full)
        manager.flusher.start()
    assert log.sync_failed
    assert not syncs.has_failed(log.directory)
    manager.stop()
    assert syncs.has_failed(log.directory)


def test_a_sync_that_ends_behind_a_failed_one_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, group commit acknowledges records between the flush that received the error and the loop's
    handling of it.
    """
    kernel = Kernel(monkeypatch)
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 3)
    flush, sync = log_flush.begin_flush(log), log_flush.begin_sync(log)
    assert flush is not None
    kernel.lost.add(log.active.path)
    flush.run()
    flush.sync()
    assert flush.error is not None
    # Another worker; the loop does not know about the flush yet.
    sync.run()
    with pytest.raises(StorageError, match="cannot sync"):
        log_flush.complete_sync(log, sync)
    assert (log.synced_end_offset, log.sync_failed) == (0, True)
    manager.crash()


def test_no_sync_begins_before_the_failure_of_another_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, two threads sync a file: one gets the error, the other succeeds before it is reported."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    entered, go_on = threading.Event(), threading.Event()
    calls = []

    def sync(path: str) -> None:
        calls.append(path)
        if len(calls) == 1:
            entered.set()
            go_on.wait(60)
            raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(disk, "sync_file", sync)
    results: list[str] = []

    def run() -> None:
        try:
            log.syncs.file("a")
            results.append("synced")
        except OSError:
            results.append("failed")

    first = threading.Thread(target=run)
    first.start()
    assert entered.wait(60)
    second = threading.Thread(target=run)
    second.start()
    go_on.set()
    first.join(60)
    second.join(60)
    assert (results, calls) == (["failed", "failed"], ["a"])


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_file_that_cannot_be_opened_is_no_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """If this fails, a temporary lack of descriptors takes partitions offline until the broker is started again."""
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 3)

    def fail(path: str) -> None:
        raise OSError(error, os.strerror(error), path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", fail)
        manager.flusher.start()
    assert (log.recovery_point, log.offline) == (0, None)
    manager.flusher.start()
    assert log.recovery_point == 3
    manager.stop()


def many_logs(manager: Manager) -> list[Log]:
    logs = [manager.create("t", i, TOPIC_ID, LogConfig(), 0) for i in range(flusher.SYNC_FILES_MAX // 4 + 2)]
    for log in logs:
        fill(log, 1)
    return logs


def test_of_many_logs_the_one_with_the_error_goes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one bad file takes all partitions of the directory offline; or, because the sync of the file
    system reports it only once, the next flush considers it synced.
    """
    kernel = Kernel(monkeypatch)
    manager = open_manager(tmp_path)
    logs = many_logs(manager)
    kernel.lost.add(logs[3].active.path)
    manager.flusher.start(logs[:1] + logs[4:])
    assert [log.recovery_point for log in logs] == [1, 0, 0, 0, *[1] * (len(logs) - 4)]
    assert all(log.offline is None for log in logs)
    for log in logs:
        fill(log, 1)
    manager.flusher.start()
    assert [log.recovery_point for log in logs] == [2, 2, 2, 0, *[2] * (len(logs) - 4)]
    assert [log.offline is not None for log in logs].index(True) == 3
    assert kernel.whole == [str(tmp_path)]
    manager.stop()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


class UnreadableSource(DirectoryFiles):
    """The disk has lost a page of a segment that is about to be cleaned, and reports it once."""

    reported = False

    def sync(self, fd: int) -> None:
        if not type(self).reported:
            type(self).reported = True
            raise OSError(errno.EIO, "Input/output error")


def test_a_segment_that_could_not_be_synced_is_not_cleaned(tmp_path: Path) -> None:
    """If this fails, compaction drops a record because of a newer one that the disk has lost: both are lost."""
    written = Written(Log.create(str(tmp_path / "t-0"), "t", 0, compacted_config(segment_bytes=300), 0))
    for number in range(20):
        written.data([(b"key", b"%d" % number)])
    written.roll()
    log = written.log
    before = [segment.base_offset for segment in log.segments]
    cleaner, _ = make_cleaner(log, files=UnreadableSource)
    clean(log, 2_000_000, cleaner)
    assert [segment.base_offset for segment in log.segments] == before
    assert log.sync_failed
    with pytest.raises(StorageError, match="is offline: a sync failed"):
        log.read_slice(0)


# --- the next start


def broken(directory: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Make a partition with 8 flushed records, followed by 12 whose sync failed; returns the contents of all."""
    with monkeypatch.context() as patch:
        kernel = Kernel(patch)
        manager = open_manager(directory, config=SMALL)
        log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
        fill(log, 8)
        manager.flusher.start()
        fill(log, 12)
        content = contents(log)
        # The written point would say that all of it is valid as long as this machine runs.
        manager.flusher.note()
        kernel.lost.add(log.active.path)
        manager.flusher.start()
        assert log.offline is not None
        manager.stop()
    assert syncs.has_failed(str(directory / "t-0"))
    return content


def counted_writes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    written: dict[str, int] = {}
    original = os.pwrite

    def pwrite(fd: int, data: bytes, position: int) -> int:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        written[name] = written.get(name, 0) + len(data)
        return original(fd, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return written


def test_the_next_start_writes_again_what_may_not_be_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the pages are only in memory, so everything seems right, but no sync writes them: they are lost in
    the next power cut.
    """
    content = broken(tmp_path, monkeypatch)
    written = counted_writes(monkeypatch)
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.logs["t", 0]
    assert not manager.was_clean
    assert contents(log) == content
    for segment in log.segments:
        name = os.path.basename(segment.path)
        behind = segment.base_offset + 3 > 8
        assert (written.get(name, 0) >= segment.size) == behind, f"{name}, {written}"
    assert not syncs.has_failed(log.directory)
    manager.stop()
    assert open_manager(tmp_path, config=SMALL).was_clean


def test_a_start_that_cannot_write_it_again_serves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the partition comes online with its content in memory although the disk is still broken, and loses
    it later.
    """
    broken(tmp_path, monkeypatch)

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            syncs.write_again(str(tmp_path / "t-0"), 8)
    assert syncs.has_failed(str(tmp_path / "t-0"))


def overwrite(path: str, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("clean", [False, True])
def test_what_left_memory_before_the_start_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    """If this fails, pages that the disk never received read as zeros, and the partition stays offline forever, or
    serves them. `clean`: a Kafka, which does not know the mark, has run in between.
    """
    content = broken(tmp_path, monkeypatch)
    one = 121
    lost = tmp_path / "t-0" / f"{9:020d}.log"
    assert lost.exists()
    overwrite(str(lost), one, bytes(one))
    if clean:
        (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.logs["t", 0]
    assert log.log_end_offset == 10
    assert contents(log) == content[: 10 * one]
    fill(log, 1)
    manager.stop()
