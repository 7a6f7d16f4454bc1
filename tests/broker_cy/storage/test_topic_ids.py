"""State of a partition belongs to a topic id: a topic that is created again under the same name gets none of it."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.storage import checkpoints, flusher, noted_state
from broker_cy.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    Entries,
    read_entries,
    write_offsets,
)
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.written_points import WRITTEN_POINTS

from .batches import batch, contents, fill, overwrite
from .managing import HeldJobs, Manager, open_manager, with_cleaner

OLD, NEW = UUID(int=100), UUID(int=200)
KEY = ("t", 0)
CONFIG = LogConfig(file_delete_delay_ms=0)
ALL = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)


def run_held(jobs: HeldJobs) -> None:
    while jobs.held:
        jobs.held.pop(0)()


def recreate(manager: Manager, config: LogConfig = CONFIG) -> Log:
    """Delete the topic and create it again; the workers' jobs wait."""
    manager.delete("t", 0)
    return manager.create("t", 0, NEW, config, 0)


def flushed(directory: Path, jobs: HeldJobs, config: LogConfig = CONFIG) -> tuple[Manager, Log]:
    """Make a partition of the old topic with 100 records, all of them on the disk and in the checkpoints."""
    manager = open_manager(directory, jobs=jobs)
    log = manager.create("t", 0, OLD, config, 0)
    fill(log, 50, producer_id=7)
    manager.high_watermarks[KEY] = 100
    manager.flusher.start()
    run_held(jobs)
    manager.flusher.write_checkpoints(*ALL)
    run_held(jobs)
    assert log.recovery_point == 100
    return manager, log


def test_deleted_records_of_the_old_topic_take_none_of_the_new_one(tmp_path: Path) -> None:
    """If this fails, every acknowledged record of a new topic is lost after kill -9, because its predecessor had a log
    start offset.
    """
    jobs = HeldJobs()
    manager, old = flushed(tmp_path, jobs)
    manager.delete_records_before(old, 80)
    run_held(jobs)
    assert read_entries(str(tmp_path / LOG_START_OFFSETS)) == Entries({KEY: 80}, {"t": OLD})
    log = recreate(manager)
    fill(log, 10)
    data = contents(log)
    manager.crash()
    again = open_manager(tmp_path)
    log = again.logs[KEY]
    assert (log.log_start_offset, log.log_end_offset) == (0, 20)
    assert contents(log) == data
    again.crash()


def test_a_recovery_point_of_the_old_topic_hides_no_torn_write(tmp_path: Path) -> None:
    """If this fails, half of a batch is served: the start does not check records that were never flushed to disk."""
    jobs = HeldJobs()
    manager, _ = flushed(tmp_path, jobs)
    log = recreate(manager)
    fill(log, 10)
    path = log.active.path
    manager.crash()
    overwrite(path, b"\xff", 7 * 121 + 100)
    again = open_manager(tmp_path)
    assert (again.logs[KEY].recovery_point, again.logs[KEY].log_end_offset) == (0, 14)
    again.crash()


