"""Loading a partition's directory: leftovers of interrupted work, contradicting files, and rolling afterwards."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker_cy.storage import disk
from broker_cy.storage.data_directory import mark_of, parse_partition
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.segment import OpenFiles

from .batches import SMALL, batch, contents, fill, overwrite, some_slice
from .managing import TOPIC_ID, Manager, open_manager


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A data directory after a crash: 300 offsets in several segments, in two leader epochs."""
    manager = open_manager(tmp_path / "data", config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 100)
    for number in range(50):
        log.append(batch(200 + 2 * number, 2, size=60, leader_epoch=3), 5)
    manager.flusher.start()
    manager.crash()
    return tmp_path / "data"


def reopen(path: Path, config: LogConfig = SMALL) -> tuple[Manager, Log]:
    manager = open_manager(path, config=config)
    manager.crash()
    log = manager.logs.get(("t", 0))
    assert log is not None, manager.offline
    return manager, log


def test_leftovers_of_interrupted_work_are_removed(filled: Path) -> None:
    """If this fails, files of an interrupted deletion or compaction come back as records, or fill the disk forever."""
    _, log = reopen(filled)
    data = contents(log)
    folder = filled / "t-0"
    left = [
        f"{0:020d}.log.deleted",
        f"{7:020d}.log.cleaned",
        f"{9:020d}.log.swap",
        f"{11:020d}.index",
        f"{13:020d}.snapshot.tmp",
        "leader-epoch-checkpoint.tmp",
    ]
    for name in left:
        (folder / name).write_bytes(b"left over")
    manager, log = reopen(filled)
    assert manager.offline == {}
    assert not any((folder / name).exists() for name in left)
    assert contents(log) == data


def test_a_completed_compaction_is_put_in_place(filled: Path) -> None:
    """If this fails, a stop of the broker between writing a compacted segment and renaming it duplicates records or
    loses them.
    """
    _, log = reopen(filled)
    first, second = log.segments[0], log.segments[1]
    folder = filled / "t-0"
    end = log.segments[2].base_offset
    compacted = batch(0, 1, size=10) + batch(end - 1, 1, size=10)
    rest = contents(log)[first.size + second.size :]
    (folder / f"{0:020d}.log.swap").write_bytes(compacted)
    (folder / f"{0:020d}.index.swap").write_bytes(b"")
    (folder / f"{0:020d}.timeindex.swap").write_bytes(b"")
    _, log = reopen(filled)
    assert contents(log) == compacted + rest
    assert log.segments[1].base_offset == end
    assert not list(folder.glob("*.swap"))
    # A read at an offset that compaction removed returns the next record.
    assert some_slice(log, 5, max_bytes=1).first_offset == end - 1


def test_a_damaged_epoch_checkpoint_is_found_again(filled: Path) -> None:
    """If this fails, after a power loss a partition does not load, or leader epochs are lost (KIP-101)."""
    path = filled / "t-0" / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n2\n0 0\n3 200\n"
    for is_clean in (False, True):
        # After a clean stop no batch is read that would show its epoch.
        for text in ("0\n2\n0 0\n", "\0" * 16) if is_clean else ("", "0\n2\n0 0\n", "\0" * 16):
            if is_clean:
                open_manager(filled, config=SMALL).stop()
            path.write_text(text)
            _, log = reopen(filled)
            assert log.epochs.entries == [(0, 0), (3, 200)]
            assert path.read_text() == "0\n2\n0 0\n3 200\n"


@pytest.mark.parametrize("is_clean", [True, False])
def test_epochs_without_batches_are_kept(filled: Path, is_clean: bool) -> None:
    """If this fails, a restart takes epochs from a log whose compaction has left no batch of them: followers that have
    such a batch truncate it, and their high watermark goes back.
    """
    path = filled / "t-0" / "leader-epoch-checkpoint"
    # A deletion that truncated the epochs may be lost: the batches show the oldest one.
    for text in ("0\n3\n0 10\n1 20\n3 200\n", "0\n2\n1 20\n3 200\n"):
        if is_clean:
            open_manager(filled, config=SMALL).stop()
        path.write_text(text)
        _, log = reopen(filled)
        assert log.epochs.entries == [(0, 0), (1, 20), (3, 200)]


