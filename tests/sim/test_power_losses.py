"""Losses that the power cut simulation found, each in a separate test: the disk loses everything that was not synced,
or everything except the part that causes the loss.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.storage import log_deletion, log_flush, snapshots, txn_index
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.checkpoints import CLEANED_OFFSETS, LOG_START_OFFSETS, read_entries
from broker_cy.storage.disk import set_write_budget, sync_file
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from tests.broker_cy.storage.batches import batch, contents, overwrite
from tests.broker_cy.storage.managing import Manager, open_manager, with_cleaner
from tests.broker_cy.storage.test_open_transactions import marker, transactional
from tests.sim.power_machine import Least, Machine, machine_in_memory
from tests.support import needs

TOPIC_ID = UUID(int=3)
KEY = ("t", 0)
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=0)

pytestmark = needs.memory


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with machine_in_memory(monkeypatch, Least()) as machine:
        yield machine


def started(disk: Machine, config: LogConfig = CONFIG) -> Manager:
    """A manager with a cleaner that has loaded the partitions of the topic `t`."""
    manager = open_manager(disk.root, load=False)
    with_cleaner(manager)
    manager.load(lambda topic: config, 0, lambda topic, partition: TOPIC_ID if topic == "t" else None)
    return manager


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(batch(log.log_end_offset, size=60), 0)


def test_a_clean_stop_brings_the_directory_to_disk_if_records_were_deleted_before_the_first_sync(disk: Machine) -> None:
    """If this fails, the flush treats the directory and the topic id as synced, because the log start offset moved past
    the beginning of the segment. A power loss then loses them, and with them all records.
    """
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 3)
    manager.delete_records_before(log, 2)
    manager.stop()
    disk.cut()
    again = started(disk)
    assert KEY in again.logs, os.listdir(disk.root)
    assert (again.logs[KEY].log_start_offset, again.logs[KEY].log_end_offset) == (2, 3)
    again.crash()


def test_group_commit_brings_the_directory_to_disk_if_records_were_deleted_before_the_first_sync(disk: Machine) -> None:
    """The same for records that are acknowledged under flush.messages, if the broker was killed before."""
    config = LogConfig(segment_bytes=400, flush_messages=1 << 40)
    manager = started(disk, config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    fill(log, 3)
    manager.delete_records_before(log, 2)
    manager.crash()
    manager = started(disk, config)
    log = manager.logs[KEY]
    assert log.synced_end_offset == 2
    log_flush.complete_sync(log, log_flush.begin_sync(log).run())
    assert log.synced_end_offset == 3
    manager.crash()
    disk.cut()
    again = started(disk, config)
    assert KEY in again.logs, os.listdir(disk.root)
    assert (again.logs[KEY].log_start_offset, again.logs[KEY].log_end_offset) == (2, 3)
    again.crash()


def test_a_segment_of_a_refused_write_does_not_come_back_over_acknowledged_records(disk: Machine) -> None:
    """Group commit syncs a segment that was begun for batches which are then refused. The segment is removed, and its
    offsets are given to records that are acknowledged. If this fails, the refused records are served in their place
    after a power cut.
    """
    config = LogConfig(segment_bytes=300, flush_messages=1 << 40)
    manager = started(disk, config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    fill(log, 1)
    log.stage_batches(b"".join(batch(i, size=60) for i in range(1, 6)), 0)
    assert len(log.segments) == 3
    log_flush.complete_sync(log, log_flush.begin_sync(log).run())
    set_write_budget(0, errno.EIO)
    with pytest.raises(StorageError, match="Input/output error"):
        log.flush()
    set_write_budget(-1, 0)
    assert (len(log.segments), log.log_end_offset) == (1, 1)
    log.append(b"".join(batch(i, count=1, size=1) for i in range(1, 4)), 0)
    log_flush.complete_sync(log, log_flush.begin_sync(log).run())
    before = contents(log)
    manager.crash()
    disk.cut()
    again = started(disk, config)
    assert contents(again.logs[KEY]) == before
    again.crash()


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_deleted_segments_that_were_never_synced_take_no_synced_records_along(
    disk: Machine, monkeypatch: pytest.MonkeyPatch, is_checkpointed: bool
) -> None:
    """A deletion moves the recovery point past segments that were never synced, and that stay for a while. If this
    fails, a start mistakes the gap that a power loss leaves there for the end of the log, and removes the synced
    records after it; or the partition goes offline.
    """
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 1)
    manager.flusher.start([log])
    fill(log, 9)
    assert len(log.segments) > 2
    # As with batches staged: the start offset moves, and no segment is removed.
    assert log_deletion.delete_records_before(log, log.segments[-1].base_offset, 0, 0) == []
    manager.flusher.write_checkpoints(LOG_START_OFFSETS)
    if not is_checkpointed:
        monkeypatch.setattr(manager.flusher, "write_checkpoints", lambda *names: None)
    manager.flusher.start([log])
    start, end = log.log_start_offset, log.log_end_offset
    assert start < end == log.synced_end_offset
    manager.crash()
    disk.cut()
    again = started(disk)
    assert (again.logs[KEY].log_start_offset, again.logs[KEY].log_end_offset) == (start, end), again.offline
    again.crash()


def test_empty_segments_of_a_refused_write_do_not_move_the_end_of_the_log(tmp_path: Path) -> None:
    """If this fails, the log of a killed broker ends at the offset of an empty file that could not be removed: offsets
    are skipped for which there never was an acknowledged record.
    """
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 5)
    manager.flusher.start([log])
    end, directory = log.log_end_offset, log.directory
    assert log.recovery_point == end
    manager.crash()
    for base in (end, end + 4, end + 7):
        (Path(directory) / f"{base:020d}.log").touch()
    again = open_manager(tmp_path, config=CONFIG)
    assert again.logs[KEY].log_end_offset == end
    again.crash()


def test_a_partition_whose_directory_was_lost_begins_at_its_checkpointed_log_start(disk: Machine) -> None:
    """If this fails, new records get offsets that consumers have committed already: consumers skip them."""
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 9)
    # The checkpoint is synced, and with it the name of the partition's directory, but not its content.
    manager.delete_records_before(log, 9)
    assert read_entries(f"{disk.root}/{LOG_START_OFFSETS}").offsets == {KEY: 9}
    manager.crash()
    disk.cut()
    again = started(disk)
    assert KEY not in again.logs
    # The power is lost again, before or after the partition is created. Its entry stays.
    again.flusher.write_checkpoints(LOG_START_OFFSETS)
    for is_created in (False, True):
        if is_created:
            again.create("t", 0, TOPIC_ID, CONFIG, 0)
        again.crash()
        disk.cut()
        again = started(disk)
        assert KEY not in again.logs
    log = again.create("t", 0, TOPIC_ID, CONFIG, 0)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    fill(log, 1)
    again.crash()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_log_in_place_of_a_lost_one_is_cleaned_from_its_start(
    disk: Machine, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """If this fails, the cleaner applies the checkpoint of the lost log to the new one: old values of a key stay. Also
    after a kill, if the checkpoint could not be written when the new log was created (`is_written`).
    """
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 9)
    assert manager.cleaner is not None
    manager.cleaner.policy.done(KEY, 6)
    manager.cleaner.write_checkpoint()
    assert read_entries(f"{disk.root}/{CLEANED_OFFSETS}").offsets == {KEY: 6}
    manager.crash()
    disk.cut()
    again = started(disk)
    assert KEY not in again.logs
    assert again.cleaner is not None
    if is_written:
        fill(again.create("t", 0, TOPIC_ID, CONFIG, 0), 9)
    else:
        monkeypatch.setattr(again.cleaner, "write_checkpoint", lambda: None)
        again.create("t", 0, TOPIC_ID, CONFIG, 0)
        again.crash()
        again = started(disk)
        fill(again.logs[KEY], 9)
    assert again.cleaner is not None
    assert again.cleaner.policy.cleaned.get(KEY, 0) == 0
    again.crash()


def test_readers_of_committed_records_see_no_aborted_ones_after_a_power_cut(disk: Machine) -> None:
    """Group commit syncs the batches, but not the index of aborted transactions. If this fails, and the kernel wrote a
    newer snapshot of producer state by itself, the index stays as empty as the power cut left it.
    """
    config = LogConfig(segment_bytes=1 << 20, flush_messages=1)
    manager = started(disk, config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    log.append(transactional(0, 7, 0), 0)
    log.append(marker(1, 7, False), 0)
    aborted = log.aborted_transactions(0, 2)
    assert aborted == [(7, 0)]
    log.begin_segment(0)
    fill(log, 1)
    sync_file(snapshots.path_of(log.directory, 2))
    manager.crash()
    disk.cut()
    assert os.path.getsize(txn_index.path_of(log.directory, 0)) == 0
    again = started(disk, config)
    assert again.logs[KEY].log_end_offset == 3
    assert again.logs[KEY].aborted_transactions(0, 3) == aborted
    again.crash()


def test_a_rebuilt_transaction_index_survives_the_next_power_cut(disk: Machine) -> None:
    """A start rebuilds an index with an entry of records that were cut off. If this fails, the rebuilt one is lost with
    the power, and the start after that trusts it up to the recovery point: readers of committed records see aborted
    ones.
    """
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(transactional(0, 7, 0), 0)
    log.append(marker(1, 7, False), 0)
    manager.flusher.start([log])
    aborted = log.aborted_transactions(0, 2)
    assert (aborted, log.recovery_point) == ([(7, 0)], 2)
    manager.crash()
    with open(txn_index.path_of(log.directory, 0), "ab") as file:
        file.write(b"torn")
    for _ in range(2):
        again = started(disk)
        assert again.logs[KEY].aborted_transactions(0, 2) == aborted
        again.crash()
        # The kernel wrote the names by itself.
        sync_directory(log.directory)
        disk.cut()


def test_damage_that_was_found_is_not_cut_off_after_a_power_cut(disk: Machine) -> None:
    """A start finds a closed segment damaged, and the partition goes offline. Then the power is lost. If this fails,
    the next start treats the damage as a torn write, and removes the acknowledged records after it.
    """
    config = LogConfig(segment_bytes=300, flush_messages=1)
    manager = started(disk, config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    fill(log, 5)
    assert (log.synced_end_offset, log.recovery_point) == (5, 0)
    path, newest = log.segments[1].path, log.active.base_offset
    manager.crash()
    overwrite(path, b"\xee" * 3, 30)
    sync_file(path)
    for cut in (False, True, True):
        if cut:
            disk.cut()
        again = started(disk, config)
        assert "corrupt" in again.offline[KEY]
        assert os.path.exists(f"{disk.root}/t-0/{newest:020d}.log")
        again.crash()


def test_damage_that_a_consumer_found_is_not_cut_off_after_a_power_cut(disk: Machine) -> None:
    """The same, if the damage is found when the segment is read. If this fails, the note of it was never synced."""
    config = LogConfig(segment_bytes=300, flush_messages=1)
    manager = started(disk, config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    fill(log, 5)
    segment = log.segments[1]
    overwrite(segment.path, b"\xee" * 100, 0)
    sync_file(segment.path)
    with pytest.raises(StorageError, match="corrupt"):
        log.read_slice(segment.base_offset)
    manager.crash()
    disk.cut()
    again = started(disk, config)
    assert KEY in again.offline
    again.crash()


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_flushed", [True, False])
def test_records_that_a_truncation_removed_do_not_come_back_before_the_next_segment(
    disk: Machine, is_flushed: bool, is_killed: bool
) -> None:
    """A follower truncates its log, and then begins a segment. If this fails, a power cut brings back the records of a
    former leader before those of the new segment, and the replica goes offline as damaged. The process may have been
    killed in between. Without a flush, the kernel wrote the new segment by itself.
    """
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 3)
    manager.flusher.start([log])
    assert manager.truncate_to(log, 2, 0, lambda: None)
    manager.jobs.run_due()
    if is_killed:
        manager.crash()
        manager = started(disk)
        log = manager.logs[KEY]
    log.append(batch(2, size=300, leader_epoch=1), 0)
    fill(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 3]
    if is_flushed:
        manager.flusher.start([log])
    else:
        for segment in log.segments[1:]:
            sync_file(segment.path)
        sync_directory(log.directory)
    before = contents(log)
    manager.crash()
    disk.cut()
    again = started(disk)
    assert contents(again.logs[KEY]) == before, again.offline
    assert os.path.getsize(again.logs[KEY].segments[0].path) == 2 * len(batch(0, size=60))
    again.crash()


def test_a_truncation_before_a_clean_stop_survives_a_power_cut(disk: Machine) -> None:
    """If this fails, a replica that is in sync comes back with records that it had truncated, without their epochs.
    Elected, it serves them, and its followers truncate and copy them again without end.
    """
    manager = started(disk)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 3)
    manager.flusher.start([log])
    assert manager.truncate_to(log, 2, 0, lambda: None)
    manager.jobs.run_due()
    before = contents(log)
    manager.stop()
    disk.cut()
    again = started(disk)
    assert contents(again.logs[KEY]) == before
    again.crash()


# --- the metadata log
