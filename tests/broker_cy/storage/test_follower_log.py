"""The log of a follower: truncated to its leader's log, and restarted at its leader's log start."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.storage import log_deletion, log_truncation, noted_state
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_slice import LogSlice
from broker_cy.wire.records import Record, encode_batch


def batch(base_offset: int, count: int, epoch: int) -> bytes:
    records = [Record(each, 1_000, b"k", b"v" * 10, []) for each in range(count)]
    return encode_batch(records, base_offset=base_offset, leader_epoch=epoch)


def slice_at(log: Log, offset: int) -> LogSlice:
    found = log.read_slice(offset)
    assert found is not None
    return found


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Offsets 0 to 30: three batches of ten, of the epochs 1, 2 and 4, each in a segment of its own."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(segment_bytes=100), 0)
    for base_offset, epoch in ((0, 1), (10, 2), (20, 4)):
        log.append(batch(base_offset, 10, epoch), 0)
    return log


def test_a_truncated_log_ends_where_a_batch_ends(log: Log) -> None:
    """If this fails, the next fetch asks for an offset within a batch, and the follower is stuck."""
    assert log_truncation.truncate_to(log, 25, 0)
    assert log.log_end_offset == log.written_end_offset == 20
    assert log.epochs.entries == LeaderEpochs.load(log.directory).entries == [(1, 0), (2, 10)]
    log.append(batch(20, 5, 5), 0)
    assert slice_at(log, 20).read()[:8] == (20).to_bytes(8, "big")


def test_an_epoch_without_records_is_truncated(log: Log) -> None:
    """If this fails, a broker that led and wrote nothing cannot follow the next leader, which asks it again and again
    to truncate to the end of its log (KAFKA-10706).
    """
    log.epochs.assign(6, log.log_end_offset)
    assert not log_truncation.truncate_to(log, 30, 0)
    assert log.epochs.entries == LeaderEpochs.load(log.directory).entries == [(1, 0), (2, 10), (4, 20)]


def test_an_epoch_begins_again_after_a_truncation_to_the_end(log: Log) -> None:
    """If this fails, the first records of an epoch belong to no epoch, and a follower is not asked to truncate them."""
    log_truncation.truncate_to(log, 20, 0)
    log_truncation.truncate_to(log, 20, 0)
    log_deletion.delete_records_before(log, 20, 0, 0)
    assert log.epochs.entries == [(2, 20)]
    assert not log_truncation.truncate_to(log, 20, 0)
    assert log.epochs.entries == []
    log.append(batch(20, 5, 2), 0)
    assert log.epochs.entries == [(2, 20)]


def test_a_slice_from_before_a_truncation_is_known(log: Log) -> None:
    """If this fails, a consumer gets bytes of other records than those that were found for it."""
    before = slice_at(log, 20)
    log_truncation.truncate_to(log, 20, 0)
    log.append(batch(20, 10, 5), 0)
    assert before.is_stale
    assert not slice_at(log, 20).is_stale


def test_a_log_begins_again(log: Log, tmp_path: Path) -> None:
    """If this fails, a follower that is behind its leader's log start is stuck, or keeps deleted records."""
    log_truncation.restart_at(log, 50, 0)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, log.size_bytes) == (50, 50, 50, 0)
    assert log.epochs.entries == LeaderEpochs.load(log.directory).entries == []
    assert sorted(each.name for each in Path(log.directory).glob("*.log")) == [f"{50:020d}.log"]
    log.append(batch(50, 10, 6), 0)
    assert (log.log_end_offset, log.epochs.entries) == (60, [(6, 50)])


def test_a_follower_of_a_compacted_log_keeps_its_gaps(log: Log) -> None:
    """If this fails, a compacted partition cannot be replicated; if the second part does, offsets are given twice."""
    log.append(batch(40, 5, 5), 0)
    assert log.log_end_offset == 45
    assert slice_at(log, 30).first_offset == 40
    with pytest.raises(ValueError, match="staged on a log that ends at 45"):
        log.append(batch(44, 1, 5), 0)


def test_a_log_that_cannot_begin_again_is_offline(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a log with a part of its segments is served."""

    def fail(directory: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(noted_state, "forget", fail)
    with pytest.raises(OSError, match="Input/output error"):
        log_truncation.restart_at(log, 50, 0)
    with pytest.raises(StorageError, match="cannot begin the log again at offset 50"):
        log.read_slice(50)