def test_a_written_point_of_the_old_topic_hides_no_torn_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for a process that was killed in the middle of a write."""
    monkeypatch.setattr(flusher, "NOTE_LOG_BYTES", 0)
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    fill(manager.create("t", 0, OLD, CONFIG, 0), 50)
    manager.flusher.note()
    run_held(jobs)
    log = recreate(manager)
    fill(log, 60)
    path = log.active.path
    manager.crash()
    points = (tmp_path / WRITTEN_POINTS).read_bytes().partition(b"\n")[2]
    assert checkpoints.decode_entries(points, "") == Entries({KEY: 100}, {"t": OLD})
    overwrite(path, b"\xff", 7 * 121 + 100)
    again = open_manager(tmp_path)
    assert (again.logs[KEY].written_point, again.logs[KEY].log_end_offset) == (0, 14)
    # The directory lacks the producers' state of that point as well, which alone would be enough.
    assert KEY not in again.checkpoints.written_points
    again.crash()


def test_a_high_watermark_of_the_old_topic_is_not_taken_over(tmp_path: Path) -> None:
    """If this fails, the checkpoint contains more than the new partition ever had."""
    jobs = HeldJobs()
    manager, _ = flushed(tmp_path, jobs)
    assert read_entries(str(tmp_path / HIGH_WATERMARKS)).offsets == {KEY: 100}
    fill(recreate(manager), 10)
    manager.crash()
    again = open_manager(tmp_path)
    assert again.high_watermarks == {}
    again.crash()


def test_the_new_topic_is_compacted_from_its_start(tmp_path: Path) -> None:
    """If this fails, old values of a key are never removed from the first records of a topic that was created again."""
    manager = open_manager(tmp_path, load=False)
    cleaner = with_cleaner(manager)
    manager.load(lambda topic: CONFIG, 0)
    fill(manager.create("t", 0, OLD, CONFIG, 0), 50)
    cleaner.policy.done(KEY, 90)
    cleaner.write_checkpoint()
    assert read_entries(str(tmp_path / CLEANED_OFFSETS)) == Entries({KEY: 90}, {"t": OLD})
    cleaner.stop()  # dropped entries are not written any more, as if the process had ended before
    fill(recreate(manager), 60)
    manager.crash()
    again = open_manager(tmp_path, load=False)
    cleaner = with_cleaner(again)
    again.load(lambda topic: CONFIG, 0)
    assert cleaner.policy.cleaned == {}
    again.crash()


def test_the_new_topic_may_not_have_gaps_because_the_old_one_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, after a power loss a topic is served with a segment missing, as if it had been compacted."""
    small = LogConfig(segment_bytes=2_000, file_delete_delay_ms=0)
    write_offsets(str(tmp_path / CLEANED_OFFSETS), {KEY: 90}, {"t": OLD})
    manager = open_manager(tmp_path, config=small)
    log = manager.create("t", 0, NEW, small, 0)
    fill(log, 60)
    lost, end = log.segments[1].path, log.segments[1].base_offset
    manager.crash()
    os.unlink(lost)
    monkeypatch.setattr("broker_cy.storage.log_manager.is_same_boot", lambda path: False)
    again = open_manager(tmp_path, config=small)
    assert again.logs[KEY].log_end_offset == end
    again.crash()


def test_entries_of_kafka_are_applied_by_name(tmp_path: Path) -> None:
    """If this fails, a data directory of Kafka loses its recovery points and deletions, because its checkpoints have no
    topic ids.
    """
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, OLD, CONFIG, 0)
    fill(log, 50)
    manager.crash()
    write_offsets(str(tmp_path / RECOVERY_POINTS), {KEY: 60})
    write_offsets(str(tmp_path / LOG_START_OFFSETS), {KEY: 30})
    again = open_manager(tmp_path)
    assert (again.logs[KEY].recovery_point, again.logs[KEY].log_start_offset) == (60, 30)
    again.crash()


def test_the_entries_of_an_offline_partition_keep_their_topic(tmp_path: Path) -> None:
    """If this fails, a partition that failed to load once loses its deletions, or passes them on to another topic."""
    jobs = HeldJobs()
    manager, old = flushed(tmp_path, jobs, LogConfig(segment_bytes=4_000))
    manager.delete_records_before(old, 3)
    run_held(jobs)
    path = old.segments[0].path
    fill(old, 60)
    manager.crash()
    os.rename(path, path + "x")
    os.mkdir(path)
    again = open_manager(tmp_path)
    assert list(again.offline) == [KEY]
    again.flusher.write_checkpoints(*ALL)
    for name in ALL:
        assert read_entries(str(tmp_path / name)).topic_ids == {"t": OLD}, name
    assert read_entries(str(tmp_path / LOG_START_OFFSETS)).offsets == {KEY: 3}
    again.crash()


@pytest.mark.parametrize("known", [NEW, None])
def test_a_directory_of_another_topic_is_neither_read_nor_changed(tmp_path: Path, known: UUID | None) -> None:
    """If this fails, records of a deleted topic are served under the name of a new one, or removed before they can be
    inspected.
    """
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, OLD, CONFIG, 0)
    fill(log, 5)
    size = os.path.getsize(log.active.path)
    manager.crash()
    os.truncate(log.active.path, size - 1)
    again = open_manager(tmp_path, load=False)
    again.load(lambda topic: CONFIG, 0, lambda topic, partition: known)
    assert (again.logs, again.offline, again.topic_ids) == ({}, {}, {})
    (stray,) = tmp_path.glob("t-0.*-stray")
    assert os.path.getsize(stray / f"{0:020d}.log") == size - 1
    again.create("t", 0, NEW, CONFIG, 0)
    again.crash()


