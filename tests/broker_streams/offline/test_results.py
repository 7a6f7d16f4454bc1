"""Records of two sides in a file, and their differences."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_streams.offline.results import ContentDifference, FinalDifference, Results, Row, Side


@pytest.fixture
def results() -> Iterator[Results]:
    with Results() as made:
        yield made


def add(results: Results, side: Side, *rows: tuple[bytes | None, bytes | None]) -> None:
    results.add(side, "t", [Row(0, key, value, 7, (("h", b"1"), ("n", None))) for key, value in rows])


def test_equal_records_in_another_order(results: Results) -> None:
    """If this fails, records that two tasks wrote in turns are reported as differences."""
    add(results, Side.OLD, (b"a", b"1"), (b"b", b"2"), (b"a", None))
    add(results, Side.NEW, (b"b", b"2"))
    add(results, Side.NEW, (b"a", b"1"), (b"a", None))
    assert results.topics() == ["t"]
    assert results.counts("t") == (3, 3)
    assert list(results.contents("t")) == []
    assert list(results.finals("t")) == []
    assert results.orders("t") == [0]
    add(results, Side.NEW, (b"a", None))
    add(results, Side.OLD, (b"a", None))
    assert list(results.contents("t")) == []


def test_records_that_one_side_has_more_often(results: Results) -> None:
    """If this fails, a record that is missing or doubled is not found."""
    add(results, Side.OLD, (b"a", b"1"), (None, b"x"), (b"b", b"2"))
    add(results, Side.NEW, (b"a", b"1"), (b"a", b"1"), (None, b"y"), (b"b", b"2"))
    row = Row(0, b"a", b"1", 7, (("h", b"1"), ("n", None)))
    assert list(results.contents("t")) == [
        ContentDifference(row._replace(key=None, value=b"x"), 1, 0),
        ContentDifference(row._replace(key=None, value=b"y"), 0, 1),
        ContentDifference(row, 1, 2),
    ]
    assert results.orders("t") == [0]
    assert list(results.finals("t")) == []
    assert results.of_key(Side.NEW, "t", 0, b"a", 9) == [row, row]
    assert results.of_key(Side.NEW, "t", 0, None, 9) == [row._replace(key=None, value=b"y")]


def test_last_values_of_keys(results: Results) -> None:
    """If this fails, a table with another row is taken for an equal one, or a deleted row for a difference."""
    add(results, Side.OLD, (b"a", b"1"), (b"a", b"3"), (b"b", b"2"), (b"c", None), (b"d", b"4"), (b"d", None))
    add(results, Side.NEW, (b"a", b"3"), (b"b", b"5"), (b"e", b"6"), (b"d", b"4"))
    assert list(results.finals("t")) == [
        FinalDifference(0, b"b", b"2", b"5"),
        FinalDifference(0, b"d", None, b"4"),
        FinalDifference(0, b"e", None, b"6"),
    ]


def test_equal_order(results: Results) -> None:
    """If this fails, the strictest comparison never holds."""
    for side in Side:
        add(results, side, (b"a", b"1"), (b"a", b"3"), (None, b"2"))
    assert results.orders("t") == []
    assert list(results.contents("t")) == []
