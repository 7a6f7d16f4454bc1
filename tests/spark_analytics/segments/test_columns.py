"""Arrow batches are bounded, and exactly what Spark expects."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not
from pyspark.sql.datasource import LessThanOrEqual as AtMost

from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch
from spark_analytics.segments import options
from spark_analytics.segments.columns import Columns
from spark_analytics.segments.plan import Wanted
from spark_analytics.segments.read import BATCH_BYTES_MAX, ROWS_MAX, read
from spark_analytics.segments.source import arrow_schema, narrowed, schema_of
from tests.spark_analytics.segments.logs import TIME_MS, Log, ranges, rows

NAMES = st.text(max_size=5)
BYTES = st.none() | st.binary(max_size=20)
RECORDS = st.builds(
    Record,
    timestamp=st.integers(-1, 2**43),
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=3),
)


def sizes(log: Log, with_headers: bool = False) -> list[int]:
    """Return the rows of each Arrow batch; all have the offsets from 0 on without a gap."""
    chosen = options.parse(options.as_text([log.root], ["t"], include_headers=with_headers))
    (planned,), _ = ranges(log.root)
    batches = list(read(planned, chosen, arrow_schema(schema_of(chosen))))
    offsets = [each for batch in batches for each in batch.column("offset").to_pylist()]
    assert offsets == list(range(log.next_offset))
    assert all(batch.nbytes <= BATCH_BYTES_MAX * 1.01 for batch in batches if batch.num_rows > 1)
    return [batch.num_rows for batch in batches]


def test_a_batch_has_at_most_so_many_rows(tmp_path: Path) -> None:
    """If this fails, Arrow batches grow with the broker's batches, and an executor's memory with them."""
    log = Log(tmp_path)
    log.append([Record(0, TIME_MS, None, b"")] * (2 * ROWS_MAX + 100), codec=1)
    log.append([Record(0, TIME_MS, None, b"")] * 50)
    assert sizes(log) == [ROWS_MAX, ROWS_MAX, 150]


@pytest.mark.parametrize("where", ["key", "value", "headers"])
def test_a_batch_has_at_most_so_many_bytes(tmp_path: Path, where: str) -> None:
    """If this fails, large records make Arrow batches that exceed an executor's memory."""
    log = Log(tmp_path)
    part = BATCH_BYTES_MAX * 3 // 8
    for size in (part, part, part, 3 * part, 1):
        data: Any = (("h", bytes(size)),) if where == "headers" else bytes(size)
        log.append([Record(**{"timestamp": TIME_MS, where: data})], codec=4)
    assert sizes(log, with_headers=True) == [2, 1, 1, 1]


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


def test_rows_have_the_headers_of_the_records(tmp_path: Path) -> None:
    """If this fails, headers move to other records, or a record without headers has an empty list instead of null."""
    log = Log(tmp_path)
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(), (("a", b"1"), ("ü", None)), (), (("", b""),)]
    log.append([Record(0, TIME_MS, None, None, each) for each in headers])
    found, _ = rows(tmp_path, include_headers=True)
    assert [row["headers"] for row in found] == [
        [{"key": name, "value": content} for name, content in each] or None for each in headers
    ]


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


AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=1)
AT_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("topic",), "a"), In(("partition",), (1, 2))], Wanted(frozenset({"a"}), frozenset({1, 2}))),
        ([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], Wanted(topics=frozenset({"b"}))),
        ([GreaterThan(("offset",), 5), LessThan(("offset",), 9)], Wanted(start=6, end=9)),
        ([GreaterThanOrEqual(("offset",), 5), AtMost(("offset",), 9)], Wanted(start=5, end=10)),
        ([In(("offset",), (7, 3)), GreaterThan(("offset",), 1)], Wanted(start=3, end=8)),
        ([GreaterThanOrEqual(("timestamp",), AT)], Wanted(since_ms=AT_MS + 1)),
        ([GreaterThan(("timestamp",), AT)], Wanted(since_ms=AT_MS + 1)),
        (
            [EqualTo(("timestamp",), AT), GreaterThan(("timestamp",), AT.replace(microsecond=0))],
            Wanted(since_ms=AT_MS + 1),
        ),
        # Producers' clocks may go back: an upper bound of time excludes no offset.
        ([LessThan(("timestamp",), AT)], Wanted()),
        ([GreaterThan(("timestamp",), AT.replace(tzinfo=None))], Wanted()),
        ([Not(EqualTo(("offset",), 5)), IsNotNull(("offset",)), EqualTo(("key",), b"x")], Wanted()),
        ([EqualTo(("headers", "key"), "x")], Wanted()),
    ],
)
def test_filters_become_places(filters: list[Filter], expected: Wanted) -> None:
    """If this fails, a filter excludes records that match it, or reads more than it needs."""
    wanted = Wanted()
    for each in filters:
        wanted = narrowed(wanted, each)
    assert wanted == expected
