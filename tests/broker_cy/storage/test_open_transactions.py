"""Open transactions of a log against a plain model, which markers are valid, and the memory that all of it costs."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.storage import disk, log_deletion, log_truncation
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.lookups import aborted_in_slice
from broker_cy.storage.producer_state import ProducerState
from broker_cy.wire.control import EndTxnMarker, encode_control
from broker_cy.wire.marker import encode_marker
from broker_cy.wire.records import Record, encode_batch

from .batches import batch, split

TRANSACTIONAL = 0x10
STEPS = st.lists(
    st.tuples(st.sampled_from(["data", "commit", "abort", "fail", "reload"]), st.integers(0, 4)), max_size=60
)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("append_time", [True, False])
def test_markers_are_those_of_the_general_encoder(commit: bool, append_time: bool) -> None:
    """If this fails, Kafka's tools and every reader of committed records fail at a marker of another form."""
    record = encode_control(EndTxnMarker(commit, 9), 1_700_000_000_123)
    expected = encode_batch(
        [record],
        producer_id=1 << 40,
        producer_epoch=7,
        base_sequence=-1,
        transactional=True,
        control=True,
        log_append_time_ms=1_700_000_000_123 if append_time else None,
    )
    assert encode_marker(1 << 40, 7, 9, commit, 1_700_000_000_123, append_time) == expected


def transactional(offset: int, producer_id: int, sequence: int) -> bytes:
    payload = encode_batch([Record(0, 5, None, b"v", [])])[61:]
    return batch(
        offset,
        producer_id=producer_id,
        producer_epoch=0,
        sequence=sequence,
        attributes=TRANSACTIONAL,
        payload=payload,
        timestamp=5,
    )


def marker(offset: int, producer_id: int, commit: bool) -> bytes:
    return offset.to_bytes(8) + encode_marker(producer_id, 0, 0, commit, 5)[8:]


class Model:
    """Return the first offset of each producer's open transaction, and the aborted transactions."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int]] = []

    def stable(self, end: int) -> int:
        return min([end, *self.open.values()])


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_last_stable_offset_and_aborted_transactions(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """If this fails, a reader of committed records sees open or aborted ones, or waits for an ended transaction."""
    log = Log.create(str(tmp_path_factory.mktemp("log") / "t-0"), "t", 0, LogConfig(segment_bytes=700), 0)
    model = Model()
    sequences: dict[int, int] = {}
    for kind, producer in steps:
        end = log.log_end_offset
        if kind == "data":
            log.append(transactional(end, producer, sequences.get(producer, 0)), 0)
            sequences[producer] = sequences.get(producer, 0) + 1
            model.open.setdefault(producer, end)
        elif kind == "fail":
            disk.set_write_budget(20, errno.EIO)
            try:
                with pytest.raises(StorageError):
                    # The end of one transaction and the beginning of another; neither is written.
                    log.append(marker(end, producer, False) + transactional(end + 1, 99, 0), 0)
            finally:
                disk.set_write_budget(-1, 0)
        elif kind == "reload":
            again = ProducerState(log.directory, "t-0")
            again.load(log.producers.encode(), end)
            assert again.last_stable_offset(end) == model.stable(end)
        else:
            log.append(marker(end, producer, kind == "commit"), 0)
            first = model.open.pop(producer, None)
            if first is not None and kind == "abort":
                model.aborted.append((producer, first))
        assert log.last_stable_offset(log.log_end_offset) == model.stable(log.log_end_offset)
        assert log.aborted_transactions(0, log.log_end_offset) == model.aborted


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, data=st.data())
def test_aborted_transactions_of_what_was_read(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    """If this fails, a reader treats aborted records as committed, or each small response lists every transaction of
    the log.
    """
    config = LogConfig(segment_bytes=1_500, index_interval_bytes=200)
    log = Log.create(str(tmp_path_factory.mktemp("log") / "t-0"), "t", 0, config, 0)
    first: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    sequences: dict[int, int] = {}
    for kind, producer in steps:
        end = log.log_end_offset
        if kind in ("data", "fail", "reload"):
            log.append(transactional(end, producer, sequences.get(producer, 0)), 0)
            sequences[producer] = sequences.get(producer, 0) + 1
            first.setdefault(producer, end)
        else:
            log.append(marker(end, producer, kind == "commit"), 0)
            if producer in first and kind == "abort":
                aborted.append((producer, first[producer], end))
            first.pop(producer, None)
    if log.log_end_offset == 0:
        return
    at = data.draw(st.integers(0, log.log_end_offset - 1))
    part = log.read_slice(at, None, data.draw(st.integers(1, 3_000)))
    assert part is not None
    last = max(last for _, last, _ in split(part.read()))
    found = aborted_in_slice(log, part, at, log.log_end_offset)
    assert found == aborted_in_slice(log, part, at, log.log_end_offset)
    assert set(found) >= {(producer, begin) for producer, begin, end in aborted if end >= at and begin <= last}
    assert set(found) <= {(producer, begin) for producer, begin, end in aborted if end >= at}


def test_an_answer_does_not_name_all_that_was_aborted(tmp_path: Path) -> None:
    """If this fails, each fetch from the beginning of a long log returns megabytes of later transactions."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(segment_bytes=100_000, index_interval_bytes=500), 0)
    for number in range(2_000):
        log.append(transactional(2 * number, number, 0), 0)
        log.append(marker(2 * number + 1, number, False), 0)
    part = log.read_slice(0, None, 2_000)
    assert part is not None
    assert 10 < len(aborted_in_slice(log, part, 0, 4_000)) < 20
    assert len(log.aborted_transactions(0, 4_000)) == 2_000


