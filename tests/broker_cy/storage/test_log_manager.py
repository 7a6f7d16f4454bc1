"""The log manager: what remains after a clean stop and after a crash, and the effect of a damaged file.

One long file, since every test has the same form: write, stop or crash, change files, start.
"""

import errno
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from broker_cy.storage import disk, log_deletion, recovery
from broker_cy.storage.checkpoints import read_entries
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.settings import StorageSettings
from tests.support.logs import fields_of

from .batches import SMALL, batch, contents, fill, overwrite, some_slice, split
from .managing import CLUSTER_ID, TOPIC_ID, HeldJobs, open_manager


def test_a_clean_stop_brings_everything_back(tmp_path: Path) -> None:
    """If this fails, records, epochs, producers or offsets are lost over an ordinary restart."""
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 100, producer_id=9)
    log.append(batch(200, leader_epoch=4), 5)
    manager.delete_records_before(log, 15)
    data, described, newest = contents(log), log.producers.describe(), log.max_timestamp()
    manager.stop()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    again = open_manager(tmp_path, config=SMALL)
    assert again.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = again.logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (15, 201, 201)
    assert contents(log) == data
    assert log.producers.describe() == described
    assert log.epochs.entries == [(0, 15), (4, 200)]
    assert again.topic_ids == {("t", 0): TOPIC_ID}
    assert again.high_watermarks == {("t", 0): 201}
    assert log.max_timestamp() == newest
    fill(log, 3)
    again.crash()


def test_a_crash_loses_nothing_that_was_written(tmp_path: Path) -> None:
    """If this fails, acknowledged records are missing after kill -9."""
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150, producer_id=9)
    data, described = contents(log), log.producers.describe()
    times = [segment.times.entries() for segment in log.segments[:-1]]
    offsets = [segment.offsets.entries() for segment in log.segments]
    manager.crash()
    again = open_manager(tmp_path, config=SMALL)
    log = again.logs["t", 0]
    assert not again.was_clean
    assert contents(log) == data
    assert log.producers.describe() == described
    assert [segment.offsets.entries() for segment in log.segments] == offsets
    assert [segment.times.entries() for segment in log.segments[:-1]] == times
    again.crash()


