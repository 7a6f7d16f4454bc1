"""The cleaner on the loop: readers, failures, and logs that change during a cleaning."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from broker_cy.storage import log_deletion, log_truncation
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings
from broker_cy.storage.log import Log
from broker_cy.wire.records import decode_batches
from tests.broker_cy.storage.cleaning import KEY, UnsyncedFiles, Written, clean, compacted_config, make_cleaner, stored


def dirty_log(directory: Path, count: int = 40, **settings: object) -> Written:
    written = Written(Log.create(str(directory / "t-0"), "t", 0, compacted_config(segment_bytes=600, **settings), 0))
    for number in range(count):
        written.data([(b"key-%d" % (number % 5), b"value-%d" % number)])
    written.roll()
    return written


def keys_and_offsets(directory: str) -> dict[bytes | None, int]:
    return {key: offset for batch in stored(directory) for offset, _, key, _ in batch.records}


def test_a_reader_keeps_what_it_reads(tmp_path: Path) -> None:
    """If this fails, a fetch that is being sent while its segment is replaced breaks, or sends other bytes."""
    log = dirty_log(tmp_path).log
    part = log.read_slice(0)
    assert part is not None
    before = part.read()
    cleaner, jobs = make_cleaner(log)
    clean(log, 2_000_000, cleaner)
    jobs.run_due()
    assert part.read() == before
    offset, seen = 0, []
    while (found := log.read_slice(offset)) is not None:
        for batch in decode_batches(found.read()):
            seen += [record.offset for record in batch.records() if record.offset >= offset]
            offset = batch.last_offset + 1
    assert seen == sorted(keys_and_offsets(log.directory).values())
    assert not list(Path(log.directory).glob("*.deleted"))


def test_a_full_map_ends_the_pass(tmp_path: Path) -> None:
    """If this fails, with more keys than fit, records that were not superseded are lost."""
    written = Written(Log.create(str(tmp_path / "t-0"), "t", 0, compacted_config(segment_bytes=600), 0))
    for number in range(100):
        written.data([(b"key-%d" % (number % 50), b"%d" % number)])
    written.roll()
    cleaner, _ = make_cleaner(written.log, CleanerSettings(backoff_ms=0, dedupe_buffer_bytes=24 * 12, load_factor=0.9))
    for _ in range(40):
        cleaner.tick(2_000_000, lambda topic, partition: written.log.written_end_offset)
    newest = keys_and_offsets(written.log.directory)
    assert newest == {b"key-%d" % (number % 50): number for number in range(50, 100)}
    assert cleaner.policy.cleaned[KEY] == written.log.active.base_offset


class FullDisk(UnsyncedFiles):
    """Writes no byte."""

    def write(self, fd: int, data: memoryview | bytes, position: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_reported_once_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a disk that was full for a minute ends compaction until the next start, or fills the broker's
    log.
    """
    log = dirty_log(tmp_path).log
    before = stored(log.directory)
    full = [True]
    cleaner, _ = make_cleaner(
        log, CleanerSettings(backoff_ms=100), lambda path: FullDisk(path) if full[0] else UnsyncedFiles(path)
    )
    with caplog.at_level(logging.WARNING):
        for now_ms in (2_000_000, 2_000_050, 2_000_100, 2_000_200):
            cleaner.tick(now_ms, lambda topic, partition: log.written_end_offset)
    assert [record.message for record in caplog.records if "lack of space" in record.message] != []
    assert len(caplog.records) == 1
    assert stored(log.directory) == before
    assert not list(Path(log.directory).glob("*.cleaned"))
    full[0] = False
    cleaner.tick(2_000_400, lambda topic, partition: log.written_end_offset)
    assert len(keys_and_offsets(log.directory)) == 5
    assert KEY in cleaner.policy.cleaned


