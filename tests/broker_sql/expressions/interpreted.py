"""A plain interpreter of trees, one operator at a time: what generated code is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_sql.expressions import casts, operations, tree
from broker_sql.expressions.source import decimal_context
from broker_sql.expressions.tree import Tree
from broker_sql.java_format import wrap_bigint, wrap_integer
from broker_sql.types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, Decimal

Row = Sequence[Any]


def outcome(each: Tree, row: Row) -> Any:
    """Return the value of a whole expression: None after an error."""
    try:
        return evaluate(each, row, {})
    except Exception:
        return None


def evaluate(each: Tree, row: Row, parameters: Mapping[str, Any], in_lambda: bool = False) -> Any:
    def of(part: Tree) -> Any:
        return evaluate(part, row, parameters, in_lambda)

    def caught(part: Tree) -> Any:
        try:
            return of(part)
        except Exception:
            return None

    match each:
        case tree.Const():
            return each.value
        case tree.Slot():
            return row[each.index]
        case tree.Parameter():
            return parameters[each.name]
        case tree.Convert():
            assert each.operand.kind is not None
            assert each.kind is not None
            return casts.cast(of(each.operand), each.operand.kind, each.kind)
        case tree.And():
            left = of(each.left)
            return of(each.right) if left is True else left
        case tree.Or():
            left = of(each.left)
            return of(each.right) if left is False else left
        case tree.Not():
            value = of(each.operand)
            return None if value is None else not value
        case tree.IsNull():
            return of(each.operand) is None
        case tree.Distinct():
            return (of(each.left) == of(each.right)) is each.negated
        case tree.Member():
            value = of(each.value)
            options = [of(option) for option in each.options]
            return value is not None and any(value == option for option in options)
        case tree.Case():
            for condition, result in each.branches:
                if of(condition) is True:
                    return of(result)
            return None if each.default is None else of(each.default)
        case tree.MakeArray():
            return [caught(item) for item in each.items]
        case tree.MakeStruct():
            return {name: caught(value) for name, value in each.fields}
        case tree.Call():
            try:
                return each.function(*(of(argument) for argument in each.arguments))
            except Exception:
                return None
        case tree.Function():
            names = each.parameters
            return lambda *given: evaluate(each.body, row, {**parameters, **dict(zip(names, given, strict=True))}, True)
    return _of_known(each, [of(part) for part in each.parts], in_lambda)


def _of_known(each: Tree, values: Sequence[Any], in_lambda: bool) -> Any:
    """Operators that are NULL, or false, if an operand is."""
    if any(value is None for value in values):
        if isinstance(each, tree.Compare):
            return False
        if in_lambda and isinstance(each, tree.Arithmetic | tree.Negate | tree.Concat):
            raise ArithmeticError
        return None
    match each:
        case tree.Compare():
            return _compare(each, *values)
        case tree.Like():
            return operations.like(values[0], values[1], each.escape)
        case tree.Concat():
            return values[0] + values[1]
        case tree.Item():
            return operations.item(values[0], values[1])
        case tree.Field():
            return values[0][each.name]
        case tree.Lookup():
            return values[0].get(values[1])
        case tree.Negate():
            return _wrapped(
                operations.negate_decimal(values[0]) if isinstance(each.kind, Decimal) else -values[0], each
            )
        case tree.Arithmetic():
            return _wrapped(_arithmetic(each, *values), each)
    raise AssertionError(each)


def _wrapped(value: Any, each: Tree) -> Any:
    return wrap_integer(value) if each.kind == INTEGER else wrap_bigint(value) if each.kind == BIGINT else value


def _compare(each: tree.Compare, left: Any, right: Any) -> bool:
    if each.left.kind == STRING and each.op not in ("==", "!="):
        left, right = operations.text_key(left), operations.text_key(right)
    if each.left.kind == BYTES and each.op not in ("==", "!="):
        left, right = operations.bytes_key(left), operations.bytes_key(right)
    found: bool = {
        "==": left == right,
        "!=": left != right,
        "<": each.op == "<" and left < right,
        "<=": each.op == "<=" and left <= right,
        ">": each.op == ">" and left > right,
        ">=": each.op == ">=" and left >= right,
    }[each.op]
    return found


def _arithmetic(each: tree.Arithmetic, left: Any, right: Any) -> Any:
    if isinstance(each.kind, Decimal):
        exact = decimal_context(1000)
        unit = casts.quantized(exact.create_decimal(0), 1000, each.kind.scale)
        match each.op:
            case "/":
                return operations.divide_decimals(left, right, unit, exact)
            case "%":
                return operations.remainder_of_decimals(left, right, unit, exact)
            case "*":
                return operations.multiply_decimals(left, right, exact)
            case "+":
                return exact.add(left, right)
        return exact.subtract(left, right)
    if each.op == "/":
        return operations.divide_doubles(left, right) if each.kind == DOUBLE else _divided(left, right)
    if each.op == "%":
        if each.kind == DOUBLE:
            return operations.remainder_of_doubles(left, right)
        return left - right * _divided(left, right)
    return left + right if each.op == "+" else left - right if each.op == "-" else left * right


def _divided(left: int, right: int) -> int:
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole
