"""Expressions as Spark's columns, for those whose values are equal to ours on all rows.

    column(tree, inputs)    the Spark column of a tree, or None: then the expression is evaluated in Python
    spark_type(kind)        the type of a column of inputs and results

Inputs are Spark columns in the order of the row. DATE and TIME are Spark's INT, TIMESTAMP is BIGINT, so that no zone of
a session matters; all others are the types of the same name. A session has the SETTINGS, by which Spark computes as
Java does: overflow wraps around.

An expression has no column if a value may fail (ksqlDB then gives NULL for the whole expression, Spark for a part), or
if Spark orders or prints values in another way: texts are compared by `<` only with ASCII, doubles have no text, and
calls of functions are left out but for `_FUNCTIONS`. tests/broker_sql/expressions/test_columns.py compares all of it on
random rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker_sql.expressions import tree
from broker_sql.expressions.tree import Tree
from broker_sql.java_format import DAY_MS
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

if TYPE_CHECKING:
    from pyspark.sql import Column

SETTINGS: Final = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "UTC"}

_SPARK_PRECISION: Final = 38  # digits of Spark's decimals
_EXACT_DIGITS: Final = 15  # of a decimal that every way to a double rounds equally
_PRIMITIVES: Final[dict[SqlType, str]] = {
    BOOLEAN: "boolean",
    INTEGER: "int",
    BIGINT: "bigint",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "binary",
    DATE: "int",
    TIME: "int",
    TIMESTAMP: "bigint",
}
_INTEGERS: Final = frozenset({INTEGER, BIGINT})
# Casts that Spark makes as we do, and that cannot fail, apart from those of decimals.
_CASTS: Final = frozenset(
    {
        (INTEGER, BIGINT),
        (INTEGER, DOUBLE),
        (BIGINT, INTEGER),
        (BIGINT, DOUBLE),
        (DOUBLE, INTEGER),
        (DOUBLE, BIGINT),
        (BOOLEAN, STRING),
        (INTEGER, STRING),
        (BIGINT, STRING),
    }
)


class NoColumnError(Exception):
    """A part of the expression is not computed by Spark as by us."""


def spark_type(kind: SqlType) -> str:
    """Return Spark's type as text. Raises ValueError for a DECIMAL of more digits than Spark has."""
    match kind:
        case Decimal(precision, scale):
            if precision > _SPARK_PRECISION:
                raise ValueError(f"{kind}: Spark has at most {_SPARK_PRECISION} digits")
            return f"decimal({precision},{scale})"
        case Array(element):
            return f"array<{spark_type(element)}>"
        case Map(key, value):
            return f"map<{spark_type(key)},{spark_type(value)}>"
        case Struct(fields):
            inner = ",".join(f"`{name.replace('`', '``')}`:{spark_type(each)}" for name, each in fields)
            return f"struct<{inner}>"
    return _PRIMITIVES[kind]


def column(each: Tree, inputs: Sequence[Column]) -> Column | None:
    """Return the Spark column of a tree; None if Spark would not compute the same values."""
    try:
        return _Lowering(inputs).column(each)
    except (NoColumnError, ValueError):
        return None


