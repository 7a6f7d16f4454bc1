"""Readers and writers of JSON that are made for an order of fields."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sql.dialect import parse_type
from broker_sql.formats import json_text
from broker_sql.formats.json_source import object_reader, object_writer
from broker_sql.formats.rows import RowShape


def shape(**columns: str) -> RowShape:
    return RowShape("JSON", tuple(columns), tuple(parse_type(kind) for kind in columns.values()))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INTEGER", 2**31),
        ("INTEGER", True),
        ("BIGINT", -(2**63) - 1),
        ("BIGINT", 1.0),
        ("DOUBLE", 1),
        ("BOOLEAN", 1),
        ("STRING", 5),
        ("STRING", None),
        ("DATE", 5),
        ("DECIMAL(4, 2)", 5),
        ("ARRAY<INT>", [1]),
    ],
)
def test_values_that_are_not_as_expected_go_to_the_other_function(kind: str, value: Any) -> None:
    read = object_reader(["A"], ["A"], [parse_type(kind)], lambda index, given: (index, given), False)
    assert read({"A": value}) == ((0, value),)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("INTEGER", -(2**31)), ("BIGINT", 2**63 - 1), ("DOUBLE", 1.5), ("BOOLEAN", False), ("STRING", "")],
)
def test_values_that_are_as_expected_are_taken_as_they_are(kind: str, value: Any) -> None:
    read = object_reader(["A"], ["A"], [parse_type(kind)], lambda index, given: pytest.fail("it was expected"), True)
    assert read({"A": value, "B": 1}) == {"A": value}


def test_names_of_fields_are_no_code() -> None:
    name = "a']): raise ValueError(#\n\""
    write = object_writer([name, ""], [None, None], lambda value: repr(value).encode())
    read = object_reader([name, None], [name, ""], [parse_type("INT")] * 2, lambda index, given: given, True)
    assert read({name: 1}) == {name: 1, "": None}
    assert write((1, 2)) == repr({name: 1, "": 2}).encode()


def test_records_with_more_orders_of_fields_than_have_a_reader_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "SHAPES_MAX", 2)
    _, read = json_text.make(shape(A="INT", B="STRUCT<X DOUBLE, Y STRING>", C="BIGINT"))
    for text, row in (
        (b'{"A":1,"B":{"X":1.5,"Y":"y"},"C":3}', (1, {"X": 1.5, "Y": "y"}, 3)),
        (b'{"c":3,"b":{"y":"y","x":2},"a":"1"}', (1, {"X": 2.0, "Y": "y"}, 3)),
        (b'{"B":{"Z":1},"A":null}', (None, {"X": None, "Y": None}, None)),
        (b'{"B":null,"C":4,"D":5}', (None, None, 4)),
        (b"{}", (None, None, None)),
    ):
        assert read(text) == row
        assert read(text) == row
    with pytest.raises(json_text.Mismatch, match=r"\$\.B\.X: .* is no DOUBLE"):
        read(b'{"B":{"X":[],"Q":1},"Z":1}')


def test_a_row_with_another_number_of_columns_is_not_written() -> None:
    write, _ = json_text.make(shape(A="INT", B="INT"))
    assert write((1, None)) == b'{"A":1,"B":null}'
    with pytest.raises(ValueError, match="it has 1 columns, 2 are expected"):
        write((1,))
