"""CREATE, DROP, ALTER and INSERT of streams, tables and types; connectors."""

from __future__ import annotations

from sqlglot import exp

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.expressions import listed, value
from broker_sql.dialect.properties import optional_properties, properties
from broker_sql.dialect.queries import query
from broker_sql.dialect.tokenizer import Kind
from broker_sql.dialect.types import column_type
from broker_sql.statements import (
    AlterSource,
    ConnectorKind,
    CreateConnector,
    CreateFunction,
    CreateStream,
    CreateStreamAs,
    CreateTable,
    CreateTableAs,
    CreateType,
    DropConnector,
    DropFunction,
    DropStream,
    DropTable,
    DropType,
    Element,
    InsertInto,
    InsertValues,
    Mark,
    Name,
    SourceKind,
    Statement,
)
from broker_sql.types import SqlType


def create(cursor: Cursor) -> Statement:
    """Parse what begins with CREATE."""
    cursor.expect("CREATE")
    if cursor.accept("TYPE"):
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name = cursor.name("the name of a type")
        cursor.expect("AS")
        return CreateType(name=name, type=column_type(cursor), if_not_exists=if_not_exists)
    or_replace = cursor.accept("OR", "REPLACE")
    if not or_replace and cursor.ahead(1).upper == "CONNECTOR":
        return _create_connector(cursor)
    if cursor.accept("FUNCTION"):
        return _create_function(cursor, or_replace)
    place = cursor.location
    source = cursor.accept("SOURCE")
    if not or_replace and not source and cursor.accept("SINK"):
        cursor.expect("CONNECTOR")
    kind = SourceKind(cursor.expect_one("STREAM", "TABLE"))
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name(f"the name of a {kind.value.lower()}")
    found = elements(cursor, kind) if cursor.at_symbol("(") else ()
    if not found:
        cursor.wanted("'('")
    with_place = cursor.location
    given = optional_properties(cursor)
    if found or not cursor.accept("AS"):
        if not given:
            if cursor.location == with_place:
                cursor.fail()
            cursor.error("WITH () names no property: KAFKA_TOPIC and VALUE_FORMAT are expected", with_place)
        form = CreateStream if kind is SourceKind.STREAM else CreateTable
        return form(
            name=name,
            elements=found,
            properties=given,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
            source=source,
        )
    if source:
        cursor.error(f"SOURCE stands only before a {kind.value} on a topic, without AS SELECT", place)
    form_as = CreateStreamAs if kind is SourceKind.STREAM else CreateTableAs
    return form_as(name=name, query=query(cursor), properties=given, or_replace=or_replace, if_not_exists=if_not_exists)


def elements(cursor: Cursor, kind: SourceKind) -> tuple[Element, ...]:
    """Parse the columns of a source in parentheses."""
    cursor.expect_symbol("(")
    found = [_element(cursor, kind)]
    while cursor.accept_symbol(","):
        found.append(_element(cursor, kind))
    cursor.expect_symbol(")")
    return tuple(found)


def _element(cursor: Cursor, kind: SourceKind) -> Element:
    place = cursor.location
    name = cursor.name("the name of a column")
    type_ = column_type(cursor)
    header = None
    mark = Mark.NONE
    if cursor.accept("KEY"):
        mark = Mark.KEY
    elif cursor.accept("PRIMARY", "KEY"):
        mark = Mark.PRIMARY_KEY
    elif cursor.accept("HEADERS"):
        mark = Mark.HEADERS
    elif cursor.accept("HEADER"):
        mark = Mark.HEADERS
        cursor.expect_symbol("(")
        header = cursor.string("the key of a header in single quotes")
        cursor.expect_symbol(")")
    if mark is Mark.KEY and kind is SourceKind.TABLE:
        cursor.error(f"column {name} is marked KEY: a key column of a table is marked PRIMARY KEY", place)
    if mark is Mark.PRIMARY_KEY and kind is SourceKind.STREAM:
        cursor.error(f"column {name} is marked PRIMARY KEY: a key column of a stream is marked KEY", place)
    return Element(name, type_, mark, header, place)


