"""Producer state: the results of Kafka's ProducerAppendInfo, for any history, over rollbacks, snapshots and expiry."""

import errno
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.storage import disk
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.resends import refill_producers

from .batches import batch

SEQUENCES = 1 << 31
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
DUPLICATE = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


class Model:
    """KIP-98 and KIP-360 in plain Python: producer -> (epoch, last five (first, last, offset, timestamp))."""

    def __init__(self) -> None:
        self.producers: dict[int, tuple[int, list[tuple[int, int, int, int]]]] = {}

    def judge(self, producer_id: int, epoch: int, first: int, count: int) -> tuple[int, int, int]:
        if producer_id not in self.producers:
            return ErrorCode.NONE, -1, -1
        known, recent = self.producers[producer_id]
        last = (first + count - 1) % SEQUENCES
        if epoch < known:
            return FENCED, -1, -1
        if epoch > known:
            return (ErrorCode.NONE if first == 0 else OUT_OF_ORDER), -1, -1
        for old_first, old_last, offset, timestamp in recent:
            if (old_first, old_last) == (first, last):
                return DUPLICATE, offset, timestamp
        expected = (recent[-1][1] + 1) % SEQUENCES if recent else 0
        return (ErrorCode.NONE if first == expected else OUT_OF_ORDER), -1, -1

    def take(self, producer_id: int, epoch: int, first: int, count: int, offset: int, timestamp: int) -> None:
        known, recent = self.producers.get(producer_id, (epoch, []))
        if known != epoch:
            recent = []
        recent = [*recent, (first, (first + count - 1) % SEQUENCES, offset, timestamp)][-5:]
        self.producers[producer_id] = (epoch, recent)


def sent(offset: int, step: tuple[int, int, int, int], timestamp: int) -> bytes:
    producer_id, epoch, first, count = step
    return batch(
        offset, count, timestamp=timestamp, producer_id=producer_id, producer_epoch=epoch, sequence=first % SEQUENCES
    )


step = st.tuples(
    st.sampled_from([0, 1, 5, 1 << 40]),
    st.integers(0, 2),
    # Mostly the next sequence, near the wrap; sometimes a resend or a gap.
    st.sampled_from(["next", "next", "next", "again", "older", "gap", "zero"]),
    st.integers(1, 3),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=60), st.lists(st.booleans(), max_size=60))
def test_answers_are_those_of_kafka(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, str, int]], failures: list[bool]
) -> None:
    """If this fails, a resend is stored twice, a gap goes unnoticed, or a correct producer is refused forever."""
    log = Log.create(str(tmp_path_factory.mktemp("producers") / "t-0"), "t", 0, LogConfig(), 0)
    model = Model()
    for number, (producer_id, epoch, kind, count) in enumerate(steps):
        recent = model.producers.get(producer_id, (0, []))[1]
        following = (recent[-1][1] + 1) % SEQUENCES if recent else SEQUENCES - 2
        first = {
            "next": following,
            "again": recent[-1][0] if recent else 0,
            "older": recent[0][0] if recent else 0,
            "gap": following + 1,
            "zero": 0,
        }[kind] % SEQUENCES
        if kind in {"again", "older"} and recent:
            found = recent[-1] if kind == "again" else recent[0]
            count = (found[1] - found[0]) % SEQUENCES + 1
        data = sent(log.log_end_offset, (producer_id, epoch, first, count), number)
        expected = model.judge(producer_id, epoch, first, count)
        assert log.producers.check_batch(data) == expected
        if expected[0] != ErrorCode.NONE:
            continue
        if number < len(failures) and failures[number]:
            # The write fails: the producer must be able to send the same batch again.
            disk.set_write_budget(10, errno.ENOSPC)
            with pytest.raises(StorageError):
                log.append(data, 0)
            disk.set_write_budget(-1, 0)
            assert log.producers.check_batch(data) == expected
            if producer_id not in model.producers and first == 0:
                # ... and only that one: batches that it sent directly afterwards would be stored before it.
                model.producers[producer_id] = (epoch, [])
        else:
            model.take(producer_id, epoch, first, count, log.log_end_offset, number)
            log.append(data, 0)
    assert len(log.producers) == len(model.producers)


