"""Types of expressions, and errors with their places."""

from __future__ import annotations

import pytest

from broker_sql.errors import AnalysisError, Location
from tests.broker_sql.expressions.support import Columns

COLUMNS = {
    "b": "BOOLEAN",
    "i": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "n": "DECIMAL(4, 2)",
    "m": "DECIMAL(5, 3)",
    "t": "STRING",
    "y": "BYTES",
    "at": "TIMESTAMP",
    "day": "DATE",
    "hour": "TIME",
    "ai": "ARRAY<INT>",
    "al": "ARRAY<BIGINT>",
    "mp": "MAP<STRING, INT>",
    "s": "STRUCT<X INT, Y STRUCT<Z STRING>>",
    "rowtime": "BIGINT",
}


@pytest.fixture
def columns() -> Columns:
    return Columns(**COLUMNS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "INTEGER"),
        ("-2147483648", "INTEGER"),
        ("2147483648", "BIGINT"),
        ("1.0", "DECIMAL(2, 1)"),
        ("0.005", "DECIMAL(4, 3)"),
        ("12345.12345", "DECIMAL(10, 5)"),
        ("1e3", "DOUBLE"),
        ("i + i", "INTEGER"),
        ("i * l", "BIGINT"),
        ("i / d", "DOUBLE"),
        ("n + m", "DECIMAL(6, 3)"),
        ("n - i", "DECIMAL(13, 2)"),
        ("n * m", "DECIMAL(10, 5)"),
        ("n / m", "DECIMAL(13, 8)"),
        ("n % m", "DECIMAL(5, 3)"),
        ("l + n", "DECIMAL(22, 2)"),
        ("n + d", "DOUBLE"),
        ("-n", "DECIMAL(4, 2)"),
        ("t + 'x'", "STRING"),
        ("t || 'x'", "STRING"),
        ("i > n", "BOOLEAN"),
        ("at > day", "BOOLEAN"),
        ("hour = '10:00'", "BOOLEAN"),
        ("ai[1]", "INTEGER"),
        ("mp['a']", "INTEGER"),
        ("s->y->z", "STRING"),
        ("CASE WHEN b THEN i ELSE l END", "BIGINT"),
        ("CASE WHEN b THEN NULL ELSE t END", "STRING"),
        ("CASE i WHEN 1 THEN 'one' END", "STRING"),
        ("ARRAY[NULL, 10, '2e1', i, l]", "ARRAY<DECIMAL(19, 0)>"),
        ("ARRAY[1, '1234567890000']", "ARRAY<BIGINT>"),
        ("ARRAY['a', 1, TRUE]", "ARRAY<STRING>"),
        ("ARRAY[STRUCT(x := i, y := l), STRUCT(y := i, z := l)]", "ARRAY<STRUCT<`X` INTEGER, `Y` BIGINT, `Z` BIGINT>>"),
        ("MAP('a' := 1, 'b' := 2.5)", "MAP<STRING, DECIMAL(11, 1)>"),
        ("STRUCT(a := i, `b` := ARRAY[t])", "STRUCT<`A` INTEGER, `b` ARRAY<STRING>>"),
        ("STRUCT()", "STRUCT< >"),
        ("CAST(NULL AS ARRAY<INT>)", "ARRAY<INTEGER>"),
        ("APPLY(i, x => x + l)", "BIGINT"),
        ("APPLY(i, i => APPLY(t, x => x + t))", "STRING"),
    ],
)
def test_types_of_expressions(columns: Columns, text: str, kind: str) -> None:
    assert columns.type(text) == kind


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("i + b", 1, "I + B: INTEGER and BOOLEAN do not calculate"),
        ("1 + (t + d)", 6, "T + D: STRING and DOUBLE do not calculate"),
        ("i >= 'no int'", 1, "Cannot compare I (INTEGER) to 'no int' (STRING) with GREATER_THAN_OR_EQUAL."),
        ("ai < al", 1, "Cannot compare AI (ARRAY<INTEGER>) to AL (ARRAY<BIGINT>) with LESS_THAN."),
        ("b < TRUE", 1, "with LESS_THAN."),
        ("hour = at", 1, "Cannot compare HOUR (TIME) to AT (TIMESTAMP) with EQUAL."),
        ("i = NULL", 1, "INTEGER = NULL: NULL equals nothing"),
        ("at > 'yesterday'", 6, "'yesterday' is no TIMESTAMP"),
        ("i IN (10, '10 - not a number')", 11, '"10 - not a number" is no INTEGER'),
        ("n IN (10.0, 'x')", 13, '"x" is no DECIMAL'),
        ("n IN (10, t)", 11, "DECIMAL(12, 2) and STRING cannot be compared: T"),
        ("b IN (TRUE, 'Not a boolean')", 13, '"Not a boolean" is no BOOLEAN'),
        ("t IN (10, d)", 11, "STRING and DOUBLE cannot be compared: D"),
        ("al IN (al, ARRAY[b])", 12, "ARRAY<BIGINT> and ARRAY<BOOLEAN> cannot be compared: ARRAY[B]"),
        ("al IN (ARRAY['10', 'not 10'])", 20, '"not 10" is no BIGINT'),
        ("NOT i", 5, "NOT: BOOLEAN is expected, I is INTEGER"),
        ("i LIKE 'x'", 1, "LIKE: STRING is expected, I is INTEGER"),
        ("s->nothing", 1, "Could not find field 'NOTHING' in 'S'. Its fields: X, Y"),
        ("i->x", 1, "-> is for a STRUCT, I is INTEGER"),
        ("s['X']", 1, "do not apply to STRUCT<`X` INTEGER, `Y` STRUCT<`Z` STRING>>. A field of a STRUCT is"),
        ("i[1]", 1, "Subscript expression (I[1]) do not apply to INTEGER."),
        ("ai[t]", 1, "an index of INTEGER or BIGINT is expected, got STRING"),
        ("CAST(t AS ARRAY<INT>)", 1, "Cast of STRING to ARRAY<INTEGER> is not supported"),
        ("CASE WHEN i + 10 THEN 'x' END", 11, "WHEN takes a BOOLEAN"),
        ("CASE WHEN b THEN 'x' WHEN b THEN 10 END", 34, "the branches of CASE have several types"),
        ("CASE WHEN b THEN 'x' ELSE b END", 27, "ELSE is BOOLEAN"),
        ("CASE WHEN b THEN NULL END", 1, "all branches of CASE are NULL"),
        ("ARRAY[NULL]", 1, "all elements of ARRAY are NULL"),
        ("ARRAY[]", 1, "Array constructor cannot be empty"),
        ("MAP(NULL := 1)", 1, "all keys of MAP are NULL"),
        ("STRUCT(a := 1, a := 2)", 1, "STRUCT has the field A twice"),
        ("ROWTIM + 1", 1, "Column 'ROWTIM' cannot be resolved. Nearest names: ROWTIME"),
        ("NULL", 1, "NULL alone has no type"),
        ("-t", 1, "- is for numbers, got STRING"),
        ("APPLY(i, (x, y) => x)", 10, "Was expecting 1 arguments but found 2, [X, Y]"),
        ("NOFUNCTION(i)", 1, "no function NOFUNCTION"),
    ],
)
def test_errors_name_the_place_and_the_types(columns: Columns, text: str, column: int, message: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        columns.type(text)
    assert message in caught.value.message
    assert caught.value.location == Location(1, column)


def test_a_target_widens_and_refuses_to_narrow(columns: Columns) -> None:
    compiled = columns.compile("i", "DOUBLE")
    assert str(compiled.type) == "DOUBLE"
    assert repr(compiled.evaluate(columns.row(i=3))) == "3.0"
    with pytest.raises(AnalysisError, match="L is BIGINT, INTEGER is expected: use CAST"):
        columns.compile("l", "INTEGER")