def test_damaged_checkpoints_cost_time_and_not_data(filled: Path) -> None:
    """If this fails, a damaged recovery point checkpoint keeps the broker from starting."""
    _, log = reopen(filled)
    data = contents(log)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (filled / name).write_text("0\n7\nt 0 x\n")
    manager, log = reopen(filled)
    assert (contents(log), log.recovery_point, manager.high_watermarks) == (data, 0, {})


def test_a_log_without_segments_begins_at_its_log_start_offset(filled: Path) -> None:
    """If this fails, lost segment files leave a partition that never accepts a record again."""
    (filled / "log-start-offset-checkpoint").write_text("0\n1\nt 0 250\n")
    for path in (filled / "t-0").glob("*.log"):
        path.unlink()
    _, log = reopen(filled)
    assert (log.log_start_offset, log.log_end_offset) == (250, 250)
    assert log.append(batch(250), 5) == 251


def test_a_rolled_empty_segment_behind_a_torn_one(filled: Path) -> None:
    """If this fails, a power loss directly after a roll leaves the partition offline, although nothing follows the torn
    batch.
    """
    _, log = reopen(filled)
    tail, end = log.active.path, log.log_end_offset
    os.truncate(tail, os.path.getsize(tail) - 10)
    (filled / "t-0" / f"{end:020d}.log").write_bytes(b"")
    (filled / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 200\n")
    manager, log = reopen(filled)
    assert manager.offline == {}
    assert (log.log_end_offset, log.active.path) == (end - 2, tail)


def test_names_of_directories() -> None:
    """If this fails, a directory name is parsed wrongly, and a partition of another topic is deleted or served."""
    assert parse_partition("my-topic.with_all-12") == ("my-topic.with_all", 12)
    assert parse_partition("t-2147483647") == ("t", 2147483647)
    assert parse_partition("t-2147483648") is None
    assert parse_partition("t-\N{ARABIC-INDIC DIGIT THREE}") is None
    assert parse_partition("t-0.0123456789abcdef0123456789abcdef-delete") is None
    assert mark_of("t-0.0123456789abcdef0123456789abcdef-delete") == "delete"
    assert mark_of("t-0.0123456789abcdef0123456789abcdef-stray") == "stray"
    # Names that a topic may have.
    assert parse_partition("a-delete-0") == ("a-delete", 0)
    assert mark_of("a-delete-0") is None
    for name in ("t", "t-", "-1", "t-x", "remote-log-index-cache"):
        assert parse_partition(name) is None


def test_partitions_that_are_not_in_use_are_left_alone(filled: Path) -> None:
    """If this fails, a stray or future copy is served as the partition, or deleted."""
    unique = "0123456789abcdef0123456789abcdef"
    for mark in ("stray", "future"):
        shutil.copytree(filled / "t-0", filled / f"u-0.{unique}-{mark}")
    manager, _ = reopen(filled)
    assert list(manager.logs) == [("t", 0)]
    assert sorted(path.name for path in filled.glob("u-0*")) == [f"u-0.{unique}-future", f"u-0.{unique}-stray"]


def rolled(directory: Path, config: LogConfig, steps: Iterable[tuple[int, int, int]]) -> list[int]:
    """Return the segments' base offsets after appending (record count, timestamp, time of the append) one by one."""
    log = Log.create(str(directory), "t", 0, config, 0)
    for count, timestamp, now_ms in steps:
        log.append(batch(log.log_end_offset, count, timestamp=timestamp), now_ms)
    return [segment.base_offset for segment in log.segments]


def test_segments_roll_as_in_kafka(tmp_path: Path) -> None:
    """If this fails, segments do not end where Kafka ends them: retention deletes too late or too early, or an index
    overflows.
    """
    by_time = LogConfig(segment_ms=1_000)
    # By the timestamps of the batches, relative to the first of the segment, not by the clock.
    steps = [(1, 5_000, 0), (1, 6_000, 0), (1, 6_001, 0), (1, 5_000, 99_999)]
    assert rolled(tmp_path / "a-0", by_time, steps) == [0, 2]
    # By the clock only if the first batch has no timestamp.
    assert rolled(tmp_path / "b-0", by_time, [(1, -1, 0), (1, 50_000, 1_000), (1, 1, 1_001)]) == [0, 2]
    by_size = LogConfig(segment_bytes=3 * 81)
    assert rolled(tmp_path / "c-0", by_size, [(1, 0, 0)] * 7) == [0, 3, 6]
    by_index = LogConfig(index_interval_bytes=0, segment_index_bytes=3 * 12)
    # An entry for each batch but the first; one place of the time index is kept for the entry that closes it.
    assert rolled(tmp_path / "d-0", by_index, [(1, at, 0) for at in range(7)]) == [0, 3, 6]
    most = (1 << 31) - 1
    assert rolled(tmp_path / "e-0", LogConfig(), [(most, 0, 0), (2, 0, 0)]) == [0, most]
    jittered = LogConfig(segment_ms=1_000, segment_jitter_ms=1_000)
    bases = [rolled(tmp_path / f"f-{i}", jittered, [(1, at, 0) for at in range(1_002)]) for i in range(8)]
    assert len({tuple(base) for base in bases}) > 4, "jitter keeps segments from rolling all at once"


def test_open_files_are_bounded(tmp_path: Path) -> None:
    """If this fails, thousands of partitions use up the descriptors, and the broker accepts no connection any more."""
    files = OpenFiles(5)
    logs = [Log.create(str(tmp_path / f"t-{i}"), "t", i, LogConfig(), 0, files) for i in range(20)]
    before = len(os.listdir("/proc/self/fd"))
    for turn in range(3):
        for log in logs:
            log.append(batch(log.log_end_offset, size=turn), 0)
            assert len(files) <= 5
    held = [some_slice(log, 0) for log in logs[:8]]
    assert len(files) >= 8, "slices that are being sent keep theirs"
    for part in held:
        assert len(part.read()) == part.size
    del held, part
    for log in logs:
        assert some_slice(log, 1).first_offset == 1
    logs[0].read_slice(0)
    assert len(os.listdir("/proc/self/fd")) - before <= 10


def test_a_failed_sync_keeps_the_recovery_point(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a second, successful sync hides a loss: the kernel drops pages that it could not write, and
    reports that only once.
    """
    manager = open_manager(filled, config=SMALL)
    log = manager.logs["t", 0]
    fill(log, 3)

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "sync_file", fail)
    manager.flusher.start()
    monkeypatch.undo()
    assert (log.recovery_point, log.sync_failed) == (300, True)
    manager.flusher.start()
    assert log.recovery_point == 300
    manager.stop()
    assert not (filled / ".kafka_cleanshutdown").exists()
    manager, log = reopen(filled)
    assert (manager.was_clean, log.log_end_offset) == (False, 306)


def test_reading_damage_takes_the_partition_offline(filled: Path) -> None:
    """If this fails, a consumer reads bytes that are not records, and the damage is never reported."""
    manager = open_manager(filled, config=SMALL)
    log = manager.logs["t", 0]
    path = log.segments[0].path
    overwrite(path, b"\xff" * 61, 121 * 10)
    with pytest.raises(Exception, match="is corrupt at byte 1210"):
        log.read_slice(20)
    assert log.offline is not None
    with pytest.raises(Exception, match=r"is offline: .* is corrupt at byte 1210"):
        log.append(batch(300), 0)
    manager.crash()


@pytest.mark.parametrize("timestamp", [0, 1000])
def test_zeros_of_a_power_loss_do_not_age_a_segment(tmp_path: Path, timestamp: int) -> None:
    """If this fails, retention.ms deletes a segment long before its age: the last time index entry was not on disk."""
    manager = open_manager(tmp_path / "data", config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    log.append(batch(0, 1, size=10, timestamp=timestamp), 5)
    log.begin_segment(5)
    log.append(batch(1, 1, size=10, timestamp=timestamp), 5)
    manager.flusher.start()
    manager.crash()
    index = tmp_path / "data" / "t-0" / f"{0:020d}.timeindex"
    index.write_bytes(bytes(12))
    _, log = reopen(tmp_path / "data")
    log.segments[0].complete()
    assert log.segments[0].times.last == (timestamp, 0)
