"""Arrow batches are bounded, and exactly what Spark expects."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not
from pyspark.sql.datasource import LessThanOrEqual as AtMost

from broker_cy.wire.records import Record
from spark_analytics.segments import options
from spark_analytics.segments.plan import Wanted
from spark_analytics.segments.read import BATCH_BYTES_MAX, ROWS_MAX, read
from spark_analytics.segments.source import arrow_schema, narrowed, schema_of
from tests.spark_analytics.segments.logs import TIME_MS, Log, ranges, rows


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


def test_rows_have_the_headers_of_the_records(tmp_path: Path) -> None:
    """If this fails, headers move to other records, or a record without headers has an empty list instead of null."""
    log = Log(tmp_path)
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(), (("a", b"1"), ("ü", None)), (), (("", b""),)]
    log.append([Record(0, TIME_MS, None, None, each) for each in headers])
    found, _ = rows(tmp_path, include_headers=True)
    assert [row["headers"] for row in found] == [
        [{"key": name, "value": content} for name, content in each] or None for each in headers
    ]


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