def test_a_torn_tail_is_cut_at_every_byte(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, after a power loss the broker does not start, serves half a batch, or removes whole batches."""
    origin = tmp_path / "origin"
    manager = open_manager(origin, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 5)
    whole, data = os.path.getsize(log.active.path), contents(log)
    one = 61 + 60
    manager.crash()
    for size in range(whole - one, whole + 1):
        target = tmp_path / f"cut{size}"
        shutil.copytree(origin, target)
        os.truncate(target / "t-0" / f"{0:020d}.log", size)
        caplog.clear()
        again = open_manager(target, config=SMALL)
        log = again.logs["t", 0]
        kept = 5 if size == whole else 4
        assert log.log_end_offset == 2 * kept
        assert contents(log) == data[: kept * one]
        told = [fields_of(record) for record in caplog.records if "truncated the damaged end" in record.getMessage()]
        if size in (whole, whole - one):
            assert told == []
        else:
            assert len(told) == 1
            assert (told[0]["cut_bytes"], told[0]["position"]) == (size - 4 * one, 4 * one)
        fill(log, 1)
        assert contents(log)[: kept * one] == data[: kept * one]
        # The check of files that existed at the start must not report the batch in place of the tail as damage.
        assert log.active.unverified_bytes == 0, "what recovery has checked is checked again before it is served"
        assert recovery.verify_part(log.active.path, 0, 0, kept * one, kept * one, 1 << 62) == (kept * one, None)
        again.crash()
        shutil.rmtree(target)


def test_a_torn_tail_is_cut_after_a_clean_stop_without_index(tmp_path: Path) -> None:
    """If this fails, a file that lost its end and its index while it was copied to another disk takes the partition
    offline forever.
    """
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150)
    path, end = log.active.path, log.log_end_offset
    manager.stop()
    os.unlink(path.removesuffix(".log") + ".index")
    with open(path, "ab") as file:
        file.write(b"torn")
    again = open_manager(tmp_path, config=SMALL)
    assert again.offline == {}
    assert again.logs["t", 0].log_end_offset == end
    again.crash()


def test_a_flipped_bit_past_the_recovery_point_ends_the_log_there(tmp_path: Path) -> None:
    """If this fails, a batch with a wrong checksum is served, and every consumer stops at it."""
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 10)
    path = log.active.path
    manager.crash()
    overwrite(path, b"\xff", 7 * 121 + 100)
    again = open_manager(tmp_path)
    assert again.logs["t", 0].log_end_offset == 14
    again.crash()


def test_damage_in_an_older_segment_takes_only_that_partition_offline(tmp_path: Path) -> None:
    """If this fails, records after a damaged one silently disappear, or one bad sector stops the whole broker."""
    manager = open_manager(tmp_path, config=SMALL)
    for partition in (0, 1):
        fill(manager.create("t", partition, TOPIC_ID, SMALL, 0), 150)
    damaged = manager.logs["t", 0].segments[1]
    path, middle = damaged.path, damaged.size // 2
    manager.crash()
    overwrite(path, bytes(200), middle)
    size = os.path.getsize(path)
    again = open_manager(tmp_path, config=SMALL)
    assert list(again.offline) == [("t", 0)]
    assert f"{path} is corrupt at byte" in again.offline["t", 0]
    assert os.path.getsize(path) == size
    assert again.get("t", 0) is None
    fill(again.logs["t", 1], 1)
    again.stop()
    # The recovery point of the partition that is offline is kept: the next start finds the damage again.
    once_more = open_manager(tmp_path, config=SMALL)
    assert once_more.logs["t", 1].log_end_offset == 302
    once_more.crash()


def test_only_what_lies_past_the_recovery_point_is_read(tmp_path: Path) -> None:
    """If this fails, a start after a crash takes as long as reading all logs. Damage below the recovery point is not
    even detected.
    """
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150, producer_id=3)
    manager.flusher.start()
    assert log.recovery_point == 300
    fill(log, 4, producer_id=3)
    paths = [segment.path for segment in log.segments]
    described = log.producers.describe()
    manager.crash()
    overwrite(paths[1], b"\xff" * 20, 90)
    again = open_manager(tmp_path, config=SMALL)
    assert again.offline == {}
    log = again.logs["t", 0]
    assert log.log_end_offset == 308
    assert log.producers.describe() == described
    # The first read checks its checksums.
    damaged = log.segments[1]
    size = damaged.unverified_bytes
    assert size == damaged.size
    problem = recovery.verify_part(damaged.path, damaged.base_offset, 0, size, size, log.end_of(damaged))[1]
    assert "corrupt at byte 0" in str(problem)
    again.crash()


def test_wrong_indexes_are_made_again(tmp_path: Path) -> None:
    """If this fails, a missing or damaged index hides existing records."""
    origin = tmp_path / "origin"
    manager = open_manager(origin, config=SMALL)
    fill(manager.create("t", 0, TOPIC_ID, SMALL, 0), 150)
    manager.stop()
    log = open_manager(origin, config=SMALL).logs["t", 0]
    data, entries = contents(log), log.segments[1].offsets.entries()
    base = log.segments[1].base_offset
    damages: dict[str, Callable[[str], None]] = {
        "missing": lambda path: os.unlink(path),
        "partial": lambda path: os.truncate(path, os.path.getsize(path) - 3),
        "empty": lambda path: os.truncate(path, 0),
        "noise": lambda path: overwrite(path, b"\x00\x00\x00\x03\x00\x00\x01\x07" * 3),
        "beyond": lambda path: overwrite(path, struct.pack(">ii", 1 << 20, 1 << 30), os.path.getsize(path)),
        "preallocated": lambda path: os.truncate(path, 1 << 20),
    }
    for name, damage in damages.items():
        for suffix in (".index", ".timeindex"):
            target = tmp_path / f"{name}{suffix}"
            shutil.copytree(origin, target)
            (target / ".kafka_cleanshutdown").write_text("{}")
            damage(str(target / "t-0" / f"{base:020d}{suffix}"))
            again = open_manager(target, config=SMALL)
            log = again.logs["t", 0]
            assert contents(log) == data, (name, suffix)
            for offset in range(log.log_end_offset):
                first, last, _ = split(some_slice(log, offset, max_bytes=1).read())[0]
                assert first <= offset <= last
            if suffix == ".index" and name != "empty":
                assert log.segments[1].offsets.entries() == entries, name
            again.crash()


def test_flushing_moves_the_recovery_point(tmp_path: Path) -> None:
    """If this fails, the time to start after a crash grows without bound while the broker runs."""
    settings = StorageSettings(flush_bytes=50_000, checkpoint_interval_ms=60_000)
    manager = open_manager(tmp_path, settings=settings)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    manager.tick(0, lambda topic, partition: 0)
    fill(log, 10, size=1_000, producer_id=1)
    manager.tick(1_000, lambda topic, partition: 0)
    assert log.recovery_point == 0
    fill(log, 50, size=1_000, producer_id=1)
    # Requested once, by the write that exceeded flush_bytes, and done after the iteration of the loop.
    assert [delay for delay, _ in manager.jobs.due] == [0]
    manager.jobs.run_due()
    assert log.recovery_point == 120
    assert manager.totals.unflushed_bytes == 0
    assert read_entries(str(tmp_path / "recovery-point-offset-checkpoint")).offsets == {("t", 0): 120}
    fill(log, 1)
    manager.tick(60_000, lambda topic, partition: 121)
    assert log.recovery_point == 122
    assert read_entries(str(tmp_path / "replication-offset-checkpoint")).offsets == {("t", 0): 121}
    # Only the newest producer state at which no segment begins is kept.
    assert [name for name in os.listdir(log.directory) if name.endswith(".snapshot")] == [f"{122:020d}.snapshot"]
    manager.crash()


def test_flush_ms_flushes_that_log_alone(tmp_path: Path) -> None:
    """If this fails, flush.ms has no effect; or one topic that has it makes the disk busy with all others."""
    manager = open_manager(tmp_path, jobs=HeldJobs())
    jobs = cast(HeldJobs, manager.jobs)
    while jobs.held:
        jobs.held.pop(0)()
    soon = manager.create("soon", 0, TOPIC_ID, LogConfig(flush_ms=1_000), 0)
    also = manager.create("also", 0, UUID(int=78), LogConfig(flush_ms=1_000), 0)
    never = manager.create("never", 0, UUID(int=79), LogConfig(), 0)
    fill(never, 3)
    fill(soon, 3)
    manager.flush_old(999)
    assert not jobs.held
    manager.flush_old(1_000)
    # Requested while a flush runs: it follows, and only flushes the requested logs.
    fill(also, 3)
    manager.flush_old(1_001)
    assert soon.recovery_point == 0
    while jobs.held:
        jobs.held.pop(0)()
    assert (soon.recovery_point, also.recovery_point, never.recovery_point) == (6, 6, 0)
    manager.crash()


def test_a_log_whose_sync_failed_keeps_the_stop_from_being_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, records that a failed sync lost are never found missing: the next start trusts the log."""
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(flush_messages=1), 0)

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", fail)
        with pytest.raises(StorageError, match="cannot sync"):
            fill(log, 1)
    assert log.sync_failed
    with pytest.raises(StorageError, match="offline"):
        fill(log, 1)
    manager.stop()
    again = open_manager(tmp_path)
    assert not again.was_clean
    assert again.logs["t", 0].log_end_offset == 2
    again.crash()