def test_staged_batches_count_at_once(tmp_path: Path) -> None:
    """If this fails, two batches of one producer that arrive together are refused as out of order."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    many = b"".join(sent(3 * i, (7, 0, 3 * i, 3), 50 + i) for i in range(8))
    log.append(many, 0)
    assert log.producers.check_batch(sent(24, (7, 0, 9, 3), 0)) == (DUPLICATE, 9, 53)
    assert log.producers.check_batch(sent(24, (7, 0, 6, 3), 0))[0] == OUT_OF_ORDER, "only five are remembered"


def fill(state_of: str, count: int) -> Log:
    log = Log.create(state_of, "t", 0, LogConfig(), 0)
    for i in range(count):
        log.append(sent(log.log_end_offset, (i, i % 3, 0, 2), i), 0)
    return log


def test_snapshots_round_trip(tmp_path: Path) -> None:
    """If this fails, after a restart producers are refused, or their resends stored again."""
    log = fill(str(tmp_path / "t-0"), 300)
    data = log.producers.encode()
    version, _, count = struct.unpack_from(">hIi", data)
    assert (version, count, len(data)) == (1, 300, 10 + 300 * 46)
    state = ProducerState(str(tmp_path))
    state.load(data, 600)
    assert state.describe() == log.producers.describe()
    assert state.encode() == data
    for i in range(300):
        assert state.check_batch(sent(600, (i, i % 3, 0, 2), 0)) == (DUPLICATE, 2 * i, i)
        assert state.check_batch(sent(600, (i, i % 3, 2, 2), 0))[0] == ErrorCode.NONE
    state.load(data, 600, now_ms=1_100, expiration_ms=1_000)
    assert sorted(producer[0] for producer in state.describe()) == list(range(101, 300))


@pytest.mark.parametrize("since", range(4))
@pytest.mark.parametrize("written", range(1, 8))
def test_the_last_batches_are_known_after_a_snapshot(tmp_path: Path, written: int, since: int) -> None:
    """If this fails, a client that resends its last batches after a restart is refused: they are in the log."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    log.append(sent(0, (9, 0, 0, 2), 0), 0)
    offsets = [log.log_end_offset + 3 * i for i in range(written + since)]
    for i in range(written):
        log.append(sent(offsets[i], (7, 0, 3 * i, 3), 50 + i), 0)
    log.producers.load(log.producers.encode(), log.log_end_offset)
    for i in range(written, written + since):
        log.append(sent(offsets[i], (7, 0, 3 * i, 3), 50 + i), 0)
    refill_producers(log.segments, log.producers)
    end, known = log.log_end_offset, max(0, written + since - 5)
    for i in range(known, written + since):
        assert log.producers.check_batch(sent(end, (7, 0, 3 * i, 3), 0)) == (DUPLICATE, offsets[i], 50 + i)
    assert log.producers.check_batch(sent(end, (7, 0, 3 * (written + since), 3), 0))[0] == ErrorCode.NONE
    for i in range(known):
        assert log.producers.check_batch(sent(end, (7, 0, 3 * i, 3), 0))[0] == OUT_OF_ORDER


