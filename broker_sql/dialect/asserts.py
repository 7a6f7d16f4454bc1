"""ASSERT."""

from __future__ import annotations

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.properties import optional_properties
from broker_sql.dialect.queries import duration
from broker_sql.dialect.sources import elements, names, values
from broker_sql.statements import (
    AssertSchema,
    AssertStream,
    AssertTable,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    Duration,
    SourceKind,
    Statement,
)


def assertion(cursor: Cursor) -> Statement:
    """Parse what begins with ASSERT."""
    cursor.expect("ASSERT")
    if cursor.accept("NULL", "VALUES"):
        source = cursor.name("the name of a stream or table")
        columns = names(cursor) if cursor.at_symbol("(") else ()
        cursor.expect("KEY")
        return AssertTombstone(source=source, columns=columns, values=values(cursor))
    exists = not cursor.accept("NOT", "EXISTS")
    words = ("TOPIC", "SCHEMA") if not exists else ("TOPIC", "SCHEMA", "STREAM", "TABLE", "VALUES")
    word = cursor.expect_one(*words)
    if word == "TOPIC":
        topic = cursor.name_or_string("the name of a topic")
        given = optional_properties(cursor)
        return AssertTopic(topic=topic, exists=exists, properties=given, timeout=_timeout(cursor))
    if word == "SCHEMA":
        return _schema(cursor, exists)
    if word == "VALUES":
        source = cursor.name("the name of a stream or table")
        columns = names(cursor) if cursor.at_symbol("(") else ()
        cursor.expect("VALUES")
        return AssertValues(source=source, columns=columns, values=values(cursor))
    kind = SourceKind(word)
    name = cursor.name(f"the name of a {word.lower()}")
    found = elements(cursor, kind) if cursor.at_symbol("(") else ()
    form = AssertStream if kind is SourceKind.STREAM else AssertTable
    return form(name=name, elements=found, properties=optional_properties(cursor))


def _schema(cursor: Cursor, exists: bool) -> AssertSchema:
    subject = cursor.name_or_string("the name of a subject") if cursor.accept("SUBJECT") else None
    id_ = cursor.whole_number("the id of a schema") if cursor.accept("ID") else None
    if subject is None and id_ is None:
        cursor.fail()
    return AssertSchema(subject=subject, id=id_, exists=exists, timeout=_timeout(cursor))


def _timeout(cursor: Cursor) -> Duration | None:
    return duration(cursor) if cursor.accept("TIMEOUT") else None
