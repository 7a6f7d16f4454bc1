"""Batches with a base offset that cannot be theirs. No checksum covers that field, so only the offsets around it show
the damage.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from broker_cy.storage.checkpoints import CLEANED_OFFSETS
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig

from .batches import SMALL, batch, contents, fill, overwrite, split
from .managing import TOPIC_ID, Manager, open_manager

KEY = ("t", 0)
BATCH_BYTES = 121
COMPACTED = LogConfig(segment_bytes=4_000, index_interval_bytes=300, cleanup_policy=("compact",))


@pytest.fixture
def lost_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine restarted since the logs were written."""
    monkeypatch.setattr("broker_cy.storage.log_manager.is_same_boot", lambda path: False)


def filled(path: Path, config: LogConfig = SMALL) -> tuple[Manager, Log]:
    """A log of 300 records that was never flushed, with two records in each batch of BATCH_BYTES."""
    manager = open_manager(path, config=config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    fill(log, 150)
    assert len(log.segments) > 3
    return manager, log


def misplace(log: Log, segment_number: int, batch_number: int, base_offset: int) -> int:
    """Change only the base offset of a batch in the log's files; returns the old one."""
    segment = log.segments[segment_number]
    number = batch_number % (segment.size // BATCH_BYTES)
    overwrite(segment.path, struct.pack(">q", base_offset), number * BATCH_BYTES)
    return segment.base_offset + 2 * number


def reopened(path: Path, config: LogConfig = SMALL) -> Log:
    manager = open_manager(path, config=config)
    manager.crash()
    assert manager.offline == {}
    return manager.logs[KEY]


def until(data: bytes, offset: int) -> bytes:
    return b"".join(each for _, last, each in split(data) if last < offset)


@pytest.mark.parametrize("config", [SMALL, COMPACTED])
@pytest.mark.parametrize("batch_number", [0, -1])
def test_after_a_kill_the_partition_is_not_served(tmp_path: Path, config: LogConfig, batch_number: int) -> None:
    """If this fails, consumers receive a record with an offset from the middle of a later segment, and skip all records
    in between, or receive them twice.
    """
    manager, log = filled(tmp_path, config)
    sizes = [segment.size for segment in log.segments]
    manager.crash()
    misplace(log, 1, batch_number, 4_063_370)
    again = open_manager(tmp_path, config=config)
    again.crash()
    assert "is corrupt at byte" in again.offline[KEY]
    assert [Path(segment.path).stat().st_size for segment in log.segments] == sizes, "removed acknowledged records"


@pytest.mark.usefixtures("lost_power")
@pytest.mark.parametrize("segment_number", [0, 1, -1])
@pytest.mark.parametrize("batch_number", [0, 5, -1])
@pytest.mark.parametrize("shift", [1, 100, 4_000_000])
def test_after_a_power_loss_the_log_ends_before_it(
    tmp_path: Path, segment_number: int, batch_number: int, shift: int
) -> None:
    """If this fails, the log has a gap or records out of order, or new records get offsets that are far too high."""
    manager, log = filled(tmp_path)
    data = contents(log)
    manager.crash()
    number = batch_number % (log.segments[segment_number].size // BATCH_BYTES)
    base = log.segments[segment_number].base_offset + 2 * number
    offset = misplace(log, segment_number, batch_number, base + shift)
    log = reopened(tmp_path)
    assert (contents(log), log.log_end_offset) == (until(data, offset), offset)
    log.append(batch(offset, 2), 5)
    assert contents(log) == until(data, offset) + batch(offset, 2)


@pytest.mark.usefixtures("lost_power")
@pytest.mark.parametrize("is_known_by", ["setting", "checkpoint"])
def test_gaps_that_compaction_left_in_a_segment_are_kept(tmp_path: Path, is_known_by: str) -> None:
    """If this fails, a power loss truncates each compacted log at the first record that compaction removed."""
    config = COMPACTED if is_known_by == "setting" else SMALL
    manager, log = filled(tmp_path, config)
    manager.crash()
    segment = log.segments[0]
    left = Path(segment.path).read_bytes()
    Path(segment.path).write_bytes(left[: 3 * BATCH_BYTES] + left[7 * BATCH_BYTES : 9 * BATCH_BYTES])
    if is_known_by == "checkpoint":
        (tmp_path / CLEANED_OFFSETS).write_text(f"0\n1\nt 0 {log.segments[1].base_offset}\n")
    log = reopened(tmp_path, config)
    assert log.log_end_offset == 300
    assert [base for base, _, _ in split(contents(log))][:6] == [0, 2, 4, 14, 16, log.segments[1].base_offset]


@pytest.mark.usefixtures("lost_power")
def test_after_a_power_loss_a_truncated_end_that_is_back_ends_the_log(tmp_path: Path) -> None:
    """A truncation was lost with the power, and not the segment that was begun after it. If this fails, the log has two
    batches for the same offsets, and which one a consumer receives depends on where it begins to read.
    """
    manager, log = filled(tmp_path)
    data = contents(log)
    manager.crash()
    base = log.segments[2].base_offset
    with open(log.segments[1].path, "ab") as file:
        file.write(batch(base, 2, size=7) + batch(base + 2, 2, size=7))
    log = reopened(tmp_path)
    assert (contents(log), log.log_end_offset) == (until(data, base), base)


@pytest.mark.usefixtures("lost_power")
@pytest.mark.parametrize("shift", [1, 5, 4_000_000])
@pytest.mark.parametrize("batch_number", [0, -1])
def test_deleted_segments_out_of_order_take_no_others_along(tmp_path: Path, batch_number: int, shift: int) -> None:
    """If this fails, damage in records that were deleted, and perhaps never synced, removes synced records after
    them.
    """
    manager, log = filled(tmp_path)
    data = contents(log)
    start = log.segments[2].base_offset
    manager.crash()
    number = batch_number % (log.segments[1].size // BATCH_BYTES)
    misplace(log, 1, batch_number, log.segments[1].base_offset + 2 * number + shift)
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    log = reopened(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (start, 300)
    assert contents(log) == data[len(until(data, start)) :]


@pytest.mark.parametrize("segment_number", [1, -1])
@pytest.mark.parametrize("power_lost", [False, True])
def test_an_empty_segment_among_the_records_of_another_hides_none(
    tmp_path: Path, segment_number: int, power_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an empty file, which a power loss may bring back after its removal, hides the records from its
    offset on, and these offsets are used again.
    """
    manager, log = filled(tmp_path)
    data = contents(log)
    manager.crash()
    if power_lost:
        monkeypatch.setattr("broker_cy.storage.log_manager.is_same_boot", lambda path: False)
    path = Path(log.directory) / f"{log.segments[segment_number].base_offset + 4:020d}.log"
    path.touch()
    log = reopened(tmp_path)
    assert (contents(log), log.log_end_offset) == (data, 300)
    assert not path.exists()
    log.append(batch(300, 2), 5)
    assert contents(log) == data + batch(300, 2)