def test_a_damaged_batch_is_never_given_a_good_checksum(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, damage is copied into a new segment as if a producer had sent it."""
    log = dirty_log(tmp_path).log
    path = Path(log.directory) / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    cleaner, _ = make_cleaner(log)
    clean(log, 2_000_000, cleaner)
    assert cleaner.policy.uncleanable == {KEY}
    assert path.read_bytes() == bytes(data)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "stopped cleaning a log: repair or delete it, and restart the broker"
    ]


def test_a_truncated_log_is_not_replaced(tmp_path: Path) -> None:
    """If this fails, records that were truncated come back with a segment that was cleaned before."""
    log = dirty_log(tmp_path).log
    cleaner, jobs = make_cleaner(log)
    held: list[tuple[object, object]] = []
    jobs.run = lambda work, done: held.append((work, done))  # type: ignore[method-assign]
    cleaner.tick(2_000_000, lambda topic, partition: log.written_end_offset)
    work, done = held.pop()
    replacement = work()  # type: ignore[operator]
    cleaner.truncated(KEY, 10)
    log_truncation.truncate_to(log, 10, 0)
    done(replacement, None)  # type: ignore[operator]
    assert log.log_end_offset == 10
    assert [each.last_offset for each in stored(log.directory)][-1] == 9
    assert not list(Path(log.directory).glob("*.swap"))
    assert not cleaner.running


def lagging_log(directory: Path, **settings: object) -> Written:
    """Make segments 0..3 of ten records, the first of them at 1,000,000, 1,010,000, and so on."""
    written = Written(Log.create(str(directory / "t-0"), "t", 0, compacted_config(**settings), 0))
    for number in range(40):
        if number % 10 == 0 and number:
            written.now_ms += 10_000
            written.roll()
        written.data([(b"key-%d" % (number % 5), b"%d" % number)])
    written.roll()
    return written


@pytest.mark.parametrize(("now_ms", "expected"), [(1_011_999, 0), (1_012_000, 10), (1_022_000, 20), (1_052_000, 40)])
def test_min_compaction_lag_leaves_young_segments_alone(tmp_path: Path, now_ms: int, expected: int) -> None:
    """If this fails, a consumer that is given min.compaction.lag.ms to see every record misses some; or nothing is
    ever compacted.
    """
    written = lagging_log(tmp_path, min_compaction_lag_ms=12_000)
    cleaner = clean(written.log, now_ms)
    assert cleaner.policy.cleaned.get(KEY, 0) == expected
    offsets = [offset for batch in stored(written.log.directory) for offset, _, _, _ in batch.records]
    assert [offset for offset in offsets if offset >= expected] == list(range(expected, 40))
    assert len([offset for offset in offsets if offset < expected]) == min(5, expected)


@pytest.mark.parametrize(("now_ms", "is_cleaned"), [(1_060_000, False), (1_060_001, True)])
def test_max_compaction_lag_cleans_what_is_not_dirty_enough(tmp_path: Path, now_ms: int, is_cleaned: bool) -> None:
    """If this fails, records that a law requires to be deleted are kept, because the rest of the log is large."""
    written = lagging_log(tmp_path, max_compaction_lag_ms=60_000, min_cleanable_dirty_ratio=1.0)
    cleaner = clean(written.log, now_ms)
    assert (KEY in cleaner.policy.cleaned) == is_cleaned


@pytest.mark.parametrize(("after_ms", "is_left"), [(4_999, True), (5_000, False)])
def test_tombstones_stay_for_delete_retention(tmp_path: Path, after_ms: int, is_left: bool) -> None:
    """If this fails, a consumer that was away for less than delete.retention.ms never sees a deletion; or tombstones
    are kept forever.
    """
    written = Written(Log.create(str(tmp_path / "t-0"), "t", 0, compacted_config(delete_retention_ms=5_000), 0))
    written.data([(b"a", b"1"), (b"b", b"2")])
    written.data([(b"a", None)])
    written.roll()
    cleaner = clean(written.log, 2_000_000)
    marked = [batch for batch in stored(written.log.directory) if batch.delete_horizon_ms is not None]
    assert [(batch.base_offset, batch.delete_horizon_ms) for batch in marked] == [(2, 2_005_000)]
    written.data([(b"c", b"3")])
    written.roll()
    clean(written.log, 2_000_000 + after_ms, cleaner)
    assert (b"a" in keys_and_offsets(written.log.directory)) == is_left


def test_deleted_records_end_a_cleaning(tmp_path: Path) -> None:
    """If this fails, DeleteRecords or retention during a cleaning marks the partition uncleanable, or deleted records
    come back.
    """
    log = dirty_log(tmp_path).log
    cleaner, jobs = make_cleaner(log)
    held: list[tuple[object, object]] = []
    jobs.run = lambda work, done: held.append((work, done))  # type: ignore[method-assign]
    cleaner.tick(2_000_000, lambda topic, partition: log.written_end_offset)
    work, done = held.pop()
    cleaner.abort(KEY)
    log_deletion.delete_records_before(log, 25, 2_000_000)
    try:
        result, error = work(), None  # type: ignore[operator]
    except Exception as failure:
        result, error = None, failure
    done(result, error)  # type: ignore[operator]
    assert not cleaner.running
    assert not cleaner.policy.uncleanable
    assert not cleaner.policy.in_progress
    assert log.log_start_offset == 25
    assert not list(Path(log.directory).glob("*.cleaned"))
    del jobs.run
    clean(log, 2_000_001, cleaner)
    assert sorted(keys_and_offsets(log.directory).values()) == [35, 36, 37, 38, 39]


@pytest.mark.parametrize("value", [b"2", None])
def test_what_is_committed_behind_an_abort_takes_the_place_of_what_was_there(
    tmp_path: Path, value: bytes | None
) -> None:
    """If this fails, a value comes back once the tombstone that a transaction wrote is removed, or old values are kept
    forever, if the producer's previous transaction was aborted and was cleaned already.
    """
    written = Written(Log.create(str(tmp_path / "t-0"), "t", 0, compacted_config(), 0))
    cleaner, _ = make_cleaner(written.log)
    written.data([(b"a", b"1")])
    for text, commit in ((b"x", False), (value, True)):
        written.data([(b"a", text)], 7, transactional=True)
        written.end(7, commit=commit)
        written.roll()
        clean(written.log, 2_000_000, cleaner)
    found = [
        (offset, text)
        for batch in stored(written.log.directory)
        for offset, _, key, text in batch.records
        if key == b"a"
    ]
    assert found == [(3, value)]