def test_what_a_producer_wrote_before_it_began_again_is_no_duplicate(tmp_path: Path) -> None:
    """If this fails, a producer whose state expired, and that began again, loses records as duplicates of old ones."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    for offset, first in ((0, 0), (3, 3), (6, 0), (9, 3)):
        if offset == 6:
            log.producers.load(fill(str(tmp_path / "other-0"), 1).producers.encode(), 6)
        log.append(sent(offset, (7, 0, first, 3), 50), 0)
    refill_producers(log.segments, log.producers)
    for first, offset in ((0, 6), (3, 9)):
        assert log.producers.check_batch(sent(12, (7, 0, first, 3), 0)) == (DUPLICATE, offset, 50)


def test_damaged_snapshots_are_refused(tmp_path: Path) -> None:
    """If this fails, a broken snapshot gives producers a state they never had."""
    data = fill(str(tmp_path / "t-0"), 3).producers.encode()
    state = ProducerState(str(tmp_path))
    for at in range(len(data)):
        for broken in (data[:at], data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]):
            with pytest.raises(WireError):
                state.load(broken, 6)
    with pytest.raises(WireError):
        state.load(data + b"\0", 6)


def test_idle_producers_expire(tmp_path: Path) -> None:
    """If this fails, the memory of a log grows with every producer that ever wrote to it."""
    log = fill(str(tmp_path / "t-0"), 1_000)
    assert log.producers.expire(1_500, 1_000) == 501
    assert len(log.producers) == 499
    # A producer that is forgotten may continue with any sequence (KIP-360).
    assert log.producers.check_batch(sent(2_000, (5, 2, 77, 2), 0))[0] == ErrorCode.NONE
    assert log.producers.check_batch(sent(2_000, (700, 1, 77, 2), 0))[0] == OUT_OF_ORDER


def transactional(offset: int, producer_id: int, sequence: int, count: int = 1) -> bytes:
    return batch(
        offset, count, producer_id=producer_id, producer_epoch=0, sequence=sequence, attributes=0x10, timestamp=9
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    key, value = bytes([0, 0, 0, kind]), bytes([0, 0, 0, 0, 0, 3])
    record = bytes([0, 0, 0, len(key) * 2]) + key + bytes([len(value) * 2]) + value + bytes([0])
    payload = bytes([len(record) * 2]) + record
    return batch(offset, producer_id=producer_id, producer_epoch=0, attributes=0x30, payload=payload)


def test_open_transactions_hold_the_last_stable_offset(tmp_path: Path) -> None:
    """If this fails, a read_committed consumer sees records of a transaction that is aborted later."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    log.append(batch(0), 0)
    log.append(transactional(1, 10, 0, 2), 0)
    log.append(transactional(3, 20, 0), 0)
    assert log.last_stable_offset(4) == 1
    assert log.producers.check_batch(batch(4, producer_id=10, producer_epoch=0, sequence=2))[0] == (
        ErrorCode.INVALID_TXN_STATE
    )
    log.append(marker(4, 20, 0), 0)
    assert log.last_stable_offset(5) == 1
    log.append(marker(5, 10, 1), 0)
    # The markers are written, and only one of them is below the high watermark.
    assert log.last_stable_offset(5) == 1
    assert log.last_stable_offset(6) == 6
    assert log.aborted_transactions(0, 6) == [(20, 3)]
    assert [producer[4] for producer in sorted(log.producers.describe())] == [3, 3]


def test_a_failed_write_takes_a_marker_back(tmp_path: Path) -> None:
    """If this fails, a transaction is reported as ended whose marker was never written."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, LogConfig(), 0)
    log.append(transactional(0, 10, 0), 0)
    disk.set_write_budget(20, errno.EIO)
    with pytest.raises(StorageError):
        log.append(marker(1, 10, 0) + transactional(2, 11, 0), 0)
    disk.set_write_budget(-1, 0)
    assert log.last_stable_offset(1) == 0
    assert log.aborted_transactions(0, 1) == []
    # Producer 11 is only known to have begun.
    assert [producer[:3] for producer in log.producers.describe()] == [(10, 0, 0), (11, 0, -1)]
    assert log.producers.describe()[1][5] == -1
    log.append(marker(1, 10, 0), 0)
    assert log.last_stable_offset(2) == 2
    assert log.aborted_transactions(0, 2) == [(10, 0)]
