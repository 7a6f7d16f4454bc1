"""A partition that was found damaged is only served again after all of its log was read and is valid."""

import errno
import os
from pathlib import Path

import pytest

from broker_cy.core.uuid import LOST_DIRECTORY
from broker_cy.storage import damage, disk, log_loader, log_loading
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.errors import CorruptSegment, StorageError
from broker_cy.storage.log_config import LogConfig

from .batches import contents, fill, overwrite
from .managing import DIRECTORY_ID, TOPIC_ID, open_manager

KEY = ("t", 0)
SMALL = LogConfig(segment_bytes=4_000, index_interval_bytes=300)
CLEAN_MARK = ".kafka_cleanshutdown"


def damaged(directory: Path, *, flushed: bool) -> tuple[Path, bytes, bytes]:
    """The last segment of a log of 300 records, whose batch at offset 290 a consumer found damaged before the stop: its
    path, its original contents, and the contents of the log."""
    manager = open_manager(directory, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150)
    if flushed:
        manager.flusher.start()
    data = contents(log)
    path = Path(log.active.path)
    before = path.read_bytes()
    overwrite(path, b"\xff" * 61, (290 - log.active.base_offset) // 2 * 121)
    placed: list[TopicPartition] = []
    manager.on_placed = lambda topic, index: placed.append((topic, index))
    with pytest.raises(CorruptSegment):
        log.read_slice(290)
    assert log.offline is not None
    assert (placed, manager.place_of(*KEY)) == ([KEY], LOST_DIRECTORY), "others must lead it"
    manager.stop()
    return path, before, data


@pytest.mark.parametrize("flushed", [True, False])
def test_damage_outlives_a_restart(tmp_path: Path, flushed: bool) -> None:
    """If this fails, after a clean restart a damaged partition accepts writes after the damage, or is truncated at the
    damage, although acknowledged records follow it.
    """
    path, before, data = damaged(tmp_path, flushed=flushed)
    size = path.stat().st_size
    lost: list[TopicPartition] = []
    for _ in range(3):
        assert not (tmp_path / CLEAN_MARK).exists()
        again = open_manager(tmp_path, config=SMALL)
        assert again.get("t", 0) is None
        assert "is corrupt at byte" in again.offline[KEY]
        assert path.stat().st_size == size
        # The broker may lead it still, if the controller has not noticed the restart.
        again.on_placed = lambda topic, index: lost.append((topic, index))
        again.offline_logs.consider_all()
        assert again.place_of(*KEY) == LOST_DIRECTORY
        again.stop()
    assert lost == [KEY] * 3
    # Restored from a copy: all of it is read, and then it is served.
    path.write_bytes(before)
    again = open_manager(tmp_path, config=SMALL)
    assert contents(again.logs[KEY]) == data
    assert again.place_of(*KEY) == DIRECTORY_ID
    fill(again.logs[KEY], 1)
    again.stop()
    assert (tmp_path / CLEAN_MARK).exists()
    assert not (tmp_path / "t-0" / damage.FILE_NAME).exists()


def test_an_operator_may_accept_the_loss(tmp_path: Path) -> None:
    """If this fails, a partition stays offline forever, and only deleting its topic helps."""
    damaged(tmp_path, flushed=False)
    open_manager(tmp_path, config=SMALL).stop()
    (tmp_path / "t-0" / damage.FILE_NAME).unlink()
    again = open_manager(tmp_path, config=SMALL)
    assert again.logs[KEY].log_end_offset == 290
    fill(again.logs[KEY], 1)
    again.crash()


def test_records_missing_at_the_end_are_damage_too(tmp_path: Path) -> None:
    """If this fails, a damaged partition whose last segment was removed uses offsets of acknowledged records again."""
    path, *_ = damaged(tmp_path, flushed=True)
    base = int(path.name[:20])
    path.unlink()
    again = open_manager(tmp_path, config=SMALL)
    assert f"ends at offset {base}, but had records up to offset 300" in again.offline[KEY]
    again.delete("t", 0)
    again.jobs.run_due()
    again.create("t", 0, TOPIC_ID, SMALL, 0)
    again.stop()


def test_damage_found_at_a_start_is_found_again_after_a_clean_stop(tmp_path: Path) -> None:
    """If this fails, the second start after a crash trusts what the first one found damaged."""
    manager = open_manager(tmp_path, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    fill(log, 150)
    path = log.segments[1].path
    manager.crash()
    overwrite(path, bytes(200), 2_000)
    for _ in range(2):
        again = open_manager(tmp_path, config=SMALL)
        assert list(again.offline) == [KEY]
        again.stop()
        assert not (tmp_path / CLEAN_MARK).exists()


def test_the_tail_of_a_log_that_could_not_be_loaded_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a broker that was short of descriptors, and stopped, serves half a batch after the next start."""
    manager = open_manager(tmp_path)
    for partition in (0, 1):
        fill(manager.create("t", partition, TOPIC_ID, LogConfig(), 0), 5)
    path = manager.logs[KEY].active.path
    manager.crash()
    overwrite(path, b"\xff", 4 * 121 + 100)
    load_log = log_loader.load_log

    def short(directory: str, *args: object) -> object:
        if directory.endswith("t-0"):
            raise OSError(errno.EMFILE, "Too many open files", directory)
        return load_log(directory, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(log_loading, "load_log", short)
    again = open_manager(tmp_path)
    assert list(again.offline) == [KEY]
    again.stop()
    monkeypatch.undo()
    assert not (tmp_path / CLEAN_MARK).exists()
    again = open_manager(tmp_path)
    assert again.logs[KEY].log_end_offset == 8
    again.crash()


def test_a_failed_sync_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a partition whose sync failed stays offline because of records that were never acknowledged."""
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(flush_messages=1), 0)
    fill(log, 2)

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", fail)
        with pytest.raises(StorageError, match="cannot sync"):
            fill(log, 1)
    manager.stop()
    os.truncate(log.active.path, 2 * 121 + 30)
    again = open_manager(tmp_path)
    assert again.logs[KEY].log_end_offset == 4
    again.crash()


def test_a_damaged_note_costs_no_partition(tmp_path: Path) -> None:
    """If this fails, a torn damage note of a few bytes keeps a valid partition offline."""
    manager = open_manager(tmp_path)
    fill(manager.create("t", 0, TOPIC_ID, LogConfig(), 0), 5)
    manager.stop()
    (tmp_path / "t-0" / damage.FILE_NAME).write_bytes(b"\xff\n")
    again = open_manager(tmp_path)
    assert again.logs[KEY].log_end_offset == 10
    assert not (tmp_path / "t-0" / damage.FILE_NAME).exists()
    again.crash()
