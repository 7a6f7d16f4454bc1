"""Properties: `WITH (name = literal, ...)`."""

from __future__ import annotations

from decimal import Decimal

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.tokenizer import Kind
from broker_sql.statements import NO_PROPERTIES, Properties, Property, PropertyValue


def optional_properties(cursor: Cursor) -> Properties:
    return properties(cursor) if cursor.accept("WITH") else NO_PROPERTIES


def properties(cursor: Cursor) -> Properties:
    """Parse what stands behind WITH. A name that stands twice is an error, whatever its case is."""
    cursor.expect_symbol("(")
    entries: list[Property] = []
    more = not cursor.at_symbol(")")
    while more:
        place = cursor.location
        name = str(cursor.name_or_string("the name of a property"))
        if any(each.name.upper() == name.upper() for each in entries):
            cursor.error(f"property {name} stands twice", place)
        cursor.expect_symbol("=")
        entries.append(Property(name, _value(cursor), place))
        more = cursor.accept_symbol(",")
    cursor.expect_symbol(")")
    return Properties(tuple(entries))


def _value(cursor: Cursor) -> PropertyValue:
    token = cursor.token
    if token.kind is Kind.STRING:
        return cursor.advance().text
    if token.upper in ("TRUE", "FALSE"):
        return cursor.advance().upper == "TRUE"
    if token.kind is Kind.WORD:
        cursor.error(f"the value {token.text} is no literal: write '{token.text}' in single quotes")
    sign = "-" if cursor.accept_symbol("-", quiet=True) else ""
    number = cursor.accept_kind(Kind.NUMBER, "a string, a number, TRUE or FALSE") or cursor.fail()
    text = sign + number.text
    return float(text) if "e" in text.lower() else Decimal(text) if "." in text else int(text)
