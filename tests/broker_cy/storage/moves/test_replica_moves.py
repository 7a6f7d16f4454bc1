"""Moves of a log between two data directories, step by step, with crashes anywhere and the defects that others had."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.storage import disk
from broker_cy.storage.checkpoints import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, read_entries
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.moves import future_replica, replica_moves
from broker_cy.storage.moves.future_replica import Chunk, FutureReplica
from broker_cy.storage.moves.log_relocation import relocate
from broker_cy.storage.moves.move import State
from tests.broker_cy.storage.batches import batch
from tests.broker_cy.storage.managing import TOPIC_ID, with_cleaner
from tests.broker_cy.storage.moves.two_disks import KEY, SMALL, Disks

pytestmark = pytest.mark.usefixtures("small_steps")


def test_every_record_is_at_the_goal(disks: Disks) -> None:
    """If this fails, a move loses records."""
    disks.append(40)
    disks.start()
    for _ in range(5):
        disks.step()
        disks.append(3)
    disks.finish()
    disks.append(4)
    assert disks.records() == b"".join(disks.appended)
    disks.reopen()
    assert disks.records() == b"".join(disks.appended)
    disks.jobs.run_due()
    assert [os.path.basename(each) for each in disks.copies()] == ["t-0"]


def test_what_is_written_last_comes_along(disks: Disks) -> None:
    """If this fails, records that are written between the last step of a copy and the swap are lost (KAFKA-9087)."""
    disks.append(6)
    disks.start()
    while disks.move is not None and disks.move.state is not State.ACCEPTED:
        disks.step()
    disks.append(1)
    disks.finish()
    disks.append(1)
    disks.reopen()
    assert disks.records() == b"".join(disks.appended)


def crash_points() -> int:
    """More than a move of 12 batches has."""
    return 45


@pytest.mark.parametrize("steps", range(crash_points()))
@pytest.mark.parametrize("appends", [0, 1, 2])
def test_killed_at_any_step(disks: Disks, steps: int, appends: int) -> None:
    """If this fails, a broker that is killed during a move does not start, serves two logs in turn, or loses records
    (KAFKA-16082: an accepted copy without the newest records became the log).
    """
    disks.append(12)
    disks.start()
    for _ in range(steps):
        disks.step()
        disks.append(appends)
    disks.reopen()
    assert disks.records() == b"".join(disks.appended)
    assert len([each for each in disks.copies() if each.endswith("/t-0")]) == 1
    # The place to report is that of the log, whatever the metadata name (KAFKA-16297).
    directory_id = disks.manager.place_of(*KEY)
    assert directory_id == next(
        each.directory_id
        for each in disks.manager.data_directories
        if each.path == os.path.dirname(disks.log.directory)
    )
    if disks.move is not None:
        disks.finish()
        assert disks.records() == b"".join(disks.appended)


@pytest.mark.parametrize("steps", range(8))
def test_the_leader_changes_while_it_is_copied(disks: Disks, steps: int) -> None:
    """If this fails, an election during a move ends the copy, and nothing begins it again (KAFKA-9654)."""
    disks.append(12)
    disks.log.epochs.assign(0, 0)
    disks.start()
    for _ in range(steps):
        disks.step()
    disks.log.epochs.assign(1, disks.log.log_end_offset)
    disks.append(6, epoch=1)
    disks.finish()
    assert disks.records() == b"".join(disks.appended)
    assert disks.log.epochs.entries == [(0, 0), (1, 12)]


@pytest.mark.parametrize("steps", range(12))
def test_truncated_while_it_is_copied(disks: Disks, steps: int) -> None:
    """If this fails, a follower that moves between disks keeps records that its leader does not have."""
    disks.append(24)
    disks.start()
    for _ in range(steps):
        disks.step()
    disks.manager.truncate_to(disks.log, 10, 0, lambda: None)
    disks.appended = disks.appended[:10]
    disks.append(15, epoch=1)
    disks.finish()
    assert disks.records() == b"".join(disks.appended)
    disks.reopen()
    assert disks.records() == b"".join(disks.appended)


def test_planted_defect_of_truncations_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the test above passes whatever a truncation does to a copy."""
    monkeypatch.setattr(FutureReplica, "truncate", lambda self, log, offset: None)
    found = 0
    for steps in range(12):
        try:
            test_truncated_while_it_is_copied(Disks(tmp_path / str(steps)), steps)
        except AssertionError:
            found += 1
    assert found