def _create_connector(cursor: Cursor) -> CreateConnector:
    kind = ConnectorKind(cursor.expect_one("SOURCE", "SINK"))
    cursor.expect("CONNECTOR")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name_or_string("the name of a connector")
    cursor.expect("WITH")
    return CreateConnector(kind=kind, name=name, config=properties(cursor), if_not_exists=if_not_exists)


def _create_function(cursor: Cursor, or_replace: bool) -> CreateFunction:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a function")
    parameters: list[tuple[Name, SqlType]] = []
    cursor.expect_symbol("(")
    while not cursor.accept_symbol(")"):
        if parameters:
            cursor.expect_symbol(",")
        parameter = cursor.name("the name of an argument")
        parameters.append((parameter, column_type(cursor)))
    cursor.expect("RETURNS")
    returns = column_type(cursor)
    cursor.expect("LANGUAGE", "PYTHON", "AS")
    return CreateFunction(
        name=name,
        parameters=tuple(parameters),
        returns=returns,
        body=cursor.string("$$ text $$"),
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def drop(cursor: Cursor) -> Statement:
    """Parse what begins with DROP."""
    cursor.expect("DROP")
    word = cursor.expect_one("STREAM", "TABLE", "TYPE", "CONNECTOR", "FUNCTION")
    if_exists = cursor.accept("IF", "EXISTS")
    if word == "CONNECTOR":
        return DropConnector(name=cursor.name_or_string("the name of a connector"), if_exists=if_exists)
    name = cursor.name(f"the name of a {word.lower()}")
    if word == "TYPE":
        return DropType(name=name, if_exists=if_exists)
    if word == "FUNCTION":
        return DropFunction(name=name, if_exists=if_exists)
    form = DropStream if word == "STREAM" else DropTable
    return form(name=name, if_exists=if_exists, delete_topic=cursor.accept("DELETE", "TOPIC"))


def insert(cursor: Cursor) -> Statement:
    """Parse INSERT INTO, with SELECT or VALUES."""
    cursor.expect("INSERT", "INTO")
    target = cursor.name("the name of a stream or table")
    if cursor.at_symbol("("):
        columns = names(cursor)
    elif cursor.at_words("WITH") or cursor.at_words("SELECT"):
        given = optional_properties(cursor)
        return InsertInto(target=target, properties=given, query=query(cursor))
    else:
        columns = ()
        for each in ("'('", "WITH", "SELECT"):
            cursor.wanted(each)
    cursor.expect("VALUES")
    return InsertValues(target=target, columns=columns, values=values(cursor))


def names(cursor: Cursor) -> tuple[Name, ...]:
    """Parse names of columns in parentheses."""
    cursor.expect_symbol("(")
    found = [cursor.name("the name of a column")]
    while cursor.accept_symbol(","):
        found.append(cursor.name("the name of a column"))
    cursor.expect_symbol(")")
    return tuple(found)


def values(cursor: Cursor) -> tuple[exp.Expr, ...]:
    """Parse values in parentheses."""
    cursor.expect_symbol("(")
    found = listed(cursor, value)
    cursor.expect_symbol(")")
    return tuple(found)


def alter_source(cursor: Cursor) -> AlterSource:
    """Parse what stands behind ALTER, of a stream or table."""
    kind = SourceKind(cursor.expect_one("STREAM", "TABLE"))
    name = cursor.name(f"the name of a {kind.value.lower()}")
    columns: list[Element] = []
    while not columns or cursor.accept_symbol(","):
        cursor.expect("ADD")
        if (
            cursor.at_words("COLUMN")
            and cursor.ahead(1).kind in (Kind.WORD, Kind.QUOTED)
            and cursor.ahead(2).kind in (Kind.WORD, Kind.QUOTED)
        ):
            cursor.advance()
        place = cursor.location
        column = cursor.name("the name of a column")
        columns.append(Element(column, column_type(cursor), location=place))
    return AlterSource(kind=kind, name=name, columns=tuple(columns))
