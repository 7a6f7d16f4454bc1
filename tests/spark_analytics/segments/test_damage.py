"""Damage is reported with its file and offset, or left out and counted; a batch that the broker is writing is not
damage.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broker_cy.core.crc32c import value as crc32c
from broker_cy.wire.records import Record, encode_batch
from spark_analytics.segments import report
from spark_analytics.segments.errors import DamageError
from tests.spark_analytics.segments.logs import Log, offsets, rows
from tests.spark_analytics.segments.logs import records as new_records

PER_BATCH = 10
LENGTH_AT, MAGIC_AT, CRC_AT, RECORDS_AT = 8, 16, 17, 61


def filled(root: Path, batches: int = 6) -> Log:
    log = Log(root)
    for _ in range(batches):
        log.append(new_records(PER_BATCH, log.next_offset))
    return log


def without(*bases: int, count: int = 60) -> list[int]:
    return [each for each in range(count) if each // PER_BATCH * PER_BATCH not in bases]


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (RECORDS_AT + 5, "the checksum of the batch of offsets 20 to 29 is"),
        (CRC_AT, "the checksum of the batch of offsets 20 to 29 is"),
        (MAGIC_AT, "magic"),
        (LENGTH_AT, "length -"),
        (LENGTH_AT + 1, "ends inside a batch"),
    ],
)
def test_damage_stops_or_is_left_out(tmp_path: Path, at: int, reason: str) -> None:
    """If this fails, damage is not noticed, not named, or costs more than the batch that has it."""
    log = filled(tmp_path)
    log.flip(20, at)
    with pytest.raises(DamageError, match=reason) as caught:
        offsets(tmp_path)
    assert (caught.value.path, caught.value.offset) == (str(log.path("log")), 20)
    assert str(log.path("log")) in str(caught.value)
    assert "offset 20" in str(caught.value)
    found, counters = rows(tmp_path, on_damage="skip")
    assert [row["offset"] for row in found] == without(20)
    assert counters.damaged == 1
    assert counters.damaged_bytes == log.positions[30] - log.positions[20]


def test_damage_elsewhere_does_not_matter(tmp_path: Path) -> None:
    """If this fails, a read stops at damage of records that it does not want."""
    filled(tmp_path).flip(20, RECORDS_AT)
    assert offsets(tmp_path, ending_offset=20) == list(range(20))
    assert offsets(tmp_path, starting_offset=30) == list(range(30, 60))


def test_without_an_index_the_rest_of_the_segment_is_left_out(tmp_path: Path) -> None:
    """If this fails, a reader that does not know the batch boundaries interprets other bytes as records, or never
    ends.
    """
    log = filled(tmp_path)
    log.roll()
    log.append(new_records(5, 60))
    log.flip(20, LENGTH_AT + 1, segment=0)
    log.path("index", 0).unlink()
    found, counters = rows(tmp_path, on_damage="skip")
    assert [row["offset"] for row in found] == [*range(20), *range(60, 65)]
    assert counters.damaged == 1


def test_a_segment_that_was_cut_off_is_damage(tmp_path: Path) -> None:
    """If this fails, records that a power loss removed from the middle of a log are not reported."""
    log = filled(tmp_path, 3)
    log.roll()
    log.append(new_records(5, 30))
    path = log.path("log", 0)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamageError, match="ends inside a batch") as caught:
        offsets(tmp_path)
    assert (caught.value.path, caught.value.offset) == (str(path), 20)
    assert offsets(tmp_path, on_damage="skip") == [*range(20), *range(30, 35)]


@pytest.mark.parametrize("left_bytes", [1, 16, 17, 60, 61, 100])
def test_an_incomplete_last_batch_is_not_there_yet(tmp_path: Path, left_bytes: int) -> None:
    """If this fails, reading a log while the broker writes fails from time to time."""
    log = filled(tmp_path)
    batch = encode_batch(new_records(PER_BATCH, 60), base_offset=60)
    with log.path("log").open("ab") as file:
        file.write(batch[:left_bytes])
    assert offsets(tmp_path) == list(range(60))
    log.mark(60)
    assert offsets(tmp_path) == list(range(60))


def test_a_last_batch_below_the_high_watermark_is_damage(tmp_path: Path) -> None:
    """If this fails, lost committed records are not reported."""
    log = filled(tmp_path)
    log.mark(60)
    path = log.path("log")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamageError, match="the high watermark is 60") as caught:
        offsets(tmp_path)
    assert (caught.value.path, caught.value.offset) == (str(path), 50)
    assert offsets(tmp_path, on_damage="skip") == list(range(50))


def test_zeros_at_the_end_are_no_damage(tmp_path: Path) -> None:
    """If this fails, a segment that was allocated in advance (preallocate=true) cannot be read."""
    log = filled(tmp_path, 3)
    with log.path("log").open("ab") as file:
        file.write(bytes(4096))
    assert offsets(tmp_path) == list(range(30))
    log.roll()
    log.append(new_records(PER_BATCH, 30))
    assert offsets(tmp_path) == list(range(40))


def test_offsets_that_go_back_are_damage(tmp_path: Path) -> None:
    """If this fails, a wrong base offset, which no checksum covers, goes unnoticed."""
    log = filled(tmp_path)
    log.flip(50, 7)  # 50 becomes 205
    assert offsets(tmp_path, ending_offset=50) == list(range(50))
    log.append(new_records(PER_BATCH, 60))
    for end in (55, 1000):
        with pytest.raises(DamageError, match="the batch has the offsets 205 to 214, and 60 follows") as caught:
            offsets(tmp_path, ending_offset=end)
        assert caught.value.offset == 50
    assert offsets(tmp_path, on_damage="skip") == without(50, count=70)
    log.flip(20, 6)
    log.flip(40, 7)  # 40 becomes 215, and 20 is 65,000 later
    assert offsets(tmp_path, on_damage="skip") == without(20, 40, 50, count=70)
    log.flip(20, 6)
    log.flip(20, 0)  # negative
    assert offsets(tmp_path, on_damage="skip") == without(20, 40, 50, count=70)


@pytest.mark.parametrize("codec", [0, 1])
def test_a_malformed_record_behind_a_correct_checksum_is_damage(tmp_path: Path, codec: int) -> None:
    """If this fails, a part of a malformed batch becomes rows, or the reader reads past its end."""
    log = filled(tmp_path, 2)
    data = bytearray(encode_batch(new_records(PER_BATCH, 20), base_offset=20, codec=codec))
    data[RECORDS_AT if codec == 0 else len(data) // 2] ^= 0x7F
    data[CRC_AT : CRC_AT + 4] = struct.pack(">I", crc32c(bytes(data[21:])))
    log.append_bytes(bytes(data), 20, 29, 0)
    log.append(new_records(PER_BATCH, 30))
    with pytest.raises(DamageError) as caught:
        offsets(tmp_path)
    assert caught.value.offset == 20
    assert offsets(tmp_path, on_damage="skip") == [*range(20), *range(30, 40)]


def test_a_timestamp_that_spark_cannot_hold_is_named(tmp_path: Path) -> None:
    """If this fails, a producer's absurd timestamp becomes another time."""
    log = filled(tmp_path, 1)
    log.append([Record(0, 2**62, None, b"")])
    with pytest.raises(DamageError, match=f"offset 10 has the timestamp {2**62}"):
        offsets(tmp_path)
    assert offsets(tmp_path, on_damage="skip") == list(range(10))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 5), st.integers(0, 200), st.integers(1, 255))