def test_log_that_began_again_is_copied_again(disks: Disks) -> None:
    """If this fails, a follower that was behind the log start of its leader has old segments at its goal."""
    disks.append(12)
    disks.start()
    for _ in range(4):
        disks.step()
    disks.manager.restart_at(disks.log, 100, 0, lambda: None)
    disks.appended.clear()
    disks.append(9)
    disks.finish()
    assert (disks.log.log_start_offset, disks.records()) == (100, b"".join(disks.appended))
    assert {name[:20] for name in os.listdir(disks.log.directory) if name.endswith(".log")} == {
        f"{each.base_offset:020d}" for each in disks.log.segments
    }


def test_deleted_records_stay_deleted_after_a_kill(disks: Disks) -> None:
    """If this fails, DeleteRecords is undone by a move and a kill."""
    disks.append(6)
    disks.start()
    while disks.move is not None and disks.move.state is not State.ACCEPTED:
        disks.step()
    disks.manager.delete_records_before(disks.log, 3)
    save = disks.manager.moves._host.relocated
    disks.manager.moves._host.relocated = lambda log, old_path: None  # type: ignore[method-assign]
    disks.finish()
    assert save is not None
    assert read_entries(f"{disks.other}/{LOG_START_OFFSETS}").offsets == {KEY: 3}
    disks.reopen()
    assert os.path.dirname(disks.log.directory) == disks.other
    assert disks.log.log_start_offset == 3


def test_old_segments_do_not_come_along(disks: Disks) -> None:
    """If this fails, retention during a move leaves segments at the goal that no log has."""
    disks.append(24)
    disks.start()
    for _ in range(6):
        disks.step()
    disks.manager.delete_records_before(disks.log, 15)
    disks.finish()
    names = {name[:20] for name in os.listdir(disks.log.directory) if name.endswith(".log")}
    assert names == {f"{each.base_offset:020d}" for each in disks.log.segments}
    assert disks.log.log_start_offset == 15


def test_epochs_and_producers_are_at_the_goal(disks: Disks) -> None:
    """If this fails, followers of an idle partition leave the in-sync set for good after a move (KAFKA-15608)."""
    for epoch in range(3):
        disks.append(2, epoch=epoch)
        disks.log.epochs.assign(epoch, disks.log.log_end_offset - 2)
    data = batch(
        disks.log.log_end_offset,
        1,
        timestamp=1_000,
        leader_epoch=2,
        size=100,
        producer_id=7,
        producer_epoch=0,
        sequence=0,
    )
    disks.appended.append(data)
    disks.log.append(data, 1_000)
    entries = disks.log.epochs.entries
    disks.start()
    disks.finish()
    assert disks.log.epochs.entries == entries
    disks.reopen()
    assert disks.log.epochs.entries == entries
    assert [each[0] for each in disks.log.producers.describe()] == [7]


def test_cancelled_after_it_was_accepted(disks: Disks) -> None:
    """If this fails, the metadata name the wrong disk for ever (KAFKA-16297)."""
    placed: list[tuple[str, int]] = []
    disks.manager.on_placed = lambda topic, partition: placed.append((topic, partition))
    disks.append(3)
    disks.start()
    while disks.move is not None and disks.move.state is not State.ACCEPTED:
        disks.step()
    assert placed == [KEY]
    disks.manager.moves.cancel(KEY)
    assert placed == [KEY, KEY]
    assert disks.manager.place_of(*KEY) != disks.recorded
    disks.jobs.answer()
    assert [os.path.basename(each) for each in disks.copies()] == ["t-0"]


