"""The log: appended batches are read back, segments roll as in Kafka, reads keep their limits, a full disk undoes a
write.
"""

import errno
import gc
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.core.errors import ErrorCode
from broker_cy.storage import disk
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import OffsetOutOfRange, StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.segment import OpenFiles, Segment

from .batches import batch, some_slice, split


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "t-0")


def read_all(log: Log, start: int | None = None, max_bytes: int = 1000) -> list[tuple[int, int, bytes]]:
    offset = log.log_start_offset if start is None else start
    found = []
    while offset < log.written_end_offset:
        batches = split(some_slice(log, offset, max_bytes=max_bytes).read())
        assert batches, "a slice holds at least one whole batch"
        found += batches
        offset = batches[-1][1] + 1
    return found


def test_batches_are_read_back_across_segments(directory: str) -> None:
    """If this fails, a consumer loses or repeats records where a segment ends."""
    log = Log.create(directory, "t", 0, LogConfig(segment_bytes=3_000, index_interval_bytes=300), 0)
    written = []
    for number in range(200):
        data = batch(log.log_end_offset, 1 + number % 3, size=number % 90, timestamp=1_000 + number)
        written.append(data)
        log.append(data, 5)
    assert len(log.segments) > 5
    assert [data for _, _, data in read_all(log)] == written
    # From any offset inside a batch, that batch comes first.
    for offset in range(log.log_end_offset):
        base, last, _ = split(some_slice(log, offset, max_bytes=1).read())[0]
        assert base <= offset <= last


def test_a_slice_may_be_collected_together_with_its_segment(directory: str) -> None:
    """If this fails, the broker crashes when a connection ends in a reference cycle, with parts of a deleted log that
    it had not sent yet.
    """
    # In one generation, so that the segments are cleared first; they are older than the objects that refer to them.
    gc.collect()
    gc.disable()
    try:
        log = Log.create(directory, "t", 0, LogConfig(segment_bytes=3_000), 0)
        for _ in range(100):
            log.append(batch(log.log_end_offset, 3), 5)
        cycle: list[object] = [some_slice(log, offset, max_bytes=1) for offset in range(0, log.log_end_offset, 10)]
        cycle.append(cycle)
        count = len(log.segments)
        assert count > 2
        descriptors = len(os.listdir("/proc/self/fd"))
        for segment in log.segments:
            segment.close()
        del log, cycle, segment
        gc.collect()
    finally:
        gc.enable()
    assert len(os.listdir("/proc/self/fd")) <= descriptors - count


def test_limits_of_a_read(directory: str) -> None:
    """If this fails, a consumer sees records above the high watermark, or nothing at all because its limit is below one
    batch (KIP-74).
    """
    log = Log.create(directory, "t", 0, LogConfig(), 0)
    for _ in range(10):
        log.append(batch(log.log_end_offset, 2, size=100), 5)
    one = 61 + 100
    assert some_slice(log, 0, max_bytes=10).size == one
    assert log.read_slice(0, max_bytes=10, at_least_one=False) is None
    assert some_slice(log, 0, max_bytes=one + 10).size == one + 10
    assert some_slice(log, 0, 6, max_bytes=10_000).size == 3 * one
    assert log.read_slice(0, 0) is None
    assert log.read_slice(20) is None
    for offset in (-1, 21):
        with pytest.raises(OffsetOutOfRange) as raised:
            log.read_slice(offset)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_full_disk_undoes_everything_staged(directory: str) -> None:
    """If this fails, with a full disk the broker serves half a batch, or returns an offset that a later record gets
    too.
    """
    log = Log.create(directory, "t", 0, LogConfig(segment_bytes=2_000), 0)
    for _ in range(20):
        log.append(batch(log.log_end_offset, producer_id=7, producer_epoch=0, sequence=log.log_end_offset), 5)
    before = read_all(log)
    files = sorted(os.listdir(directory))
    many = b"".join(
        batch(20 + i, size=50, leader_epoch=3, producer_id=7 + i % 2, producer_epoch=0, sequence=20 + i)
        for i in range(60)
    )
    for budget in range(0, len(many), 97):
        disk.set_write_budget(budget, errno.ENOSPC)
        try:
            with pytest.raises(StorageError):
                log.append(many, 6)
        finally:
            disk.set_write_budget(-1, 0)
        assert (log.log_end_offset, log.written_end_offset, log.leader_epoch) == (20, 20, 0)
        assert os.path.getsize(log.active.path) == log.active.size
        assert read_all(log) == before
        assert sorted(os.listdir(directory)) == files
    log.append(many, 6)
    assert b"".join(data for _, _, data in read_all(log)[20:]) == many