class _Lowering:
    def __init__(self, inputs: Sequence[Column]) -> None:
        from pyspark.sql import functions

        self._inputs = inputs
        self._f = functions

    def column(self, each: Tree) -> Column:
        handler = _HANDLERS.get(type(each))
        if handler is None or each.kind is None:
            raise NoColumnError
        found: Column = handler(self, each)
        return found

    def _cast(self, value: Column, kind: SqlType | None) -> Column:
        assert kind is not None
        return value.cast(spark_type(kind))

    def const(self, each: tree.Const) -> Column:
        if isinstance(each.value, list | dict):
            raise NoColumnError
        return self._cast(self._f.lit(each.value), each.kind)

    def slot(self, each: tree.Slot) -> Column:
        return self._inputs[each.index]

    def convert(self, each: tree.Convert) -> Column:
        value, source, target = self.column(each.operand), each.operand.kind, each.kind
        if (source, target) in _CASTS:
            return self._cast(value, target)
        match source, target:
            case types, Decimal(precision, scale) if types in _INTEGERS:
                if precision - scale >= (10 if source == INTEGER else 19):
                    return self._cast(value, target)
            case Decimal(precision, scale), Decimal(wider, longer):
                if longer >= scale and wider - longer >= precision - scale:
                    return self._cast(value, target)
            case Decimal(precision), _ if target == DOUBLE and precision <= _EXACT_DIGITS:
                return self._cast(value, target)
            case _ if (source, target) == (DATE, TIMESTAMP):
                return value.cast("bigint") * self._f.lit(DAY_MS).cast("bigint")
            case _ if (source, target) == (TIMESTAMP, TIME):
                return self._f.pmod(value, self._f.lit(DAY_MS).cast("bigint")).cast("int")
        raise NoColumnError

    def arithmetic(self, each: tree.Arithmetic) -> Column:
        left, right = self.column(each.left), self.column(each.right)
        match each.op:
            case "+":
                return self._sized(left + right, each)
            case "-":
                return self._sized(left - right, each)
            case "*":
                return self._sized(left * right, each)
        # A divisor that is a constant does not fail.
        divisor = each.right.value if isinstance(each.right, tree.Const) else None
        if not divisor or isinstance(each.kind, Decimal):
            raise NoColumnError
        if each.kind == DOUBLE:
            return left / right if each.op == "/" else left % right
        if each.op == "%":
            return left % right
        if divisor == -1:  # the least number has no positive one
            return -left
        return self._cast(self._f.call_function("div", left, right), each.kind)

    def _sized(self, value: Column, each: tree.Arithmetic) -> Column:
        """Spark's decimals have the digits of ksqlDB's, if they are not too many."""
        return self._cast(value, each.kind) if isinstance(each.kind, Decimal) else value

    def negate(self, each: tree.Negate) -> Column:
        return -self.column(each.operand)

    def concat(self, each: tree.Concat) -> Column:
        return self._f.concat(self.column(each.left), self.column(each.right))

    def compare(self, each: tree.Compare) -> Column:
        kind = each.left.kind
        left, right = self.column(each.left), self.column(each.right)
        _comparable(kind)
        _comparable(each.right.kind)
        is_ordered = kind != BYTES and (kind != STRING or any(_is_ascii(side) for side in each.parts))
        if each.op not in ("==", "!=") and not is_ordered:
            raise NoColumnError
        found: Column = _OPERATORS[each.op](left, right)
        if DOUBLE in (kind, each.right.kind):
            # NaN is different from all numbers in Java, and greater than all in Spark.
            unordered = self._f.isnan(left) | self._f.isnan(right)
            found = self._f.when(unordered, self._f.lit(each.op == "!=")).otherwise(found)
        known = left.isNotNull() & right.isNotNull()
        return known & self._f.coalesce(found, self._f.lit(False))

    def distinct(self, each: tree.Distinct) -> Column:
        for side in each.parts:
            _comparable(side.kind)
            if side.kind == DOUBLE:
                raise NoColumnError
        same = self.column(each.left).eqNullSafe(self.column(each.right))
        return same if each.negated else ~same

    def logic_and(self, each: tree.And) -> Column:
        left, right = self.column(each.left), self.column(each.right)
        return self._f.when(left, right).otherwise(left)

    def logic_or(self, each: tree.Or) -> Column:
        left, right = self.column(each.left), self.column(each.right)
        return self._f.when(~left, right).otherwise(left)

    def negation(self, each: tree.Not) -> Column:
        return ~self.column(each.operand)

    def is_null(self, each: tree.IsNull) -> Column:
        return self.column(each.operand).isNull()

    def member(self, each: tree.Member) -> Column:
        _comparable(each.value.kind)
        if each.value.kind == DOUBLE:
            raise NoColumnError
        value = self.column(each.value)
        found = value.isin(*(self.column(option) for option in each.options))
        return value.isNotNull() & self._f.coalesce(found, self._f.lit(False))

    def like(self, each: tree.Like) -> Column:
        pattern = each.pattern.value if isinstance(each.pattern, tree.Const) else None
        if not isinstance(pattern, str) or each.escape is not None or "\\" in pattern:
            raise NoColumnError
        return self.column(each.value).like(pattern)

    def case(self, each: tree.Case) -> Column:
        chain: Any = self._f
        for condition, value in each.branches:
            chain = chain.when(self.column(condition), self._cast(self.column(value), each.kind))
        if each.default is not None:
            chain = chain.otherwise(self._cast(self.column(each.default), each.kind))
        found: Column = chain
        return found

    def item(self, each: tree.Item) -> Column:
        index = each.right.value if isinstance(each.right, tree.Const) else None
        if not index or not -(2**31) < index < 2**31:
            raise NoColumnError
        return self._f.try_element_at(self.column(each.left), self._f.lit(index).cast("int"))

    def lookup(self, each: tree.Lookup) -> Column:
        assert isinstance(each.left.kind, Map)
        if each.left.kind.key == DOUBLE:
            raise NoColumnError
        return self._f.try_element_at(self.column(each.left), self.column(each.right))

    def field(self, each: tree.Field) -> Column:
        return self.column(each.operand).getField(each.name)

    def make_array(self, each: tree.MakeArray) -> Column:
        return self._cast(self._f.array(*(self.column(item) for item in each.items)), each.kind)

    def make_struct(self, each: tree.MakeStruct) -> Column:
        if not each.fields:
            raise NoColumnError
        return self._f.struct(*(self.column(value).alias(name) for name, value in each.fields))

    def call(self, each: tree.Call) -> Column:
        function = _FUNCTIONS.get(each.name)
        if function is None:
            raise NoColumnError
        return self._cast(function(self, [self.column(argument) for argument in each.arguments]), each.kind)

    def coalesce(self, arguments: Sequence[Column]) -> Column:
        return self._f.coalesce(*arguments)