@pytest.mark.parametrize("content", [bytes(30), b"", None], ids=["zeros", "empty", "no file"])
def test_a_directory_that_lost_its_topic_id_is_no_topic(tmp_path: Path, content: bytes | None) -> None:
    """If this fails, a new topic serves the records of a deleted one whose directory lost its id in a power cut."""
    manager = open_manager(tmp_path)
    fill(manager.create("t", 0, OLD, CONFIG, 0), 5)
    manager.crash()
    path = tmp_path / "t-0" / "partition.metadata"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    again = open_manager(tmp_path, load=False)
    again.load(lambda topic: CONFIG, 0, lambda topic, partition: NEW)
    assert (again.logs, again.offline, again.topic_ids) == ({}, {}, {})
    (stray,) = tmp_path.glob("t-0.*-stray")
    assert os.path.getsize(stray / f"{0:020d}.log") > 0
    again.crash()


@pytest.mark.parametrize("what", ["flush", "note"])
def test_a_flush_that_waits_writes_nothing_into_the_new_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """If this fails, a new topic gets the leader epochs and producers of the old one: batches are refused or
    dropped.
    """
    monkeypatch.setattr(flusher, "NOTE_LOG_BYTES", 0)
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    run_held(jobs)
    old = manager.create("t", 0, OLD, CONFIG, 0)
    fill(old, 10, producer_id=7)
    old.append(batch(20, leader_epoch=9), 0)
    if what == "flush":
        manager.flusher.start()
    else:
        manager.flusher.note()
    log = recreate(manager)
    fill(log, 10)
    log.append(batch(20), 0)
    before = {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}
    run_held(jobs)
    assert {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} == before
    assert noted_state.read(log.directory, 21) is None
    assert not manager.flusher.failed
    manager.crash()
    again = open_manager(tmp_path)
    assert again.logs[KEY].producers.describe() == []
    assert again.logs[KEY].epochs.entries == [(0, 0)]
    again.crash()


def test_a_flush_under_way_goes_to_the_directory_that_it_began_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, if the topic is deleted and created again between two writes of the worker."""
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    run_held(jobs)
    old = manager.create("t", 0, OLD, CONFIG, 0)
    fill(old, 10, producer_id=7)
    manager.flusher.start()
    opened: list[Log] = []
    fstat = os.stat

    def stat(*args: object, **kwargs: object) -> os.stat_result:
        if not opened and "dir_fd" in kwargs:
            opened.append(recreate(manager))
        return fstat(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat)
    jobs.held.pop(0)()
    monkeypatch.undo()
    names = {path.name for path in Path(opened[0].directory).iterdir()}
    assert names == {f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", "partition.metadata"}
    (renamed,) = tmp_path.glob("t-0.*-delete")
    assert (renamed / f"{20:020d}.snapshot").exists()
    manager.crash()


def test_removal_follows_no_symbolic_link(tmp_path: Path) -> None:
    """If this fails, deleting a link that looks like a deleted partition also deletes the files to which it points."""
    precious = tmp_path / "precious"
    (precious / "inner").mkdir(parents=True)
    (precious / "file").write_text("keep")
    data = tmp_path / "data"
    manager = open_manager(data)
    fill(manager.create("t", 0, OLD, CONFIG, 0), 1)
    manager.delete("t", 0)
    (renamed,) = data.glob("t-0.*-delete")
    (renamed / "link").symlink_to(precious)
    (renamed / "sub").mkdir()
    (renamed / "sub" / "link").symlink_to(precious)
    manager.crash()
    link = data / f"x-0.{'0' * 32}-delete"
    link.symlink_to(precious)
    again = open_manager(data)
    again.jobs.run_due()
    again.crash()
    assert sorted(path.name for path in precious.iterdir()) == ["file", "inner"]
    assert not link.is_symlink()
    assert not renamed.exists()


def test_a_partition_behind_a_symbolic_link_is_deleted_as_a_link(tmp_path: Path) -> None:
    """If this fails, deleting a topic whose partition an operator moved to another disk always fails, or removes more
    than requested."""
    data, moved = tmp_path / "data", tmp_path / "moved"
    manager = open_manager(data)
    fill(manager.create("t", 0, OLD, CONFIG, 0), 1)
    manager.stop()
    os.rename(data / "t-0", moved)
    (data / "t-0").symlink_to(moved)
    again = open_manager(data, config=CONFIG)
    assert again.logs[KEY].log_end_offset == 2
    again.delete("t", 0)
    again.jobs.run_due()
    assert [name for name in os.listdir(data) if name.startswith("t-0")] == []
    assert (moved / f"{0:020d}.log").exists()
    again.crash()
