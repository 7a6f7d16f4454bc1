"""The digest of records: a fixed function of their content, in their order."""

from __future__ import annotations

from array import array
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core.errors import WireError
from broker_cy.wire.digest import folded, hashed, is_same_payload, joined, record_hashes
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch

MASK = (1 << 64) - 1


def batch_of(*records: Record, **header: int) -> Batch:
    (found,) = decode_batches(encode_batch(records, **header))  # type: ignore[arg-type]
    return found


def record(value: bytes | None, key: bytes | None = b"k", timestamp: int = 5) -> Record:
    return Record(0, timestamp, key, value, ())


def hashes_of(*records: Record, **header: int) -> list[int]:
    return list(array("Q", record_hashes(batch_of(*records, **header), 0, 1 << 62)[1]))


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_known_values_of_xxh64(data: bytes, seed: int, expected: int) -> None:
    """Digests of two releases are compared with each other."""
    assert hashed(data, seed) == expected


def test_each_part_of_a_record_counts() -> None:
    """A part that is left out could differ on both sides without anyone seeing it."""
    found = [
        hashes_of(each)[0]
        for each in (
            record(b"v"),
            record(b"w"),
            record(None),
            record(b""),
            record(b"v", b"l"),
            record(b"v", None),
            record(b"v", b""),
            record(b"v", timestamp=6),
            Record(0, 5, b"k", b"v", (("h", b"1"),)),
            Record(0, 5, b"k", b"v", (("h", None),)),
        )
    ]
    found += hashes_of(record(b"v"), log_append_time_ms=5)
    assert len(set(found)) == len(found)


def test_offsets_and_producers_do_not_count() -> None:
    """A copy has other offsets and another producer."""
    assert hashes_of(record(b"v")) == hashes_of(record(b"v"), base_offset=9, producer_id=4, producer_epoch=1)


def test_records_outside_the_range_are_left_out() -> None:
    """Ranges of both sides begin inside batches."""
    batch = batch_of(*(record(bytes([each])) for each in range(5)), base_offset=10)
    offsets, hashes, keys = record_hashes(batch, 11, 14, True, True)
    assert list(array("q", offsets)) == [11, 12, 13]
    assert len(hashes) == len(keys) == 24


def test_keys_are_told_apart() -> None:
    """Compacted topics are compared by key; the last bit says that the value is null."""
    batch = batch_of(record(b"v", b"a"), record(None, b"a"), record(b"v", b"b"), record(b"v", None), record(b"v", b""))
    keys = array("Q", record_hashes(batch, 0, 9, True, True)[2])
    assert [each & 1 for each in keys] == [0, 1, 0, 0, 0]
    assert keys[0] >> 1 == keys[1] >> 1
    assert len({each >> 1 for each in keys}) == 4


def test_a_malformed_batch_is_refused() -> None:
    """Foreign bytes must end in an error."""
    data = bytearray(encode_batch([record(b"value")]))
    for size in (0x7E, 0x01, 0x00):
        data[61] = size
        (found,) = decode_batches(bytes(data))
        with pytest.raises(WireError):
            record_hashes(found, 0, 9)


def test_a_payload_is_the_same_under_another_header() -> None:
    """Equal batches are recognised without decoding them."""
    one = batch_of(record(b"v"), record(b"w"))
    assert is_same_payload(one, batch_of(record(b"v"), record(b"w"), base_offset=5, producer_id=3, leader_epoch=2))
    assert not is_same_payload(one, batch_of(record(b"v"), record(b"x")))
    assert not is_same_payload(one, batch_of(record(b"v")))
    later = batch_of(record(b"v", timestamp=9), record(b"w", timestamp=9))
    assert not is_same_payload(one, later)
    assert is_same_payload(one, later, False)


NUMBERS = st.lists(st.integers(0, MASK), max_size=20)


@given(NUMBERS, NUMBERS)
def test_the_digests_of_parts_give_that_of_the_whole(one: list[int], other: list[int]) -> None:
    """Tasks of Spark read parts of a range."""
    first, second = folded(0, array("Q", one)), folded(0, array("Q", other))
    whole = folded(0, array("Q", one + other))
    assert joined(first, second, len(other)) == whole
    assert folded(first, array("Q", other)) == whole
    assert whole == reduce(lambda so_far, each: (so_far * 0xD6E8FEB86659FD93 + each) & MASK, one + other, 0)


def test_the_order_counts() -> None:
    """Records in another order are a difference."""
    found = {folded(0, array("Q", each)) for each in ([1, 2, 3], [1, 3, 2], [3, 2, 1])}
    assert len(found) == 3