def _comparable(kind: SqlType | None) -> None:
    """Raise NoColumnError for collections: Spark has no equality of maps, and one of its own for doubles in arrays."""
    if isinstance(kind, Array | Map | Struct):
        raise NoColumnError


def _is_ascii(each: Tree) -> bool:
    return isinstance(each, tree.Const) and isinstance(each.value, str) and each.value.isascii()


_FUNCTIONS: Final[dict[str, Callable[[_Lowering, Sequence[Column]], Column]]] = {
    "COALESCE": _Lowering.coalesce,
    "IFNULL": _Lowering.coalesce,
}
_OPERATORS: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_HANDLERS: Final[dict[type[Tree], Callable[[_Lowering, Any], Column]]] = {
    tree.Const: _Lowering.const,
    tree.Slot: _Lowering.slot,
    tree.Convert: _Lowering.convert,
    tree.Arithmetic: _Lowering.arithmetic,
    tree.Negate: _Lowering.negate,
    tree.Concat: _Lowering.concat,
    tree.Compare: _Lowering.compare,
    tree.Distinct: _Lowering.distinct,
    tree.And: _Lowering.logic_and,
    tree.Or: _Lowering.logic_or,
    tree.Not: _Lowering.negation,
    tree.IsNull: _Lowering.is_null,
    tree.Member: _Lowering.member,
    tree.Like: _Lowering.like,
    tree.Case: _Lowering.case,
    tree.Item: _Lowering.item,
    tree.Lookup: _Lowering.lookup,
    tree.Field: _Lowering.field,
    tree.MakeArray: _Lowering.make_array,
    tree.MakeStruct: _Lowering.make_struct,
    tree.Call: _Lowering.call,
}
