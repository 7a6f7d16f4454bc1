"""Types of columns."""

from __future__ import annotations

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.tokenizer import Kind
from broker_sql.types import PRIMITIVES, Array, Decimal, Map, NamedType, SqlType, Struct


def column_type(cursor: Cursor) -> SqlType:
    """Parse a type. An unknown name becomes NamedType."""
    with cursor:
        token = cursor.token
        if token.upper == "ARRAY" and cursor.ahead(1).text == "<":
            cursor.advance()
            cursor.expect_symbol("<")
            element = column_type(cursor)
            cursor.expect_symbol(">")
            return Array(element)
        if token.upper == "MAP" and cursor.ahead(1).text == "<":
            cursor.advance()
            cursor.expect_symbol("<")
            key = column_type(cursor)
            cursor.expect_symbol(",")
            value = column_type(cursor)
            cursor.expect_symbol(">")
            return Map(key, value)
        if token.upper == "STRUCT" and cursor.ahead(1).text in ("<", "<>"):
            cursor.advance()
            return _struct(cursor)
        name = cursor.name("a type")
        if token.upper == "DECIMAL":
            return _decimal(cursor)
        primitive = PRIMITIVES.get(token.upper)
        if primitive is None:
            return NamedType(name)
        if cursor.accept_symbol("(", quiet=True):  # VARCHAR(20): the length has no effect, also in ksqlDB
            if not cursor.accept("STRING"):
                cursor.whole_number()
            cursor.expect_symbol(")")
        return primitive


def _struct(cursor: Cursor) -> Struct:
    if cursor.accept_symbol("<>"):
        return Struct(())
    cursor.expect_symbol("<")
    fields: list[tuple[str, SqlType]] = []
    if cursor.accept_symbol(">"):
        return Struct(())
    while True:
        place = cursor.location
        name = str(cursor.name("the name of a field"))
        if any(name == each for each, _ in fields):
            cursor.error(f"the struct has two fields with the name {name}", place)
        fields.append((name, column_type(cursor)))
        if not cursor.accept_symbol(","):
            cursor.expect_symbol(">")
            return Struct(tuple(fields))


def _decimal(cursor: Cursor) -> Decimal:
    """Parse what stands behind DECIMAL. One number is the precision; the scale is 0 then."""
    cursor.expect_symbol("(")
    place = cursor.location
    precision = cursor.whole_number("the number of digits")
    scale = 0
    if cursor.accept_symbol(","):
        negative = cursor.accept_symbol("-", quiet=True) and cursor.token.kind is Kind.NUMBER
        scale = cursor.whole_number("the number of digits after the point") * (-1 if negative else 1)
    cursor.expect_symbol(")")
    try:
        return Decimal(precision, scale)
    except ValueError as error:
        cursor.error(str(error), place)
