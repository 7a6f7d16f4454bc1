"""Functions of numbers."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from tests.broker_sql.functions.support import REGISTRY, kinds, returned, scalar

NAN, INF = math.nan, math.inf
ONE_NUMBER = (
    "ABS ACOS ASIN ATAN CBRT CEIL COS COSH COT DEGREES EXP FLOOR LN RADIANS SIGN SIN SINH SQRT TAN TANH LOG ROUND TRUNC"
)


def same(found: Any, wanted: Any) -> bool:
    """True if the values are equal with their types, where NaN is equal to itself and -0.0 is not 0.0."""
    return repr(found) == repr(wanted)


@pytest.mark.parametrize(
    ("name", "kind", "value", "wanted"),
    [
        ("ABS", "INT", -5, 5),
        ("ABS", "INT", -(2**31), -(2**31)),
        ("ABS", "BIGINT", -(2**63), -(2**63)),
        ("ABS", "BIGINT", -(2**31), 2**31),
        ("ABS", "DOUBLE", -0.0, 0.0),
        ("ABS", "DECIMAL(4, 2)", Decimal("-7.10"), Decimal("7.10")),
        ("ACOS", "DOUBLE", 1.0, 0.0),
        ("ACOS", "INT", 2, NAN),
        ("ASIN", "DOUBLE", -1.0, -math.pi / 2),
        ("ASIN", "DOUBLE", INF, NAN),
        ("ATAN", "DOUBLE", INF, math.pi / 2),
        ("CBRT", "INT", -27, -3.0),
        ("CEIL", "DOUBLE", -0.5, -0.0),
        ("CEIL", "DOUBLE", 2.1, 3.0),
        ("CEIL", "DOUBLE", NAN, NAN),
        ("CEIL", "INT", 4, 4),
        ("CEIL", "DECIMAL(5, 2)", Decimal("-3.75"), Decimal("-3.00")),
        ("FLOOR", "DOUBLE", -2.1, -3.0),
        ("FLOOR", "DOUBLE", 0.9, 0.0),
        ("FLOOR", "DOUBLE", -INF, -INF),
        ("FLOOR", "DECIMAL(5, 2)", Decimal("-3.75"), Decimal("-4.00")),
        ("COS", "DOUBLE", INF, NAN),
        ("COSH", "DOUBLE", 1000.0, INF),
        ("SINH", "DOUBLE", -1000.0, -INF),
        ("COT", "DOUBLE", 0.0, INF),
        ("COT", "DOUBLE", -0.0, -INF),
        ("EXP", "BIGINT", 1000, INF),
        ("EXP", "BIGINT", -1000, 0.0),
        ("LN", "DOUBLE", 0.0, -INF),
        ("LN", "DOUBLE", -1.0, NAN),
        ("LOG", "DOUBLE", math.e, 1.0),
        ("SQRT", "INT", -4, NAN),
        ("SQRT", "BIGINT", 49, 7.0),
        ("SIGN", "DOUBLE", -0.1, -1),
        ("SIGN", "DOUBLE", -0.0, 0),
        ("SIGN", "BIGINT", 2**40, 1),
        ("DEGREES", "DOUBLE", math.pi, 180.0),
        ("RADIANS", "INT", 180, math.pi),
        ("TAN", "DOUBLE", -INF, NAN),
        ("ROUND", "DOUBLE", 2.5, 3),
        ("ROUND", "DOUBLE", -2.5, -2),
        ("ROUND", "DOUBLE", -2.51, -3),
        ("ROUND", "DOUBLE", 0.49999999999999994, 0),
        ("ROUND", "DOUBLE", 1e300, 2**63 - 1),
        ("ROUND", "DOUBLE", NAN, 0),
        ("ROUND", "INT", 7, 7),
        ("ROUND", "DECIMAL(5, 3)", Decimal("-1.500"), Decimal("-1")),
        ("ROUND", "DECIMAL(5, 3)", Decimal("1.500"), Decimal("2")),
        ("TRUNC", "DOUBLE", -2.9, -2),
        ("TRUNC", "DECIMAL(5, 3)", Decimal("-1.999"), Decimal("-1")),
        ("TRUNC", "BIGINT", 2**40, 2**40),
    ],
)
def test_one_argument(name: str, kind: str, value: Any, wanted: Any) -> None:
    assert same(scalar(name, [kind], value), wanted)


@pytest.mark.parametrize("name", ONE_NUMBER.split())
@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DOUBLE"])
def test_null_is_null(name: str, kind: str) -> None:
    assert scalar(name, [kind], None) is None


@pytest.mark.parametrize(
    ("name", "kinds", "values", "wanted"),
    [
        ("ROUND", ["DOUBLE", "INT"], (2.675, 2), 2.68),
        ("ROUND", ["DOUBLE", "INT"], (-2.675, 2), -2.67),
        ("ROUND", ["DOUBLE", "INT"], (87654.321, -3), 88000.0),
        ("ROUND", ["DOUBLE", "INT"], (4.5, 20), 4.5),
        ("ROUND", ["DOUBLE", "INT"], (NAN, 2), NAN),
        ("ROUND", ["DECIMAL(9, 4)", "INT"], (Decimal("12.3450"), 2), Decimal("12.3500")),
        ("ROUND", ["DECIMAL(9, 4)", "INT"], (Decimal("-12.3450"), 2), Decimal("-12.3400")),
        ("ROUND", ["DECIMAL(9, 4)", "INT"], (Decimal("12.3450"), 9), Decimal("12.3450")),
        ("ROUND", ["DECIMAL(9, 4)", "INT"], (Decimal("151.0000"), -2), Decimal("200.0000")),
        ("ROUND", ["DOUBLE", "INT"], (1.5, None), None),
        ("TRUNC", ["DOUBLE", "INT"], (-98765.4321, -2), -98700.0),
        ("TRUNC", ["DOUBLE", "INT"], (9.999, 2), 9.99),
        ("TRUNC", ["DECIMAL(9, 4)", "INT"], (Decimal("-12.3459"), 3), Decimal("-12.3450")),
        ("LOG", ["INT", "INT"], (2, 8), 3.0),
        ("LOG", ["DOUBLE", "DOUBLE"], (10.0, 0.0), -INF),
        ("LOG", ["DOUBLE", "DOUBLE"], (1.0, 5.0), NAN),
        ("LOG", ["DOUBLE", "DOUBLE"], (-3.0, 5.0), NAN),
        ("LOG", ["DOUBLE", "DOUBLE"], (3.0, -5.0), NAN),
        ("POWER", ["INT", "INT"], (2, 10), 1024.0),
        ("POWER", ["DOUBLE", "DOUBLE"], (1e300, 2.0), INF),
        ("POWER", ["DOUBLE", "DOUBLE"], (-1e300, 3.0), -INF),
        ("POWER", ["DOUBLE", "DOUBLE"], (0.0, -1.0), INF),
        ("POWER", ["DOUBLE", "DOUBLE"], (-0.0, -3.0), -INF),
        ("POWER", ["DOUBLE", "DOUBLE"], (-8.0, 1 / 3), NAN),
        ("POWER", ["DOUBLE", "DOUBLE"], (NAN, 0.0), 1.0),
        ("POWER", ["DOUBLE", "DOUBLE"], (1.0, INF), NAN),
        ("POWER", ["BIGINT", "BIGINT"], (None, 2), None),
        ("ATAN2", ["INT", "INT"], (0, -1), math.pi),
        ("ATAN2", ["DOUBLE", "DOUBLE"], (None, 1.0), None),
    ],
)
def test_two_arguments(name: str, kinds: list[str], values: tuple[Any, ...], wanted: Any) -> None:
    assert same(scalar(name, kinds, *values), wanted)


def test_types_of_decimals() -> None:
    assert returned("ROUND", "DECIMAL(9, 4)") == "DECIMAL(5, 0)"
    assert returned("TRUNC", "DECIMAL(4, 4)") == "DECIMAL(1, 0)"
    assert returned("ROUND", "DECIMAL(9, 4)", "INT") == "DECIMAL(9, 4)"
    assert returned("CEIL", "DECIMAL(9, 4)") == "DECIMAL(9, 4)"
    assert returned("ABS", "DECIMAL(9, 4)") == "DECIMAL(9, 4)"
    assert returned("ROUND", "DOUBLE") == "BIGINT"
    assert returned("SQRT", "DECIMAL(9, 4)") == "DOUBLE"


def test_long_decimals_keep_their_digits() -> None:
    value = Decimal("12345678901234567890123456789.123456789012345678901")
    assert scalar("FLOOR", ["DECIMAL(50, 21)"], value) == Decimal("12345678901234567890123456789.000000000000000000000")


def test_pi_and_random() -> None:
    assert scalar("PI", []) == math.pi
    call = REGISTRY.scalar("RANDOM", kinds()).call
    found = {call() for _ in range(20)}
    assert len(found) == 20
    assert all(0 <= each < 1 for each in found)


@pytest.mark.parametrize(
    ("points", "unit", "wanted"),
    [
        ((0.0, 0.0, 0.0, 0.0), "KM", 0.0),
        ((90.0, 0.0, -90.0, 0.0), None, math.pi * 6371),
        ((0.0, 179.0, 0.0, -179.0), "Kilometers", math.pi * 6371 / 90),
        ((52.52, 13.405, 48.137, 11.575), "MILES", 313.6),
    ],
)
def test_geo_distance(points: tuple[float, ...], unit: str | None, wanted: float) -> None:
    assert scalar("GEO_DISTANCE", ["DOUBLE"] * 4 + ["STRING"], *points, unit) == pytest.approx(wanted, abs=0.3)
    assert scalar("GEO_DISTANCE", ["DOUBLE"] * 4, *points[:3], None) is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((91.0, 0.0, 0.0, 0.0, "KM"), "latitude 91.0"),
        ((0.0, 0.0, 0.0, 181.0, "KM"), "longitude 181.0"),
        ((0.0, 0.0, 0.0, 0.0, "feet"), "'feet'"),
    ],
)
def test_geo_distance_refuses(values: tuple[Any, ...], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        scalar("GEO_DISTANCE", ["DOUBLE"] * 4 + ["STRING"], *values)