def test_log_with_flush_messages_is_swapped_synced(tmp_path: Path) -> None:
    """If this fails, a power loss after a move loses records that were acknowledged as synced."""
    disks = Disks(tmp_path, LogConfig(segment_bytes=900, flush_messages=1, file_delete_delay_ms=0))
    disks.append(5)
    disks.start()
    while disks.step():
        if disks.move is not None and disks.move.state is State.ACCEPTED and disks.move.turns <= replica_moves.PATIENCE:
            disks.append(1)
    assert disks.log.synced_end_offset == disks.log.log_end_offset


def test_the_whole_copy_is_on_disk_before_the_swap(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a power loss soon after a move loses records that were on the disk before it."""
    synced: dict[str, int] = {}
    unsynced: list[str] = []
    sync = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced[os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))] = os.fstat(fd).st_size
        sync(fd)

    def checked(log: Log, directory: str, synced_end_offset: int) -> None:
        for segment in log.segments:
            name = os.path.basename(segment.path)
            if synced.get(name) != os.path.getsize(f"{directory}/{name}"):
                unsynced.append(name)
        relocate(log, directory, synced_end_offset)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(replica_moves, "relocate", checked)
    disks.append(20)
    disks.start()
    for _ in range(12):
        disks.step()
        disks.append(1)
    disks.finish()
    assert len(disks.log.segments) > 3
    assert unsynced == []


def test_segments_without_a_sync_are_recovered(disks: Disks) -> None:
    """If this fails, the next start after a power loss takes records that were never synced, in a segment that is
    closed, for synced ones.
    """
    disks.append(20)
    disks.manager.flusher.start()
    disks.jobs.answer()
    log = disks.log
    assert log.recovery_point == log.log_end_offset
    bases = [each.base_offset for each in log.segments]
    path = f"{disks.other}/t-0"
    shutil.copytree(log.directory, path)
    relocate(log, path, bases[-2] + 1)
    assert log.recovery_point == bases[-2]


def test_only_the_newest_records_of_a_copy_stay_in_memory(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a move of a large log takes the memory of all other records, or consumers that follow the end of a
    log read from the disk after it has moved.
    """
    right: Callable[..., dict[str, int]] = future_replica.write
    kept: list[bool] = []

    def write(*more: object, keep_cached: bool = True, **named: object) -> dict[str, int]:
        kept.append(keep_cached)
        return right(*more, keep_cached=keep_cached, **named)

    monkeypatch.setattr(future_replica, "write", write)
    monkeypatch.setattr(replica_moves, "CACHED_BYTES", 2_000)
    disks.append(40)
    size_bytes = disks.log.size_bytes
    disks.start()
    disks.finish()
    dropped = kept.count(False)
    assert kept == [False] * dropped + [True] * (len(kept) - dropped)
    assert (dropped - 1) * 700 < size_bytes - 2_000 <= dropped * 700
    assert disks.records() == b"".join(disks.appended)


def test_the_loop_does_not_wait_for_the_target_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, every request waits for the syncs of indexes whenever a replica has moved."""
    right: Callable[..., dict[str, int]] = future_replica.write
    synced: list[bool] = []

    def write(path: str, removals: object, chunks: list[Chunk], *more: object, **named: object) -> dict[str, int]:
        synced.append(any(each.syncs for each in chunks))
        return right(path, removals, chunks, *more, **named)

    monkeypatch.setattr(future_replica, "write", write)
    disks = Disks(tmp_path, LogConfig(segment_bytes=900, flush_messages=1, file_delete_delay_ms=0))
    disks.append(5)
    disks.start()
    disks.finish()
    # The last one is that of the loop.
    assert True in synced
    assert not synced[-1]


def test_no_index_is_read_after_a_move(disks: Disks) -> None:
    """If this fails, the loop waits for the target disk: it reads the indexes of a log that has moved, for its
    retention and for the next record.
    """
    disks.append(20)
    disks.reopen()
    disks.append(1)
    disks.start()
    disks.finish()
    read: list[int] = []
    disk.set_read_watcher(read.append)
    try:
        disks.manager.apply_retention(2_000, lambda topic, partition: disks.log.log_end_offset)
        disks.append(9)
    finally:
        disk.set_read_watcher(None)
    assert read == []
    assert len(disks.log.segments) > 3


def test_a_move_commits_nothing(disks: Disks) -> None:
    """If this fails, a follower starts with a high watermark above the records that are committed, of any log on the
    disk that a replica has moved to: it returns records that no leader has.
    """
    disks.append(6)
    disks.manager.create("t", 1, TOPIC_ID, SMALL, 0)
    assert os.path.dirname(disks.manager.logs["t", 1].directory) == disks.other
    disks.manager.logs["t", 1].append(batch(0, 1, timestamp=1_000), 1_000)
    disks.start()
    disks.finish()
    assert read_entries(f"{disks.other}/{HIGH_WATERMARKS}").offsets == {}
    disks.manager.high_watermarks[KEY] = 4
    disks.manager.flusher.write_checkpoints(HIGH_WATERMARKS)
    assert read_entries(f"{disks.other}/{HIGH_WATERMARKS}").offsets == {KEY: 4}


def test_log_that_is_always_written_to_is_swapped(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a replica whose producers write faster than the disk syncs never arrives."""
    right: Callable[..., dict[str, int]] = future_replica.write
    unsynced = 0

    def write(path: str, removals: object, chunks: list[Chunk], *more: object, **named: object) -> dict[str, int]:
        nonlocal unsynced
        sync = any(each.syncs for each in chunks)
        unsynced += not sync and disks.move is not None and disks.move.state is State.ACCEPTED
        # More arrives during a sync than the turn of the swap may copy, which is the second write without one.
        disks.append((3 if sync else 1) if unsynced < 2 else 0)
        return right(path, removals, chunks, *more, **named)

    monkeypatch.setattr(future_replica, "write", write)
    disks.append(5)
    disks.start()
    disks.finish()
    assert unsynced == 2
    assert disks.records() == b"".join(disks.appended)


@pytest.mark.parametrize("name", ["make", "write"])
def test_full_target_is_tried_again(disks: Disks, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """If this fails, a move to a disk that is full for a moment is lost, or takes the replica offline."""
    right: Callable[..., object] = getattr(future_replica, name)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", disks.other)

    disks.append(6)
    monkeypatch.setattr(future_replica, name, full)
    disks.start()
    for _ in range(10):
        disks.step()
    assert disks.move is not None
    assert "No space left" in disks.move.failure
    assert disks.log.offline is None
    monkeypatch.setattr(future_replica, name, right)
    disks.finish()


def test_compacted_log_is_not_cleaned_meanwhile(disks: Disks) -> None:
    """If this fails, the copy of a compacted log has segments that were replaced; or after two changes of mind the log
    is never cleaned again (KAFKA-16709); or the cleaner begins again from the start (KAFKA-8362).
    """
    cleaner = with_cleaner(disks.manager)
    disks.append(20)
    cleaner.policy.cleaned[KEY] = 7
    disks.start()
    disks.step()
    disks.start()
    disks.manager.moves.cancel(KEY)
    assert cleaner._held == set()
    disks.start()
    assert cleaner._held == {KEY}
    disks.finish()
    assert cleaner._held == set()
    entries = [read_entries(f"{path}/{CLEANED_OFFSETS}").offsets for path in (disks.here, disks.other)]
    assert entries == [{}, {KEY: 7}]


def test_deleted_partition_leaves_no_copy(disks: Disks) -> None:
    """If this fails, the copy of a deleted topic fills a disk."""
    disks.append(20)
    disks.start()
    for _ in range(4):
        disks.step()
    disks.manager.delete(*KEY)
    disks.jobs.answer()
    assert disks.copies() == []


def test_new_copy_is_not_in_the_directory_of_an_interrupted_one(disks: Disks) -> None:
    """If this fails, the removal of the copy that a killed process left removes the records of the next one."""
    disks.append(20)
    disks.start()
    while disks.move is not None and not os.path.exists(disks.move.future.path):
        disks.step()
    assert disks.move is not None
    left = disks.move.future.path
    disks.reopen()
    assert os.path.exists(left)
    assert disks.move is not None
    assert disks.move.future.path != left
    disks.finish()
    assert disks.records() == b"".join(disks.appended)