def test_each_checkpoint_has_its_own_interval(tmp_path: Path) -> None:
    """If this fails, log.flush.start.offset.checkpoint.interval.ms is accepted and has no effect."""
    settings = StorageSettings(checkpoint_interval_ms=60_000, start_offset_checkpoint_interval_ms=5_000)
    manager = open_manager(tmp_path, settings=settings)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 2)
    # As a follower's, the start moves without a checkpoint of its own.
    log_deletion.delete_records_before(log, 1, 0, 0)
    starts, high_watermarks = tmp_path / "log-start-offset-checkpoint", tmp_path / "replication-offset-checkpoint"
    written = []
    for now_ms in (0, 4_999, 5_000, 59_999, 60_000):
        manager.tick(now_ms, lambda topic, partition: 0)
        manager.jobs.run_due()
        written.append((read_entries(str(starts)).offsets == {("t", 0): 1}, high_watermarks.exists()))
    assert written == [(False, False), (False, False), (True, False), (True, False), (True, True)]
    manager.crash()


def test_deleted_partitions_leave_the_disk(tmp_path: Path) -> None:
    """If this fails, deleting a topic frees no space, or a restart brings the topic back."""
    config = LogConfig(file_delete_delay_ms=1_234)
    manager = open_manager(tmp_path)
    fill(manager.create("t", 0, TOPIC_ID, config, 0), 3)
    manager.create("t", 1, TOPIC_ID, config, 0)
    manager.delete("t", 0)
    assert manager.get("t", 0) is None
    (renamed,) = [name for name in os.listdir(tmp_path) if name.endswith("-delete")]
    assert renamed.startswith("t-0.")
    assert manager.jobs.due[0][0] == 1_234
    fill(manager.create("t", 0, TOPIC_ID, config, 0), 1)
    manager.delete("t", 0)
    manager.jobs.run_due()
    manager.crash()
    manager = open_manager(tmp_path)
    manager.jobs.run_due()
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("t-")) == ["t-1"]
    manager.crash()


