"""read_committed: neither records of aborted transactions, nor those from the first open one on."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from broker_cy.core.crc32c import value as crc32c
from broker_cy.storage import txn_index
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.transactions import Hidden
from tests.spark_analytics.segments.logs import Log, offsets
from tests.spark_analytics.segments.logs import records as new_records


def append(log: Log, producer_id: int, count: int = 2) -> int:
    return log.append(
        new_records(count, log.next_offset),
        transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=log.next_offset,
    )


def snapshot(log: Log, producers: dict[int, int]) -> None:
    """Write the producer state at the end of the log: the first offsets of open transactions (-1: none)."""
    entries = struct.pack(">i", len(producers))
    for producer, first in producers.items():
        entries += struct.pack(">qhiqiqiq", producer, 0, 0, log.next_offset - 1, 0, 0, 0, first)
    data = struct.pack(">hI", 1, crc32c(entries)) + entries
    (log.directory / f"{log.next_offset:020d}.snapshot").write_bytes(data)


def interleaved(root: Path) -> Log:
    """Two concurrent transactions, the first one aborted, and a record outside of both."""
    log = Log(root)
    append(log, 1)  # 0, 1: aborted
    append(log, 2)  # 2, 3: committed
    log.append(new_records(1, 4))  # 4
    append(log, 1)  # 5, 6: aborted
    log.end_transaction(1, commit=False)  # 7
    append(log, 1)  # 8, 9: committed
    log.end_transaction(2, commit=True)  # 10
    log.end_transaction(1, commit=True)  # 11
    return log


COMMITTED = [2, 3, 4, 8, 9]


def test_the_log_itself_tells_what_was_aborted(tmp_path: Path) -> None:
    """If this fails, the transactions after the last snapshot are not followed."""
    interleaved(tmp_path)
    assert offsets(tmp_path) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert offsets(tmp_path, isolation="read_committed") == COMMITTED
    assert offsets(tmp_path, isolation="read_committed", range_bytes=1) == COMMITTED
    assert offsets(tmp_path, isolation="read_committed", starting_offset=6, ending_offset=9) == [8]


def test_behind_a_snapshot_the_index_of_transactions_tells_it(tmp_path: Path) -> None:
    """If this fails, `.txnindex` is not used although a snapshot makes scanning the log unnecessary."""
    log = interleaved(tmp_path)
    snapshot(log, {1: -1, 2: -1})
    assert offsets(tmp_path, isolation="read_committed") == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    txn_index.append(str(log.directory), 0, [(1, 0, 7, 8)])
    assert offsets(tmp_path, isolation="read_committed") == COMMITTED


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_an_open_transaction_ends_what_is_read(tmp_path: Path, with_snapshot: bool) -> None:
    """If this fails, records that may still be aborted are read: the last stable offset is passed."""
    log = interleaved(tmp_path)
    log.append(new_records(2, 12))  # 12, 13
    first = append(log, 5)  # 14, 15
    if with_snapshot:
        txn_index.append(str(log.directory), 0, [(1, 0, 7, 8)])
        log.roll()
        snapshot(log, {5: first})
    log.append(new_records(2, 16))
    assert offsets(tmp_path, isolation="read_committed") == [*COMMITTED, 12, 13]
    assert offsets(tmp_path)[-1] == 17
    log.end_transaction(5, commit=True)
    assert offsets(tmp_path, isolation="read_committed") == [*COMMITTED, *range(12, 18)]


def test_a_marker_above_the_high_watermark_does_not_count(tmp_path: Path) -> None:
    """If this fails, a transaction counts as ended before its end is replicated."""
    log = Log(tmp_path)
    log.append(new_records(1))
    append(log, 1)
    log.end_transaction(1, commit=True)
    log.mark(3)
    assert offsets(tmp_path, isolation="read_committed") == [0]
    log.mark(4)
    assert offsets(tmp_path, isolation="read_committed") == [0, 1, 2]


def test_a_marker_in_a_later_segment_hides_the_records(tmp_path: Path) -> None:
    """If this fails, only the index of a record's own segment is used, and aborted records are read."""
    log = Log(tmp_path)
    append(log, 1)
    log.roll()
    log.append(new_records(2, 2))
    log.roll()
    log.end_transaction(1, commit=False)
    txn_index.append(str(log.directory), log.base_offset, [(1, 0, 4, 5)])
    snapshot(log, {1: -1})
    assert offsets(tmp_path, isolation="read_committed") == [2, 3]


def test_a_damaged_snapshot_is_replaced_by_the_log(tmp_path: Path) -> None:
    """If this fails, a torn snapshot, which every broker survives, makes the topic unreadable."""
    log = interleaved(tmp_path)
    (log.directory / f"{12:020d}.snapshot").write_bytes(b"torn")
    assert offsets(tmp_path, isolation="read_committed") == COMMITTED


def test_a_damaged_index_of_transactions_is_refused(tmp_path: Path) -> None:
    """If this fails, aborted records are silently read as committed ones."""
    log = interleaved(tmp_path)
    log.path("txnindex").write_bytes(b"torn")
    with pytest.raises(SegmentsError, match=r"txnindex cannot be read .* isolation=read_uncommitted reads all"):
        offsets(tmp_path, isolation="read_committed")
    assert len(offsets(tmp_path)) == 9


def test_a_transaction_is_hidden_from_its_first_record_to_its_marker() -> None:
    """If this fails, the next transaction of a producer is hidden with its aborted one, or an aborted one is not."""
    hidden = Hidden([(1, 10, 20), (1, 30, 40), (2, 15, 15)])
    assert [offset for offset in range(50) if hidden.has(1, offset)] == [*range(10, 21), *range(30, 41)]
    assert [offset for offset in range(50) if hidden.has(2, offset)] == [15]
    assert not hidden.has(3, 15)