def test_any_damaged_byte_costs_its_batch_alone(
    tmp_path_factory: pytest.TempPathFactory, batch: int, at: int, mask: int
) -> None:
    """If this fails, a damaged byte makes the reader fail, hang, give wrong records, or leave out intact ones."""
    assume(at >= LENGTH_AT or batch < 5)
    log = filled(tmp_path_factory.mktemp("log"))
    path = log.path("log")
    whole, _ = rows(log.root)
    data = bytearray(path.read_bytes())
    data[log.positions[batch * PER_BATCH] + at] ^= mask
    path.write_bytes(data)
    found, _ = rows(log.root, on_damage="skip")
    expected = [row for row in whole if row["offset"] // PER_BATCH != batch]
    # The leader epoch (bytes 12 to 15) is in no checksum and in no row. The base offset is only checked against the
    # next batch, which the last batch does not have.
    assert found == (whole if 12 <= at < 16 else expected)


def test_figures_are_written_where_the_report_is_wanted(tmp_path: Path) -> None:
    """If this fails, a user does not see how much damaged data was left out."""
    log = filled(tmp_path / "data")
    log.flip(20, RECORDS_AT)
    folder = tmp_path / "report"
    _, counters = rows(tmp_path / "data", on_damage="skip", report=str(folder))
    found = report.total(folder)
    assert (found.records, found.damaged, found.batches) == (50, 1, 5)
    assert 0 < found.bytes_read <= counters.bytes_read