def test_deleted_records_free_whole_segments(tmp_path: Path) -> None:
    """If this fails, DeleteRecords and retention free no space, or delete records that should be kept."""
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150)
    bases = [segment.base_offset for segment in log.segments]
    target = bases[2] + 5
    held = some_slice(log, 0, max_bytes=500)
    manager.delete_records_before(log, target)
    assert (log.log_start_offset, log.segments[0].base_offset) == (target, bases[2])
    assert any(name.endswith(".log.deleted") for name in os.listdir(log.directory))
    manager.jobs.run_due()
    assert not any(name.endswith(".deleted") for name in os.listdir(log.directory))
    assert len(held.read()) == 500, "a slice stays readable while it is being sent"
    assert read_entries(str(tmp_path / "log-start-offset-checkpoint")).offsets == {("t", 0): target}
    manager.delete_records_before(log, 300)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (300, 300, 0)
    fill(log, 1)
    manager.crash()
    again = open_manager(tmp_path, config=SMALL)
    assert (again.logs["t", 0].log_start_offset, again.logs["t", 0].log_end_offset) == (300, 302)
    again.crash()


def test_a_burst_of_deleted_records_is_checkpointed_one_write_at_a_time(tmp_path: Path) -> None:
    """If this fails, two DeleteRecords at the same time write the same checkpoint in two workers: one write fails, or
    the older one remains and the deleted records are back after a crash.
    """
    jobs = HeldJobs()
    manager = open_manager(tmp_path, config=SMALL, jobs=jobs)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 20)
    for offset in (3, 5, 7):
        manager.delete_records_before(log, offset)
    assert len(jobs.held) == 1
    while jobs.held:
        jobs.held.pop()()
    assert read_entries(str(tmp_path / "log-start-offset-checkpoint")).offsets == {("t", 0): 7}
    manager.crash()


