"""SELECT."""

from __future__ import annotations

from sqlglot import exp

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.expressions import UNIT_WORDS, condition, listed, value
from broker_sql.dialect.nodes import StructAll
from broker_sql.dialect.tokenizer import Kind
from broker_sql.statements import (
    Duration,
    Emit,
    Join,
    JoinKind,
    Name,
    Query,
    SelectAll,
    SelectItem,
    Source,
    Window,
    WindowKind,
    Within,
)

_CLAUSES_BEHIND_GROUPS = ("HAVING", "EMIT", "LIMIT", "PARTITION", "GROUP", "")


def query(cursor: Cursor) -> Query:
    """Parse a SELECT."""
    place, start = cursor.location, cursor.token.start
    cursor.expect("SELECT")
    items = [_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_item(cursor))
    cursor.expect("FROM")
    source = _source(cursor)
    joins = []
    while (join := _join(cursor)) is not None:
        joins.append(join)
    window = _window(cursor) if cursor.accept("WINDOW") else None
    where = condition(cursor) if cursor.accept("WHERE") else None
    partition_by = group_by = None
    for _ in range(2):
        if partition_by is None and cursor.accept("PARTITION", "BY"):
            partition_by = _groups(cursor)
        elif group_by is None and cursor.accept("GROUP", "BY"):
            group_by = _groups(cursor)
    having = condition(cursor) if cursor.accept("HAVING") else None
    emit = Emit(cursor.expect_one("CHANGES", "FINAL")) if cursor.accept("EMIT") else None
    limit = cursor.whole_number() if cursor.accept("LIMIT") else None
    return Query(
        text=cursor.text_from(start),
        location=place,
        items=tuple(items),
        source=source,
        joins=tuple(joins),
        window=window,
        where=where,
        partition_by=partition_by,
        group_by=group_by,
        having=having,
        emit=emit,
        limit=limit,
    )


def _item(cursor: Cursor) -> SelectAll | SelectItem:
    place = cursor.location
    if cursor.accept_symbol("*", quiet=True):
        return SelectAll(location=place)
    if cursor.at_name() and cursor.ahead(1).text == "." and cursor.ahead(2).text == "*":
        source = cursor.name()
        cursor.advance()
        cursor.advance()
        return SelectAll(source, place)
    expression = condition(cursor)
    if isinstance(expression, StructAll):
        return SelectItem(expression, location=place)
    inner = next(iter(expression.find_all(StructAll)), None)
    if inner is not None:
        cursor.error("->* stands only at the end of an item of SELECT", place)
    return SelectItem(expression, _alias(cursor), place)


def _alias(cursor: Cursor) -> Name | None:
    """Take a name behind AS or without it, if the words are not the next clause."""
    if cursor.accept("AS"):
        return cursor.name()
    follows = cursor.ahead(1).upper
    clause = {"EMIT": ("CHANGES", "FINAL"), "PARTITION": ("BY",)}.get(cursor.token.upper, ())
    if cursor.at_name() and follows not in clause:
        return cursor.name()
    return None


def _source(cursor: Cursor) -> Source:
    name = cursor.name("the name of a stream or table")
    if cursor.at_symbol("("):
        cursor.error(
            f"{name} is called here: FROM takes a stream or table, and table functions stand behind SELECT",
            name.location,
        )
    return Source(name, _alias(cursor))


def _join(cursor: Cursor) -> Join | None:
    place = cursor.location
    kind = JoinKind.INNER
    if cursor.accept("INNER"):
        cursor.expect("JOIN")
    elif word := cursor.accept_one("LEFT", "RIGHT", "FULL"):
        kind = JoinKind.FULL if word == "FULL" else JoinKind(word)
        cursor.accept("OUTER")
        cursor.expect("JOIN")
    elif not cursor.accept("JOIN"):
        return None
    source = _source(cursor)
    within = _within(cursor) if cursor.accept("WITHIN") else None
    cursor.expect("ON")
    return Join(kind, source, condition(cursor), within, place)


def _within(cursor: Cursor) -> Within:
    if cursor.accept_symbol("("):
        before = duration(cursor)
        cursor.expect_symbol(",")
        after = duration(cursor)
        cursor.expect_symbol(")")
    else:
        before = after = duration(cursor)
    return Within(before, after, duration(cursor) if cursor.accept("GRACE", "PERIOD") else None)


def duration(cursor: Cursor) -> Duration:
    """Parse a whole number and a unit of time."""
    count = cursor.whole_number("a whole number and a unit of time")
    token = cursor.token
    if token.upper in ("MONTH", "MONTHS", "YEAR", "YEARS"):
        cursor.error(f"{token.text} is no fixed span of time: write it in DAYS")
    return Duration(count, UNIT_WORDS[cursor.expect_one(*UNIT_WORDS)])


def _window(cursor: Cursor) -> Window:
    place = cursor.location
    kinds = [each.value for each in WindowKind]
    if cursor.at_name() and cursor.ahead(1).upper in kinds:
        cursor.advance()  # a name of the window, which has no meaning, also in ksqlDB
    kind = WindowKind(cursor.expect_one(*kinds))
    cursor.expect_symbol("(")
    if kind is not WindowKind.SESSION:
        cursor.expect("SIZE")
    size = duration(cursor)
    advance = None
    if kind is WindowKind.HOPPING:
        cursor.expect_symbol(",")
        cursor.expect("ADVANCE", "BY")
        advance = duration(cursor)
    retention = grace = None
    while cursor.accept_symbol(","):
        if retention is None and grace is None and cursor.accept("RETENTION"):
            retention = duration(cursor)
        elif grace is None and cursor.accept("GRACE", "PERIOD"):
            grace = duration(cursor)
        else:
            cursor.fail()
    cursor.expect_symbol(")")
    return Window(kind, size, advance, retention, grace, place)


def _groups(cursor: Cursor) -> tuple[exp.Expr, ...]:
    """Parse values with commas; parentheses may stand around all of them: (a, b), (a), ()."""
    if not cursor.at_symbol("(") or not _around_all(cursor):
        return tuple(listed(cursor, value))
    cursor.expect_symbol("(")
    items = () if cursor.at_symbol(")") else tuple(listed(cursor, condition))
    cursor.expect_symbol(")")
    return items


def _around_all(cursor: Cursor) -> bool:
    """Tell whether the parenthesis that is next closes where the clause ends."""
    depth, offset = 0, 0
    while (token := cursor.ahead(offset)).kind is not Kind.END:
        if token.kind is Kind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        offset += 1
        if depth == 0:
            break
    follows = cursor.ahead(offset)
    return follows.kind is not Kind.SYMBOL and follows.upper in _CLAUSES_BEHIND_GROUPS
