"""In which order the checkpoints of a data directory reach the disk, and which of them are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.storage import offset_checkpoints
from broker_cy.storage.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_entries,
    write_offsets,
)
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig

from .batches import fill
from .managing import TOPIC_ID, Manager, open_manager

KEY = ("t", 0)
# In this order.
WITH_STARTS = (LOG_START_OFFSETS, RECOVERY_POINTS)
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=0)


class Writes:
    """Replaces the writing of checkpoints: writes to paths that end with `broken` fail; `names` are those written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = "nothing"
        self.names: list[str] = []
        self._write = write_offsets
        monkeypatch.setattr(offset_checkpoints, "write_offsets", self)

    def __call__(self, path: str, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID]) -> None:
        if path.endswith(self.broken):
            raise OSError(5, "Input/output error")
        self._write(path, offsets, topic_ids)
        self.names.append(path.rsplit("/", 1)[1])


def started(directory: Path) -> tuple[Manager, Log]:
    manager = open_manager(directory, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 10)
    return manager, log


def test_no_recovery_point_passes_deleted_records_whose_deletion_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a power loss brings back segments that were deleted and never synced, and they count as synced: a
    consumer finds the partition damaged (seed 6217 of the power cut simulation).
    """
    manager, log = started(tmp_path)
    writes = Writes(monkeypatch)
    writes.broken = LOG_START_OFFSETS
    manager.delete_records_before(log, log.log_end_offset)
    assert log.recovery_point == log.log_end_offset
    manager.flusher.start([log])
    manager.flusher.write_checkpoints()
    assert read_entries(f"{tmp_path}/{RECOVERY_POINTS}").offsets.get(KEY, 0) == 0
    writes.broken = "nothing"
    manager.flusher.start([log])
    for name in (LOG_START_OFFSETS, RECOVERY_POINTS):
        assert read_entries(f"{tmp_path}/{name}").offsets[KEY] == log.log_end_offset
    assert writes.names.index(LOG_START_OFFSETS) < writes.names.index(RECOVERY_POINTS)
    manager.stop()


def test_a_data_directory_that_fails_does_not_keep_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one full disk exposes the deletions on all other disks to a power loss."""
    manager = open_manager(tmp_path / "a", tmp_path / "b", config=CONFIG)
    logs = [manager.create("t", partition, TOPIC_ID, CONFIG, 0) for partition in range(2)]
    writes = Writes(monkeypatch)
    writes.broken = f"a/{LOG_START_OFFSETS}"
    for log in logs:
        fill(log, 10)
        manager.delete_records_before(log, 5)
        manager.flusher.start([log])
    kept = [read_entries(f"{tmp_path}/{root}/{name}").offsets for root in "ab" for name in WITH_STARTS]
    assert kept == [{}, {}, {("t", 1): 5}, {("t", 1): 20}]
    manager.crash()


def test_log_start_offsets_are_written_again_only_if_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, each flush syncs one more file, or a changed log start offset is not written."""
    manager, log = started(tmp_path)
    writes = Writes(monkeypatch)
    for start in (0, 0, 3, 3, 5):
        manager.delete_records_before(log, start)
        fill(log, 1)
        manager.flusher.start([log])
    assert writes.names.count(RECOVERY_POINTS) == 5
    # The start wrote the first one.
    assert writes.names.count(LOG_START_OFFSETS) == 2
    assert read_entries(f"{tmp_path}/{LOG_START_OFFSETS}").offsets[KEY] == 5
    manager.stop()
