"""Values of expressions: NULL, overflow, errors of records, and the order of evaluation."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from broker_sql import expressions
from broker_sql.dialect import parse_expression
from broker_sql.errors import AnalysisError
from tests.broker_sql.expressions.support import Columns

COLUMNS = {
    "b": "BOOLEAN",
    "i": "INT",
    "j": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "n": "DECIMAL(4, 2)",
    "m": "DECIMAL(4, 2)",
    "t": "STRING",
    "u": "STRING",
    "y": "BYTES",
    "at": "TIMESTAMP",
    "day": "DATE",
    "ai": "ARRAY<INT>",
    "mp": "MAP<STRING, INT>",
    "s": "STRUCT<X INT, Y STRUCT<Z STRING>>",
    "rowtime": "BIGINT",
}


@pytest.fixture
def columns() -> Columns:
    return Columns(**COLUMNS)


def check(columns: Columns, text: str, values: dict[str, Any], expected: Any) -> None:
    found = columns.value(text, **values)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("i + 1", {"i": 2**31 - 1}, -(2**31)),
        ("i * i * i", {"i": 2**20}, 0),
        ("(i + j) * 2 - 1", {"i": 3, "j": None}, None),
        ("-i", {"i": -(2**31)}, -(2**31)),
        ("l * l", {"l": 2**32 + 1}, 2**33 + 1),
        ("i * l", {"i": 2, "l": 2**62}, -(2**63)),
        ("i / 2", {"i": -7}, -3),
        ("i / j", {"i": -(2**31), "j": -1}, -(2**31)),
        ("i % 3", {"i": -7}, -1),
        ("7 % i", {"i": -3}, 1),
        ("6 % i", {"i": -3}, 0),
        ("i / j", {"i": 1, "j": None}, None),
        ("d / 0", {"d": -1.0}, float("-inf")),
        ("d / 0", {"d": 0.0}, float("nan")),
        ("d % 2", {"d": -5.5}, -1.5),
        ("d % 0", {"d": 1.0}, float("nan")),
        ("l + d", {"l": 2**53 + 1, "d": 0.0}, 9007199254740992.0),
        ("n + m", {"n": Decimal("10.01"), "m": Decimal("5.10")}, Decimal("15.11")),
        ("n * m", {"n": Decimal("10.10"), "m": Decimal("-2.00")}, Decimal("-20.2000")),
        ("n * m", {"n": Decimal("-10.10"), "m": Decimal("0.00")}, Decimal("0.0000")),
        ("n / m", {"n": Decimal("10.10"), "m": Decimal("-2.00")}, Decimal("-5.0500000")),
        ("n / m", {"n": Decimal("1.00"), "m": Decimal("3.00")}, Decimal("0.3333333")),
        ("n % m", {"n": Decimal("10.10"), "m": Decimal("-2.00")}, Decimal("0.10")),
        ("n + i", {"n": Decimal("10.01"), "i": 5}, Decimal("15.01")),
        ("n + d", {"n": Decimal("10.01"), "d": 5.1}, 15.11),
        (
            "n * 1000000000000000000000000000000.0",
            {"n": Decimal("99.99")},
            Decimal("99990000000000000000000000000000.000"),
        ),
        ("-n", {"n": Decimal("0.00")}, Decimal("0.00")),
        ("t + '-' + u", {"t": "a", "u": "b"}, "a-b"),
        ("t + u", {"t": "a"}, None),
        ("t || u", {"t": "a"}, "a"),
    ],
)
def test_arithmetic(columns: Columns, text: str, values: dict[str, Any], expected: Any) -> None:
    check(columns, text, values, expected)
    assert columns.log == []


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("i = 1", {"i": None}, False),
        ("i <> 1", {"i": None}, False),
        ("NOT i = 1", {"i": None}, True),
        ("i IS NULL", {"i": None}, True),
        ("i IS NOT NULL", {"i": None}, False),
        ("i IS DISTINCT FROM j", {"i": None, "j": None}, False),
        ("i IS DISTINCT FROM j", {"i": 1, "j": None}, True),
        ("i IS NOT DISTINCT FROM j", {"i": 1, "j": 1}, True),
        ("d = 1.1", {"d": 1.1}, True),
        ("n = 1.1", {"n": Decimal("1.10")}, True),
        ("n < i", {"n": Decimal("0.99"), "i": 1}, True),
        ("l = d", {"l": 2**53 + 1, "d": 2.0**53}, True),
        ("i BETWEEN 1 AND j", {"i": 2, "j": 2}, True),
        ("i BETWEEN 1 AND j", {"i": 2, "j": None}, False),
        ("t < u", {"t": "\U0001f600", "u": "\ufffd"}, True),
        ("t < 'z'", {"t": "\U0001f600"}, False),
        ("y < y", {"y": b"a"}, False),
        ("at > '1970-01-01T00:00:00.010'", {"at": 11}, True),
        ("at = day", {"at": 864_000_000, "day": 10}, True),
        ("day < '1970-02'", {"day": 30}, True),
        ("rowtime >= '2018'", {"rowtime": 1_514_764_800_000}, True),
        ("rowtime BETWEEN '2019-01-01T00:00:00+0445' AND '2020'", {"rowtime": 1_546_300_800_000}, True),
        ("ai = ARRAY[1, NULL]", {"ai": [1, None]}, True),
        ("mp = MAP('a' := 1)", {"mp": {"a": 1}}, True),
        ("t LIKE '%oo%'", {"t": "foobar"}, True),
        ("t LIKE 'f_o%'", {"t": "foo\nbar"}, True),
        ("t LIKE 'foo'", {"t": "foobar"}, False),
        ("t LIKE '%'", {"t": ""}, True),
        ("t LIKE 'f%'", {"t": "foo"}, True),
        ("t LIKE u", {"t": ".^$\\*", "u": ".^$\\*"}, True),
        ("t LIKE 'f!%o' ESCAPE '!'", {"t": "f%o"}, True),
        ("t LIKE 'f%%o' ESCAPE '%'", {"t": "fxo"}, False),
        ("i IN (1, 2.0, '3')", {"i": 3}, True),
        ("i IN (1, '2147483648')", {"i": -(2**31)}, False),
        ("i IN (11, NULL, j)", {"i": None, "j": None}, False),
        ("i NOT IN (1, j)", {"i": 5, "j": None}, True),
        ("t IN (TRUE, 10.30)", {"t": "10.30"}, True),
        ("ai IN (ARRAY[1, 2], ARRAY['3', NULL])", {"ai": [3, None]}, True),
        ("s IN (STRUCT(X := '7'), STRUCT(X := 1, Y := STRUCT(Z := 'z')))", {"s": {"X": 7, "Y": None}}, True),
    ],
)
def test_conditions(columns: Columns, text: str, values: dict[str, Any], expected: bool) -> None:
    check(columns, text, values, expected)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("b AND i = 1", {"b": False, "i": 1}, False),
        ("b AND i = 1", {"b": None, "i": 1}, None),
        ("b OR i = 1", {"b": None, "i": 1}, None),
        ("i = 1 OR b", {"b": None, "i": 2}, None),
        ("NOT b", {"b": None}, None),
        ("i <> 0 AND 10 / i > 1", {"i": 0}, False),
        ("i = 0 OR 10 / i > 1", {"i": 0}, True),
        ("CASE WHEN i = 0 THEN 0 ELSE 10 / i END", {"i": 0}, 0),
        ("CASE WHEN i = 0 THEN 10 / i ELSE 1 END", {"i": 3}, 1),
        ("CASE WHEN b THEN 'yes' ELSE 'no' END", {"b": None}, "no"),
        ("CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", {"i": 2}, "two"),
        ("CASE i WHEN 1 THEN 'one' END", {"i": 2}, None),
    ],
)
def test_only_what_decides_is_evaluated(columns: Columns, text: str, values: dict[str, Any], expected: Any) -> None:
    check(columns, text, values, expected)
    assert columns.log == []


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("ai[1]", {"ai": [7, 8]}, 7),
        ("ai[-1]", {"ai": [7, 8]}, 8),
        ("ai[3]", {"ai": [7, 8]}, None),
        ("ai[-3]", {"ai": [7, 8]}, None),
        ("ai[i]", {"ai": [7, 8], "i": 0}, None),
        ("ai[i]", {"ai": [7, 8], "i": 2}, 8),
        ("ai[1]", {"ai": None}, None),
        ("mp['a']", {"mp": {"a": 5}}, 5),
        ("mp[t]", {"mp": {"a": 5}, "t": "b"}, None),
        ("mp['a']", {"mp": None}, None),
        ("s->y->z", {"s": {"X": 1, "Y": {"Z": "z"}}}, "z"),
        ("s->y->z", {"s": {"X": 1, "Y": None}}, None),
        ("ARRAY[i, NULL, '3']", {"i": 1}, [1, None, 3]),
        ("MAP('a' := i, t := 2)", {"i": None, "t": None}, {"a": None, None: 2}),
        ("STRUCT(a := i, b := s->x)", {"i": 1, "s": None}, {"A": 1, "B": None}),
        ("CAST(ai AS ARRAY<STRING>)", {"ai": [1, None]}, ["1", None]),
        ("TWICE(i)", {"i": 3}, 6.0),
        ("APPLY(i, x => x + APPLY(j, y => x * y))", {"i": 2, "j": 5}, 12),
        ("APPLY(i, i => i + 1)", {"i": 2}, 3),
    ],
)
def test_parts_of_values_and_calls(columns: Columns, text: str, values: dict[str, Any], expected: Any) -> None:
    check(columns, text, values, expected)
    assert columns.log == []


@pytest.mark.parametrize(
    ("text", "values", "expected", "logged"),
    [
        ("i / 0 + 1", {"i": 1}, None, ("integer division or modulo by zero", "I / 0 + 1")),
        ("n / m", {"n": Decimal("1.00"), "m": Decimal("0.00")}, None, ("/ by zero", "N / M")),
        (
            "CAST(t AS INT)",
            {"t": "x"},
            None,
            ("'x' is no INTEGER: digits with an optional sign are allowed", "CAST(T AS INTEGER)"),
        ),
        ("COUNTED(FAIL(i), 1)", {"i": 1}, 1, ("it fails", "FAIL(I)")),
        ("COUNTED(i / 0, 1)", {"i": 1}, None, ("integer division or modulo by zero", "COUNTED(I / 0, 1)")),
        ("ARRAY[1, i / 0]", {"i": 1}, [1, None], ("integer division or modulo by zero", "I / 0")),
        (
            "APPLY(i, x => ARRAY[x * 2, 3])",
            {"i": None},
            [None, 3],
            ("an operator in a lambda got NULL; COALESCE gives another value", "X * 2"),
        ),
        (
            "APPLY(i, x => x + 1)",
            {"i": None},
            None,
            ("an operator in a lambda got NULL; COALESCE gives another value", "APPLY(I, X => X + 1)"),
        ),
        (
            "APPLY(i, x => COUNTED(x, 1) < 3 AND x % 5 = 0)",
            {"i": None},
            None,
            (
                "an operator in a lambda got NULL; COALESCE gives another value",
                "APPLY(I, X => COUNTED(X, 1) < 3 AND X % 5 = 0)",
            ),
        ),
        ("APPLY(i, x => x / 0)", {"i": 1}, None, ("integer division or modulo by zero", "APPLY(I, X => X / 0)")),
    ],
)
def test_an_error_of_a_record_gives_null_and_a_line_in_the_log(
    columns: Columns, text: str, values: dict[str, Any], expected: Any, logged: tuple[str, str]
) -> None:
    check(columns, text, values, expected)
    assert columns.log == [logged]


def test_an_error_in_one_column_leaves_the_others(columns: Columns) -> None:
    nodes = [parse_expression(text) for text in ("i / 0", "i + 1", "t", "NULL = i OR b")]
    with pytest.raises(AnalysisError, match="NULL equals nothing"):
        expressions.compile_all(nodes, columns.scope)
    compiled, whole = expressions.compile_all(nodes[:3], columns.scope)
    row = columns.row(i=1, t="text")
    assert whole(row) == (None, 2, "text")
    assert [each.evaluate(row) for each in compiled] == [None, 2, "text"]
    assert [str(each.type) for each in compiled] == ["INTEGER", "INTEGER", "STRING"]


def test_a_predicate_is_false_where_it_is_null_or_fails(columns: Columns) -> None:
    for text in ("b", "NOT b", "i / 0 = 1", "NOT (i / 0 = 1)"):
        found = expressions.predicate(parse_expression(text), columns.scope)
        assert found.evaluate(columns.row(i=1)) is False
    assert expressions.predicate(parse_expression("i = 1"), columns.scope).evaluate(columns.row(i=1)) is True


def test_a_predicate_that_is_no_condition_is_refused(columns: Columns) -> None:
    with pytest.raises(AnalysisError, match=r"HAVING takes a BOOLEAN, and I \+ 1 is INTEGER"):
        expressions.predicate(parse_expression("i + 1"), columns.scope, "HAVING")
    with pytest.raises(AnalysisError, match="Error in WHERE expression: Cannot compare"):
        expressions.predicate(parse_expression("i > t"), columns.scope)


def test_names_in_generated_code_cannot_be_injected(columns: Columns) -> None:
    text = "STRUCT(`a'): x(` := i, `b\n` := t)"
    assert columns.value(text, i=1, t="'\"\\") == {"a'): x(": 1, "b\n": "'\"\\"}
    assert columns.value("APPLY(i, `x):` => `x):` + 1)", i=1) == 2