def test_a_checkpoint_is_never_replaced_by_an_older_one(tmp_path: Path) -> None:
    """If this fails, a slow worker writes a recovery point above the end of a log that was truncated in the meantime:
    after a crash, records appended since then are served unchecked.
    """
    jobs = HeldJobs()
    manager = open_manager(tmp_path, config=SMALL, jobs=jobs)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 20)
    manager.flusher.start()
    jobs.held.pop()()
    assert len(jobs.held) == 1, "the recovery point is about to be written"
    manager.truncate_to(log, 10, 0, lambda: None)
    jobs.run_due()
    jobs.held.pop()()
    jobs.held.pop()()
    assert read_entries(str(tmp_path / "recovery-point-offset-checkpoint")).offsets == {("t", 0): 10}
    manager.crash()


def test_retention_by_time_and_size(tmp_path: Path) -> None:
    """If this fails, retention.ms and retention.bytes are accepted and have no effect."""
    by_time = LogConfig(segment_bytes=4_000, retention_ms=1_000)
    by_size = LogConfig(segment_bytes=4_000, retention_ms=-1, retention_bytes=9_000)
    manager = open_manager(tmp_path)
    old, large = manager.create("old", 0, TOPIC_ID, by_time, 0), manager.create("large", 0, TOPIC_ID, by_size, 0)
    for log in (old, large):
        fill(log, 150)
    manager.apply_retention(1_000 + 1_000 + old.segments[2].base_offset, lambda topic, partition: 300)
    assert old.log_start_offset == old.segments[0].base_offset > 0
    assert large.size_bytes >= 9_000 > large.size_bytes - large.segments[0].size
    manager.apply_retention(10_000, lambda topic, partition: 300)
    assert (old.log_start_offset, old.size_bytes) == (300, 0)
    manager.crash()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    """If this fails, two brokers write into the same files."""
    manager = open_manager(tmp_path)
    with pytest.raises(DataDirectoryError, match=f"{tmp_path} is in use by another broker .process {os.getpid()}"):
        open_manager(tmp_path)
    manager.stop()
    again = open_manager(tmp_path)
    again.crash()


def test_a_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    """If this fails, a broker started with the wrong node.id or directory serves another broker's data."""
    open_manager(tmp_path / "a").stop()
    text = (tmp_path / "a" / "meta.properties").read_text()
    assert f"cluster.id={CLUSTER_ID}\n" in text
    (tmp_path / "a" / "meta.properties").write_text(text.replace("node.id=1", "node.id=2"))
    with pytest.raises(DataDirectoryError, match=r"belongs to node\.id 2"):
        open_manager(tmp_path / "a")
    (tmp_path / "a" / "meta.properties").write_text("version=1\n")
    with pytest.raises(DataDirectoryError, match=r"has no cluster\.id"):
        open_manager(tmp_path / "a")


def test_partitions_spread_over_data_directories(tmp_path: Path) -> None:
    """If this fails, a second disk in log.dirs stays empty."""
    manager = open_manager(tmp_path / "a", tmp_path / "b")
    for partition in range(4):
        fill(manager.create("t", partition, TOPIC_ID, LogConfig(), 0), partition + 1)
    manager.stop()
    for name in ("a", "b"):
        assert len([entry for entry in os.listdir(tmp_path / name) if entry.startswith("t-")]) == 2
    again = open_manager(tmp_path / "a", tmp_path / "b")
    assert [again.logs["t", partition].log_end_offset for partition in range(4)] == [2, 4, 6, 8]
    again.crash()


def test_an_index_that_vanishes_while_it_is_used_is_made_again(tmp_path: Path) -> None:
    """If this fails, removing index files of a running broker gives consumers errors until it is restarted."""
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150)
    data = contents(log)
    for segment in log.segments[:-1]:
        os.unlink(segment.offsets.path)
    manager.crash()
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.logs["t", 0]
    for segment in log.segments[:-1]:
        assert len(segment.offsets) > 0
        os.unlink(segment.offsets.path)
    assert contents(log) == data
    assert all(os.path.getsize(segment.offsets.path) for segment in log.segments[:-1])
    manager.crash()
