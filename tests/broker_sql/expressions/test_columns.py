"""Spark's columns of expressions against our values, on random rows and on the edges of types."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import pytest

from broker_sql.expressions import columns
from broker_sql.functions.standard import standard
from broker_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)
from tests.broker_sql.expressions.support import Columns
from tests.spark_analytics.conftest import quick_jvms, sigint_as_before
from tests.support import needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "b": "BOOLEAN",
    "e": "BOOLEAN",
    "i": "INT",
    "j": "INT",
    "l": "BIGINT",
    "k": "BIGINT",
    "d": "DOUBLE",
    "f": "DOUBLE",
    "n": "DECIMAL(6, 2)",
    "m": "DECIMAL(12, 4)",
    "t": "STRING",
    "u": "STRING",
    "y": "BYTES",
    "z": "BYTES",
    "at": "TIMESTAMP",
    "day": "DATE",
    "hour": "TIME",
    "ai": "ARRAY<INT>",
    "mp": "MAP<STRING, INT>",
    "s": "STRUCT<X INT, Y STRUCT<Z STRING>>",
}
# Each has a column: the test fails if one does not.
LOWERED = [
    "i + j",
    "i - j * 3",
    "i * j + i",
    "-i",
    "l + k",
    "l * k - 1",
    "i + l",
    "-l",
    "l * i",
    "i / 7",
    "i / -1",
    "i / -3",
    "l / 10",
    "l / -1",
    "i % 5",
    "l % -7",
    "d / 3e0",
    "d % 2.5e0",
    "d + f",
    "d * f - i",
    "-d",
    "d + l",
    "n + m",
    "n - m",
    "n * m",
    "n + i",
    "-n",
    "n * 2.5",
    "n + d",
    "m + l",
    "t + u",
    "t + '-' + u",
    "COALESCE(i, j, 7)",
    "IFNULL(t, 'none')",
    "COALESCE(l, 1)",
    "i = j",
    "i <> j",
    "i < l",
    "i >= 3",
    "l = d",
    "l > d",
    "d = f",
    "d <> f",
    "d < f",
    "d >= f",
    "d = 0.5",
    "d < 1e300",
    "n = m",
    "n < i",
    "m > 1.5",
    "n = d",
    "n >= l",
    "t = u",
    "t <> u",
    "t < 'm'",
    "'b' >= t",
    "y = z",
    "y <> z",
    "b = e",
    "day = at",
    "day < at",
    "at > '1970-01-02'",
    "hour = '00:00:00.001'",
    "day >= '1970-01-05'",
    "i BETWEEN -2 AND j",
    "t BETWEEN 'a' AND 'c'",
    "i NOT BETWEEN j AND 3",
    "i IS NULL",
    "t IS NOT NULL",
    "i IS DISTINCT FROM j",
    "t IS NOT DISTINCT FROM u",
    "n IS DISTINCT FROM m",
    "b AND e",
    "b OR e",
    "NOT b",
    "b AND i = j",
    "i = j OR b",
    "NOT (b OR i < 3) AND t = 'a'",
    "i IN (1, 2, NULL)",
    "i IN (j, 3)",
    "t IN ('a', u)",
    "l IN (1, '2147483648')",
    "n IN (1, 0.5)",
    "i NOT IN (1, j)",
    "t LIKE '%a%'",
    "t LIKE 'a_%'",
    "t LIKE 'a'",
    "t LIKE '%'",
    "t LIKE '_'",
    "CASE WHEN i > 0 THEN 'plus' WHEN i < 0 THEN 'minus' ELSE t END",
    "CASE WHEN b THEN i ELSE l END",
    "CASE WHEN e THEN n END",
    "CASE i WHEN 1 THEN 'one' WHEN j THEN 'j' END",
    "CASE WHEN b THEN NULL ELSE d END",
    "ai[1]",
    "ai[-1]",
    "ai[3]",
    "mp['a']",
    "mp[t]",
    "s->x",
    "s->y->z",
    "s->x + ai[1]",
    "ARRAY[i, j, NULL]",
    "ARRAY[i, l]",
    "STRUCT(a := i, `b c` := t, d := s->y)",
    "CAST(i AS BIGINT)",
    "CAST(l AS INT)",
    "CAST(d AS INT)",
    "CAST(d AS BIGINT)",
    "CAST(i AS STRING)",
    "CAST(l AS STRING)",
    "CAST(b AS STRING)",
    "CAST(i AS DOUBLE)",
    "CAST(l AS DOUBLE)",
    "CAST(n AS DOUBLE)",
    "CAST(i AS DECIMAL(14, 4))",
    "CAST(l AS DECIMAL(19, 0))",
    "CAST(n AS DECIMAL(8, 3))",
    "CAST(day AS TIMESTAMP)",
    "CAST(at AS TIME)",
]
# Spark computes another value for some row, or the value may fail.
KEPT = [
    "i / j",
    "l % k",
    "d / f",
    "n / m",
    "n % 2",
    "t < u",
    "y < z",
    "t LIKE u",
    "t LIKE 'a!%' ESCAPE '!'",
    "t LIKE 'a\\_'",
    "CAST(t AS INT)",
    "CAST(d AS STRING)",
    "CAST(i AS DECIMAL(5, 2))",
    "CAST(n AS STRING)",
    "CAST(m AS INT)",
    "CAST(at AS STRING)",
    "d IS DISTINCT FROM f",
    "d IN (1e0, f)",
    "ai = ARRAY[1]",
    "mp = MAP('a' := 1)",
    "MAP('a' := i)",
    "TWICE(i)",
    "APPLY(i, x => x + 1)",
    "t || u",
    "ai[i]",
    "n * 100000000000000000000000000000000000.0",
]


@pytest.mark.parametrize("text", ["CASE WHEN CAST(t AS INT) > 1 THEN 1 ELSE 2 END", *KEPT])
def test_an_expression_that_spark_computes_otherwise_has_no_column(text: str) -> None:
    pytest.importorskip("pyspark")
    of = Columns(**COLUMNS)
    stand_ins: Any = [_AnyColumn() for _ in COLUMNS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark.sql.functions", _AnyColumn())
        assert columns.column(of.compile(text).tree, stand_ins) is None


class _AnyColumn:
    """Stands in for Spark, which is not needed to see that an expression is refused."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def _same(self, *_: Any) -> Any:
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = __mod__ = __neg__ = __and__ = __or__ = __invert__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _same


