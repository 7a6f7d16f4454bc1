"""DESCRIBE, EXPLAIN, PRINT, SHOW and LIST."""

from __future__ import annotations

from collections.abc import Callable

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.tokenizer import Kind
from broker_sql.statements import (
    ConnectorKind,
    CreateAs,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DescribeStreams,
    DescribeTables,
    Explain,
    InsertInto,
    ListConnectorPlugins,
    ListConnectors,
    ListFunctions,
    ListProperties,
    ListQueries,
    ListStreams,
    ListTables,
    ListTopics,
    ListTypes,
    ListVariables,
    Preview,
    Print,
    Query,
    Statement,
)

_EXTENDED = {
    "STREAMS": ListStreams,
    "TABLES": ListTables,
    "QUERIES": ListQueries,
    "TOPICS": ListTopics,
}
_PLAIN = {
    "FUNCTIONS": ListFunctions,
    "PROPERTIES": ListProperties,
    "TYPES": ListTypes,
    "VARIABLES": ListVariables,
    "CONNECTORS": ListConnectors,
}


def describe(cursor: Cursor) -> Statement:
    """Parse what begins with DESCRIBE."""
    cursor.expect("DESCRIBE")
    # Each of these words may also be the name of a source: the word behind it tells.
    alone = not cursor.ahead(1).text
    if cursor.at_words("FUNCTION") and not alone:
        cursor.advance()
        return DescribeFunction(function=cursor.name("the name of a function"))
    if cursor.at_words("CONNECTOR") and not alone:
        cursor.advance()
        return DescribeConnector(connector=cursor.name_or_string("the name of a connector"))
    extended = cursor.at_words("EXTENDED") and bool(cursor.ahead(1).text) and bool(cursor.advance())
    if word := cursor.accept_one("STREAMS", "TABLES"):
        form = DescribeStreams if word == "STREAMS" else DescribeTables
        return form(extended=cursor.accept("EXTENDED") or extended)
    cursor.wanted("FUNCTION")
    cursor.wanted("CONNECTOR")
    source = cursor.name("the name of a stream or table")
    extended = cursor.accept("EXTENDED") or extended
    if source in ("FUNCTION", "CONNECTOR"):
        cursor.wanted(f"the name of a {source.lower()}")
    return Describe(source=source, extended=extended)


def explain(cursor: Cursor, statement: Callable[[Cursor], Statement]) -> Explain:
    """Parse EXPLAIN, of a query's id or of a statement."""
    cursor.expect("EXPLAIN")
    if cursor.token.upper in ("SELECT", "CREATE", "INSERT"):
        return Explain(statement=statement(cursor))
    for word in ("SELECT", "CREATE", "INSERT"):
        cursor.wanted(word)
    return Explain(query_id=cursor.name("the id of a query"))


def preview(cursor: Cursor, statement: Callable[[Cursor], Statement]) -> Preview:
    """Parse PREVIEW, of a statement with a query."""
    cursor.expect("PREVIEW")
    place = cursor.location
    records = cursor.whole_number() if cursor.token.kind is Kind.NUMBER else None
    if records == 0:
        cursor.error("PREVIEW 0: 1 or more records are expected", place)
    cursor.wanted("a number of records")
    if cursor.token.upper not in ("SELECT", "CREATE", "INSERT"):
        for word in ("SELECT", "CREATE", "INSERT"):
            cursor.wanted(word)
        cursor.fail()
    place = cursor.location
    inner = statement(cursor)
    if not isinstance(inner, Query | CreateAs | InsertInto):
        cursor.error("PREVIEW takes SELECT, CREATE ... AS SELECT and INSERT INTO ... SELECT", place)
    return Preview(statement=inner, records=records)


def show(cursor: Cursor) -> Statement:
    """Parse SHOW and LIST."""
    cursor.expect_one("SHOW", "LIST")
    if cursor.accept("ALL"):
        cursor.expect("TOPICS")
        return ListTopics(all=True, extended=cursor.accept("EXTENDED"))
    if cursor.accept("CONNECTOR"):
        cursor.expect("PLUGINS")
        return ListConnectorPlugins()
    if word := cursor.accept_one("SOURCE", "SINK"):
        cursor.expect("CONNECTORS")
        return ListConnectors(kind=ConnectorKind(word))
    word = cursor.expect_one(*_EXTENDED, *_PLAIN)
    if word in _EXTENDED:
        return _EXTENDED[word](extended=cursor.accept("EXTENDED"))
    return _PLAIN[word]()


def print_topic(cursor: Cursor) -> Print:
    """Parse PRINT."""
    cursor.expect("PRINT")
    topic = cursor.name_or_string("the name of a topic")
    from_beginning = cursor.accept("FROM")
    if from_beginning:
        cursor.expect("BEGINNING")
    interval = limit = None
    if cursor.accept_one("INTERVAL", "SAMPLE"):
        place = cursor.location
        interval = cursor.whole_number()
        if interval < 1:
            cursor.error(f"INTERVAL {interval}: 1 or more is expected", place)
    if cursor.accept("LIMIT"):
        limit = cursor.whole_number()
    return Print(topic=topic, from_beginning=from_beginning, interval=interval, limit=limit)
