"""A comparison that is too lax would count failures as passed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.broker_sql.query_tests.comparing import matches


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (None, None),
        (1, 1),
        (5, Decimal("5.0")),
        (0.1 + 0.2, Decimal("0.3")),
        (Decimal("1.50"), Decimal("1.50")),
        (Decimal("1.50"), "1.50"),
        (Decimal("5"), 5),
        (Decimal("4.611686018427388E+18"), Decimal("4.6116860184273879E+18")),
        (b"abc", "YWJj"),
        ({"A": 1, "b": [None]}, {"a": 1, "b": [None]}),
    ],
)
def test_values_that_ksqldb_takes_as_equal(actual: Any, expected: Any) -> None:
    assert matches(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (0, None),
        (True, 1),
        (1, True),
        ("1", 1),
        (1, "1"),
        (1.1, Decimal("1.2")),
        (Decimal("4.611686018427388E+18"), Decimal("4.6116860184273889E+18")),
        (Decimal("1.5"), Decimal("1.50")),
        (Decimal("5.0"), 5),
        ({"A": 1}, {"A": 1, "B": None}),
        ({"A": 1, "B": None}, {"A": 1}),
        ([1], [1, 2]),
        ([1], {"0": 1}),
    ],
)
def test_values_that_differ(actual: Any, expected: Any) -> None:
    assert not matches(actual, expected)
