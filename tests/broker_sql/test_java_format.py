"""Texts of values against those that Java prints and reads."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from broker_sql import java_format, types
from broker_sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, STRING, TIME, TIMESTAMP, Array, Map, Struct


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [(2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (-(2**31) - 1, 2**31 - 1), (3 * 2**31, -(2**31)), (-1, -1)],
)
def test_overflow_of_int_wraps_around(value: int, wrapped: int) -> None:
    assert java_format.wrap_integer(value) == wrapped


@pytest.mark.parametrize(("value", "wrapped"), [(2**63, -(2**63)), (-(2**63) - 1, 2**63 - 1), (2**64 + 5, 5)])
def test_overflow_of_long_wraps_around(value: int, wrapped: int) -> None:
    assert java_format.wrap_bigint(value) == wrapped


@pytest.mark.parametrize(
    ("value", "whole"),
    [(1.9, 1), (-1.9, -1), (1e10, 2**31 - 1), (-1e10, -(2**31)), (float("nan"), 0), (float("inf"), 2**31 - 1)],
)
def test_a_double_becomes_the_nearest_int(value: float, whole: int) -> None:
    assert java_format.double_to_integer(value) == whole


@pytest.mark.parametrize(("value", "whole"), [(1e19, 2**63 - 1), (-1e19, -(2**63)), (float("nan"), 0), (-2.5, -2)])
def test_a_double_becomes_the_nearest_long(value: float, whole: int) -> None:
    assert java_format.double_to_bigint(value) == whole


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-719_529, "-0001-12-31"),
    ],
)
def test_dates_before_and_after_the_years_of_python(days: int, text: str) -> None:
    assert java_format.date_text(days) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (TIME, 1005, "00:00:01"),
        (TIME, 60_000, "00:01"),
        (TIMESTAMP, 10, "1970-01-01T00:00:00.010"),
        (TIMESTAMP, -1, "1969-12-31T23:59:59.999"),
        (TIMESTAMP, 253_402_300_800_000, "+10000-01-01T00:00:00.000"),
        (DOUBLE, 1e10, "1.0E10"),
        (types.Decimal(8, 7), Decimal("1E-7"), "0.0000001"),
        (BOOLEAN, True, "true"),
        (Array(STRING), ["a", None], "[a, null]"),
        (Map(STRING, Array(BIGINT)), {"a": [1], "b": None}, "{a=[1], b=null}"),
        (Struct((("A", INTEGER), ("b", DOUBLE), ("C", DATE))), {"A": 1, "b": None, "C": 0}, "Struct{A=1,C=1970-01-01}"),
    ],
)
def test_texts_of_values(kind: types.SqlType, value: Any, text: str) -> None:
    assert java_format.value_text(value, kind) == text


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2017", 1_483_228_800_000),
        ("2020-02", 1_580_515_200_000),
        ("2020-01-02T", 1_577_923_200_000),
        ("2020-01-02TZ", 1_577_923_200_000),
        ("2020-12-02T13Z", 1_606_914_000_000),
        ("2019-03-17T03:00-0700", 1_552_816_800_000),
        ("2017-11-13T23:59:58.999+01:00", 1_510_613_998_999),
        ("2020-02-24T24", 1_582_588_800_000),
        ("2020-12-31T24:00:00.000", 1_609_459_200_000),
        ("1970-01-01T00:00:00.01", 10),
    ],
)
def test_a_timestamp_is_read_from_its_beginning_too(text: str, time_ms: int) -> None:
    assert java_format.parse_timestamp(text) == time_ms


@pytest.mark.parametrize("text", ["abc", "2017-1-1", "2019-03-17 03:00", "2017-01-01T00:00:00.000+foo", "2017-13", ""])
def test_a_text_that_is_no_timestamp_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="Required format is") as caught:
        java_format.parse_timestamp(text)
    assert repr(text) in str(caught.value)


def test_dates_and_times_are_read() -> None:
    assert [java_format.parse_date(each) for each in ("1990", "1990-01", "1990-01-02")] == [7305, 7305, 7306]
    assert [java_format.parse_time(each) for each in ("10:00", "10:00:00", "10:00:00.001")] == [
        36_000_000,
        36_000_000,
        36_000_001,
    ]
    with pytest.raises(ValueError, match=r"HH:mm:ss\.SSS"):
        java_format.parse_time("24:00")
    with pytest.raises(ValueError, match="yyyy-MM-dd"):
        java_format.parse_date("1990-02-30")


def test_numbers_are_read_without_the_blanks_around_them() -> None:
    assert java_format.parse_integer("\t -11 \t") == -11
    assert java_format.parse_double(" 1e3 ") == 1000.0
    assert java_format.parse_decimal("1.344e2") == Decimal("134.4")


@pytest.mark.parametrize("text", ["2147483648", "1.0", "", "1_000", "٣"])
def test_a_text_that_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="INTEGER"):
        java_format.parse_integer(text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1,5", "0x1p3", ""])
def test_a_text_that_is_no_finite_double_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="DOUBLE"):
        java_format.parse_double(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("tRu", True), ("Y", True), ("fAlS", False), ("nO", False), (" true", None), ("", None), ("x", None)],
)
def test_booleans_are_read_from_prefixes(text: str, value: bool | None) -> None:
    assert java_format.exact_boolean(text) is value
    assert java_format.parse_boolean(text) is (value is True)