def test_a_write_that_cannot_be_undone_takes_the_log_offline(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, refused batches remain after the end of the log: the next start finds them there, complete and at
    the right offsets, after a shorter write, and serves them.
    """
    log = Log.create(directory, "t", 0, LogConfig(), 0)
    log.append(batch(0), 5)

    def fail(path: str, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    disk.set_write_budget(100, errno.ENOSPC)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "truncate", fail)
            with pytest.raises(StorageError, match="No space"):
                log.append(batch(1) + batch(2), 5)
    finally:
        disk.set_write_budget(-1, 0)
    assert os.path.getsize(log.active.path) > log.active.size
    with pytest.raises(StorageError, match="is offline: a failed write cannot be undone"):
        log.append(batch(1), 5)


@pytest.mark.parametrize("staged", [0, 1])
def test_a_batch_that_finds_no_memory_leaves_nothing(
    directory: str, monkeypatch: pytest.MonkeyPatch, staged: int
) -> None:
    """If this fails, the bytes of a refused batch are written, and the next batch gets the same offset."""
    log = Log.create(directory, "t", 0, LogConfig(), 0)
    log.append(batch(0, producer_id=7, producer_epoch=0, sequence=0), 5)
    log.stage_batches(b"".join(batch(1 + i, producer_id=7, producer_epoch=0, sequence=1 + i) for i in range(staged)), 5)

    def fail(self: LeaderEpochs, epoch: int, start_offset: int) -> bool:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(LeaderEpochs, "assign", fail)
        end = 1 + staged
        with pytest.raises(MemoryError):
            log.stage_batches(batch(end, leader_epoch=4, producer_id=7, producer_epoch=0, sequence=end), 5)
    if staged:
        # The batch's changes to the log's state are undone together with the others of the turn.
        with pytest.raises(StorageError, match="Cannot allocate memory"):
            log.flush()
    assert (log.log_end_offset, log.written_end_offset, log.leader_epoch, log.staged_batches) == (1, 1, 0, 0)
    written = [batch(i, producer_id=7, producer_epoch=0, sequence=i) for i in range(3)]
    log.append(written[1] + written[2], 5)
    assert b"".join(data for _, _, data in read_all(log)) == b"".join(written)
    assert os.path.getsize(log.active.path) == log.active.size


PARTS = st.lists(st.tuples(st.integers(0, 99), st.integers(1, 30)), max_size=60)


@settings(max_examples=200, deadline=None)
@given(parts=PARTS, every_other=st.booleans())
def test_what_is_not_verified_is_never_taken_for_verified(parts: list[tuple[int, int]], every_other: bool) -> None:
    """If this fails, damage is served because the segment was read in many places; or a reader's own part is checked
    forever.
    """
    segment = Segment("/nowhere", 0, OpenFiles(), 100)
    verified: set[int] = set()
    steps = [(at, 1) for at in range(0, 100, 2)] if every_other else []
    for start, length in steps + parts:
        segment.mark_verified(start, start + length)
        verified |= set(range(start, start + length))
        left = {at for begin, end in segment.unverified for at in range(begin, end)}
        assert left >= set(range(100)) - verified
        assert not left & set(range(start, start + length))
        assert len(segment.unverified) <= 16
        assert segment.unverified_bytes == len(left)
    segment.mark_verified()
    assert segment.unverified_bytes == 0