def test_types_of_columns() -> None:
    kind = Struct((("A", Array(Decimal(6, 2))), ("b`c", Map(STRING, DATE))))
    assert columns.spark_type(kind) == "struct<`A`:array<decimal(6,2)>,`b``c`:map<string,int>>"
    with pytest.raises(ValueError, match="Spark has at most 38 digits"):
        columns.spark_type(Decimal(39, 0))


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    from pyspark import SparkContext

    from spark_analytics.session import session

    needs.require(needs.spark())
    others = SparkContext._active_spark_context
    with quick_jvms(), sigint_as_before():
        made = session("expressions", master="local[2]")
    for name, value in columns.SETTINGS.items():
        made.conf.set(name, value)
    yield made
    if others is None:
        made.stop()


EDGES: dict[SqlType, list[Any]] = {
    BOOLEAN: [True, False],
    INTEGER: [0, 1, -1, 2, 3, 2**31 - 1, -(2**31), 65536],
    BIGINT: [0, 1, -1, 2**31, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**32 + 1],
    DOUBLE: [0.0, -0.0, 0.5, 1.5, -1.5, 1e10, -1e10, 1e300, math.inf, -math.inf, math.nan, 2.0**53, 9.3e18],
    STRING: ["", "a", "b", "ab", "a\nb", "ä", "\U0001f600", "\uffee", "zz", "1"],
    BYTES: [b"", b"a", b"\x80", b"\xff\x00"],
    DATE: [0, 1, -1, 4, 19_000, -700_000],
    TIME: [0, 1, 86_399_999],
}


def value_of(kind: SqlType, chance: random.Random) -> Any:
    if chance.random() < 0.15:
        return None
    match kind:
        case Decimal(precision, scale):
            bound = 10**precision - 1
            digits = chance.choice([0, 50, bound, -bound, chance.randint(-bound, bound)])
            return Number(digits).scaleb(-scale).quantize(Number(1).scaleb(-scale))
        case Array(element):
            return [value_of(element, chance) for _ in range(chance.randrange(4))]
        case Map(key, inner):
            return {chance.choice(EDGES[key]): value_of(inner, chance) for _ in range(chance.randrange(4))}
        case Struct(fields):
            return {name: value_of(each, chance) for name, each in fields}
    if str(kind) == "TIMESTAMP":
        return chance.choice([0, -1, 345_600_000, -345_600_001, chance.randint(-(2**45), 2**45)])
    return chance.choice(EDGES[kind])


def plain(value: Any) -> Any:
    """A value of Spark or of ours, so that equal texts are equal values."""
    if isinstance(value, bytearray):
        return repr(bytes(value))
    if hasattr(value, "asDict"):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return [plain(each) for each in value.values()]
    if isinstance(value, list):
        return [plain(each) for each in value]
    return "0.0" if isinstance(value, float) and value == 0 else repr(value)


@pytest.mark.full
def test_columns_have_our_values(spark: SparkSession) -> None:
    of = Columns(**COLUMNS)
    of.scope = replace(of.scope, functions=standard())
    kinds = [kind for _, kind in of.scope.columns.values()]
    chance = random.Random(7)
    rows = [tuple(value_of(kind, chance) for kind in kinds) for _ in range(5_000)]
    schema = ", ".join(f"c{index} {columns.spark_type(kind)}" for index, kind in enumerate(kinds))
    frame = spark.createDataFrame([(index, *row) for index, row in enumerate(rows)], f"row int, {schema}")
    inputs = [frame[f"c{index}"] for index in range(len(kinds))]
    compiled = [of.compile(text) for text in LOWERED]
    lowered = [columns.column(each.tree, inputs) for each in compiled]
    assert [text for text, each in zip(LOWERED, lowered, strict=True) if each is None] == []
    results = frame.select("row", *(each.alias(f"x{index}") for index, each in enumerate(lowered) if each is not None))
    differences = []
    for index, *theirs in results.collect():
        for text, each, found in zip(LOWERED, compiled, theirs, strict=True):
            ours = each.evaluate(rows[index])
            if plain(ours) != plain(found):
                used = {
                    name: rows[index][place] for name, place in zip(COLUMNS, range(99), strict=False) if name in text
                }
                differences.append(f"{text}: {ours!r}, Spark has {found!r}; {used}")
    assert differences[:20] == []
    assert of.log == []
