"""Casts of values, and which of them need no CAST."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Any

import pytest

from broker_sql.errors import AnalysisError
from broker_sql.expressions import casts
from broker_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)

KINDS: dict[str, SqlType] = {
    "BOOLEAN": BOOLEAN,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DECIMAL": Decimal(4, 2),
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "BYTES": BYTES,
    "TIME": TIME,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "ARRAY": Array(BIGINT),
    "MAP": Map(BIGINT, STRING),
    "STRUCT": Struct((("A", STRING),)),
}
NUMBERS = {"INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING"}
ALLOWED = {
    "BOOLEAN": {"STRING"},
    **dict.fromkeys(("INTEGER", "BIGINT", "DECIMAL", "DOUBLE"), NUMBERS),
    "STRING": {*NUMBERS, "BOOLEAN", "TIME", "DATE", "TIMESTAMP", "BYTES"},
    "BYTES": set(),
    "TIME": {"STRING"},
    "DATE": {"TIMESTAMP", "STRING"},
    "TIMESTAMP": {"TIME", "DATE", "STRING"},
    "ARRAY": {"STRING"},
    "MAP": {"STRING"},
    "STRUCT": {"STRING"},
}


@pytest.mark.parametrize("source", KINDS)
def test_pairs_of_types_that_have_a_cast(source: str) -> None:
    allowed = {target for target, kind in KINDS.items() if casts.castable(KINDS[source], kind)}
    assert allowed == ALLOWED[source] | {source}
    nested = {target for target, kind in KINDS.items() if casts.castable(Array(KINDS[source]), Array(kind))}
    assert nested == allowed


def test_a_pair_without_cast_is_named_with_those_that_have_one() -> None:
    with pytest.raises(AnalysisError, match="Cast of TIME to DATE is not supported; allowed: STRING"):
        casts.caster(TIME, DATE)


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (2**31, BIGINT, INTEGER, -(2**31)),
        (3.99, DOUBLE, INTEGER, 3),
        (Number("4567.5"), Decimal(5, 1), INTEGER, 4567),
        (Number(2**31), Decimal(10, 0), INTEGER, -(2**31)),
        (10.01, DOUBLE, Decimal(4, 2), Number("10.01")),
        (0.99, DOUBLE, Decimal(2, 1), Number("1.0")),
        (Number("-1.19"), Decimal(3, 2), Decimal(2, 1), Number("-1.2")),
        (Number("10.00"), Decimal(4, 2), DOUBLE, 10.0),
        (Number("0.00"), Decimal(4, 2), STRING, "0.00"),
        (" 0.010 ", STRING, Decimal(3, 2), Number("0.01")),
        (1e10, DOUBLE, STRING, "1.0E10"),
        ("IQ==", STRING, BYTES, b"!"),
        ("Y", STRING, BOOLEAN, True),
        ("what", STRING, BOOLEAN, False),
        (-2000, TIMESTAMP, TIME, 86_398_000),
        (-2000, TIMESTAMP, DATE, -1),
        (10, DATE, TIMESTAMP, 864_000_000),
        ([1, None, 2**31], Array(BIGINT), Array(INTEGER), [1, None, -(2**31)]),
        ({"k": {"j": "10"}}, Map(STRING, Map(STRING, STRING)), Map(STRING, Map(STRING, INTEGER)), {"k": {"j": 10}}),
        (
            {"A": 1, "B": "b"},
            Struct((("A", BIGINT), ("B", STRING))),
            Struct((("A", STRING), ("C", STRING))),
            {"A": "1", "C": None},
        ),
        ([1, 3], Array(INTEGER), STRING, "[1, 3]"),
        (None, STRING, INTEGER, None),
    ],
)
def test_values_of_casts(value: Any, source: SqlType, target: SqlType, result: Any) -> None:
    found = casts.cast(value, source, target)
    assert found == result
    assert type(found) is type(result)
    if isinstance(result, Number):
        assert found.as_tuple() == result.as_tuple()


def test_a_decimal_that_is_too_large_is_refused() -> None:
    with pytest.raises(ArithmeticError, match=r"10 does not fit DECIMAL\(2, 1\)"):
        casts.cast(10, INTEGER, Decimal(2, 1))


def test_a_decimal_has_no_negative_zero() -> None:
    assert str(casts.cast("-0.001", STRING, Decimal(3, 2))) == "0.00"


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        (INTEGER, BIGINT, BIGINT),
        (BIGINT, Decimal(14, 3), Decimal(22, 3)),
        (INTEGER, Decimal(11, 0), Decimal(11, 0)),
        (Decimal(14, 4), Decimal(14, 5), Decimal(15, 5)),
        (Decimal(40, 2), DOUBLE, DOUBLE),
    ],
)
def test_the_wider_of_two_numbers(one: SqlType, other: SqlType, result: SqlType) -> None:
    assert casts.wider(one, other) == casts.wider(other, one) == result


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        (INTEGER, DOUBLE, True),
        (BIGINT, INTEGER, False),
        (DOUBLE, Decimal(4, 2), False),
        (Decimal(5, 2), Decimal(6, 3), True),
        (Decimal(2, 1), Decimal(2, 2), False),
        (INTEGER, STRING, False),
        (Array(INTEGER), Array(BIGINT), True),
        (Map(STRING, BIGINT), Map(STRING, INTEGER), False),
        (Struct((("A", INTEGER), ("B", STRING))), Struct((("A", BIGINT), ("C", STRING))), True),
    ],
)
def test_casts_without_cast(source: SqlType, target: SqlType, allowed: bool) -> None:
    assert casts.implicit(source, target) is allowed


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (3, BIGINT, Decimal(3, 2), Number("3.00")),
        (Number("10.010"), Decimal(5, 3), Decimal(4, 2), Number("10.01")),
        ("2018-09-01", STRING, TIMESTAMP, 1_535_760_000_000),
        ("IQ==", STRING, BYTES, b"!"),
        ([10, -99], Array(BIGINT), Array(DOUBLE), [10.0, -99.0]),
        ({"A": 1}, Struct((("A", INTEGER),)), Struct((("A", BIGINT), ("B", INTEGER))), {"A": 1, "B": None}),
        (None, None, STRING, None),
    ],
)
def test_values_of_inserts(value: Any, source: SqlType | None, target: SqlType, result: Any) -> None:
    assert casts.coerce(value, source, target) == result


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        ("10", STRING, INTEGER),
        (10, INTEGER, STRING),
        (1.5, DOUBLE, BIGINT),
        (2**31, BIGINT, INTEGER),
        (Number("10.01"), Decimal(4, 2), Decimal(4, 1)),
        (100, INTEGER, Decimal(3, 2)),
        ("woof", STRING, TIME),
        (True, BOOLEAN, INTEGER),
    ],
)
def test_values_that_an_insert_refuses(value: Any, source: SqlType, target: SqlType) -> None:
    with pytest.raises(
        AnalysisError,
        match=f"Expected type {target.__class__.__name__.upper() if isinstance(target, Decimal) else target}",
    ):
        casts.coerce(value, source, target)