def test_aborts_that_were_cut_off_are_named_no_more(tmp_path: Path) -> None:
    """If this fails, records that were written again at these offsets are left out by every reader."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    for number in range(3):
        log.append(transactional(2 * number, number, 0), 0)
        log.append(marker(2 * number + 1, number, False), 0)
        assert log.aborted_transactions(0, 9) == [(each, 2 * each) for each in range(number + 1)]
    assert log_truncation.truncate_to(log, 4, 0)
    assert log.aborted_transactions(0, 9) == [(0, 0), (1, 2)]
    log.append(transactional(4, 7, 0), 0)
    log.append(marker(5, 7, False), 0)
    assert log.aborted_transactions(0, 9) == [(0, 0), (1, 2), (7, 4)]


def test_ten_thousand_open_producers(tmp_path: Path) -> None:
    """If this fails, a broker with many transactional producers runs out of memory."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    before = sys.getsizeof(log.producers)
    count = 10_000
    for producer in range(count):
        log.append(transactional(producer, 1_000_000 + producer * 7, 0), 0)
        if producer in (1_023, 6_000, 8_200):
            assert sys.getsizeof(log.producers) - before <= 300 * (producer + 1)
    assert len(log.producers) == count
    assert log.last_stable_offset(count) == 0
    assert sys.getsizeof(log.producers) - before <= 300 * count
    # None of them is dropped, however long it has written nothing.
    assert log.producers.expire(1 << 60, 1) == 0
    assert len(log.producers) == count


def test_expiry_spares_open_transactions(tmp_path: Path) -> None:
    """If this fails, a transaction whose producer is forgotten cannot be ended by any client: readers of committed
    records wait forever.
    """
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    log.append(transactional(0, 1, 0), 0)
    log.append(transactional(1, 2, 0), 0)
    log.append(marker(2, 2, True), 0)
    assert log.producers.expire(1_000_000, 1_000) == 1
    assert [producer[0] for producer in log.producers.describe()] == [1]
    assert log.last_stable_offset(3) == 0
    log.append(marker(3, 1, True), 0)
    assert log.producers.expire(1_000_000, 1_000) == 1
    assert log.last_stable_offset(4) == 4


def test_the_end_for_committed_readers_is_not_before_the_start(tmp_path: Path) -> None:
    """If this fails, after the beginning of an open transaction was deleted, a reader is sent to an offset that the log
    does not have.
    """
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    log.append(transactional(0, 1, 0) + transactional(1, 1, 1) + batch(2), 0)
    log_deletion.delete_records_before(log, 1, 0)
    assert log.last_stable_offset(3) == 1
    log_deletion.delete_records_before(log, 3, 0)
    assert (log.last_stable_offset(3), log.log_start_offset) == (3, 3)
    assert log.last_stable_offset(2) == 2, "never beyond the high watermark"
