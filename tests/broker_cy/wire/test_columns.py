"""Records become columns in Arrow's layout without a change."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.wire.columns import Columns
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch

TIME_MS = 1_700_000_000_000
NAMES = st.text(max_size=5)
BYTES = st.none() | st.binary(max_size=20)
RECORDS = st.builds(
    Record,
    timestamp=st.integers(-1, 2**43),
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=30), st.integers(1, 7), st.integers(1, 200), st.integers(0, 4))
def test_columns_have_what_the_records_have(records: list[Record], rows_max: int, bytes_max: int, codec: int) -> None:
    """If this fails, a key, value, header, time or null changes, at a batch's end or within a batch."""
    (batch,) = decode_batches(encode_batch(records, base_offset=7, codec=codec))
    columns = Columns(rows_max, bytes_max, True)
    columns.begin(batch, 8, 7 + len(records))
    found: list[int] = []
    is_done = False
    keys: list[bytes | None] = []
    while not is_done:
        is_done = columns.fill()
        number, (valid, nulls, ends, data), _, offsets, times, types, headers = columns.take()
        assert number <= rows_max
        assert headers is not None
        offset_list = memoryview(offsets).cast("q").tolist()
        found += offset_list
        assert memoryview(times).cast("q").tolist() == [records[each - 7].timestamp * 1000 for each in offset_list]
        assert memoryview(types).cast("i").tolist() == [0] * number
        lists = memoryview(headers[2]).cast("i").tolist()
        assert [b - a for a, b in itertools.pairwise(lists)] == [len(records[each - 7].headers) for each in offset_list]
        edges = memoryview(ends).cast("i").tolist()
        read_keys = [data[edges[n] : edges[n + 1]] if valid[n >> 3] >> (n & 7) & 1 else None for n in range(number)]
        assert read_keys.count(None) == nulls
        keys += read_keys
    assert found == list(range(8, 7 + len(records)))
    assert keys == [each.key for each in records[1:]]


def one_header(key: bytes) -> Batch:
    """Return a batch of one record whose header has this key, which need not be UTF-8."""
    data = bytearray(encode_batch([Record(0, TIME_MS, None, None, (("?" * len(key), b"x"),))]))
    at = data.index(b"?" * len(key))
    data[at : at + len(key)] = key
    (batch,) = decode_batches(bytes(data))
    return batch


@pytest.mark.parametrize(
    ("key", "text"), [(b"\xff", "\ufffd"), ("ü€".encode(), "ü€"), (b"a\xed\xa0\x80b", "a\ufffdb"), (b"plain", "plain")]
)
def test_header_keys_that_are_not_utf_8_are_read_as_java_reads_them(key: bytes, text: str) -> None:
    """If this fails, Spark gets invalid strings, or other ones than from its Kafka source."""
    columns = Columns(10, 1000, True)
    columns.begin(one_header(key), 0, 10)
    assert columns.fill()
    headers = columns.take()[-1]
    assert headers is not None
    assert headers[4][3].decode() == text


def test_columns_need_room() -> None:
    """If this fails, columns without room never fill."""
    for room in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="at least 1 of each is needed"):
            Columns(*room)
