"""Values of literals, and literals as other types."""

from __future__ import annotations

import decimal
from typing import Any

from sqlglot import exp

from broker_cy.core.java_numbers import double_text
from broker_sql import java_format, types
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError
from broker_sql.expressions import casts
from broker_sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Decimal, SqlType


def literal(node: exp.Expr) -> tuple[SqlType | None, Any] | None:
    """Return the type and the value of a literal, with its sign; None for other expressions. NULL has no type."""
    match node:
        case exp.Null():
            return None, None
        case exp.Boolean():
            return BOOLEAN, bool(node.this)
        case exp.Literal() if node.is_string:
            return STRING, str(node.this)
        case exp.Literal():
            return _number(str(node.this), node)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _number(f"-{node.this.this}", node)
        case exp.Paren():
            return literal(node.this)
    return None


def _number(text: str, node: exp.Expr) -> tuple[SqlType, Any]:
    """A number with an exponent is a DOUBLE, one with a point a DECIMAL, all others INTEGER or BIGINT by their size."""
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise AnalysisError(f"Number overflows DOUBLE: {text}", location(node))
        return DOUBLE, value
    if "." in text:
        number = casts.quantized(parsed := java_format.parse_decimal(text), types.MAX_PRECISION, _scale(parsed))
        return decimal_type(number), number
    whole = int(text)
    if java_format.INTEGER_MIN <= whole <= java_format.INTEGER_MAX:
        return INTEGER, whole
    if java_format.BIGINT_MIN <= whole <= java_format.BIGINT_MAX:
        return BIGINT, whole
    raise AnalysisError(
        f"Invalid numeric literal: {text}; {java_format.BIGINT_MIN} to {java_format.BIGINT_MAX} is allowed",
        location(node),
    )


def _scale(value: decimal.Decimal) -> int:
    return max(-int(value.as_tuple().exponent), 0)


def decimal_type(value: decimal.Decimal) -> Decimal:
    """Return the type of a decimal literal: a digit before the point counts, also if it is 0."""
    scale = _scale(value)
    return Decimal(max(value.adjusted() + 1 if value else 1, 1) + scale, scale)


def number_in(text: str, wanted: str, node: exp.Expr) -> tuple[SqlType, Any]:
    """Return the number that a text literal holds, for a list of numbers. Raises AnalysisError."""
    for kind, parse in ((INTEGER, java_format.parse_integer), (BIGINT, java_format.parse_bigint)):
        try:
            return kind, parse(text)
        except ValueError:
            pass
    try:
        number = java_format.parse_decimal(text)
        number = casts.quantized(number, types.MAX_PRECISION, _scale(number))
    except (ValueError, ArithmeticError):
        raise invalid(text, wanted, node) from None
    return decimal_type(number), number


class InvalidText(AnalysisError):
    """A text is no value of the type that it should have."""


def invalid(text: str, wanted: str, node: exp.Expr) -> InvalidText:
    return InvalidText(f'"{text}" is no {wanted}', location(node))


def literal_text(value: Any, kind: SqlType) -> str:
    """Return the text that a literal of another type has in a list of texts."""
    return double_text(value) if kind == DOUBLE else java_format.value_text(value, kind)
