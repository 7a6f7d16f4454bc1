"""ListOffsets for the largest timestamp (KIP-734), after records were deleted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_deletion import delete_records_before
from broker_cy.storage.lookups import MaximumDeleted, max_timestamp
from broker_cy.wire.records import Record, encode_batch

TIME_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1_500, index_interval_bytes=200)
ONE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=200)


def append(log: Log, *times_ms: int, codec: int = 0) -> None:
    records = [Record(at, time_ms, b"k", b"v") for at, time_ms in enumerate(times_ms)]
    log.append(encode_batch(records, base_offset=log.log_end_offset, codec=codec), 5)


def test_the_record_with_the_largest_timestamp_is_deleted(tmp_path: Path) -> None:
    """If this fails, a tool treats a partition with records as empty."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, ONE, 0)
    for more_ms in (9, 4, 5):
        append(log, TIME_MS + more_ms)
    assert log.max_timestamp() == (TIME_MS + 9, 0)
    delete_records_before(log, 1, 0)
    with pytest.raises(MaximumDeleted):
        max_timestamp(log)
    assert log.max_timestamp() == (TIME_MS + 5, 2)
    delete_records_before(log, 3, 0)
    assert log.max_timestamp() is None
    append(log, TIME_MS + 1)
    assert log.max_timestamp() == (TIME_MS + 1, 3)


@pytest.mark.parametrize("codec", [0, 4])
def test_records_are_deleted_up_to_the_middle_of_a_batch(tmp_path: Path, codec: int) -> None:
    """If this fails, the answer is a record that cannot be read, or none."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, ONE, 0)
    append(log, TIME_MS + 9, TIME_MS + 3, TIME_MS + 7, TIME_MS + 7, TIME_MS + 2, codec=codec)
    append(log, TIME_MS + 6, TIME_MS + 5, codec=codec)
    found = []
    for start in range(7):
        delete_records_before(log, start, 0)
        newest = log.max_timestamp()
        assert newest is not None
        found.append((newest[0] - TIME_MS, newest[1]))
    assert found == [(9, 0), (7, 2), (7, 2), (7, 3), (6, 5), (6, 5), (5, 6)]


@pytest.mark.parametrize("config", [ONE, SMALL], ids=["one segment", "several segments"])
def test_the_largest_timestamp_is_that_of_what_is_left(tmp_path: Path, config: LogConfig) -> None:
    """The same for random batches and deletions, against a list of all records."""
    draw = random.Random(7)
    for number in range(20):
        path = str(tmp_path / f"t-{number}")
        log = Log.create(path, "t", 0, config, 0)
        times: list[int] = []
        for _ in range(40):
            more = [TIME_MS + draw.randrange(30) for _ in range(draw.choice([1, 1, 2, 5]))]
            append(log, *more, codec=draw.choice([0, 0, 4]))
            times += more
            if draw.random() < 0.3:
                start = draw.randint(log.log_start_offset, log.log_end_offset)
                delete_records_before(log, start, 0)
            left = list(enumerate(times))[log.log_start_offset :]
            newest = max((time_ms for _, time_ms in left), default=None)
            expected = None if newest is None else (newest, next(at for at, time_ms in left if time_ms == newest))
            assert log.max_timestamp() == expected
