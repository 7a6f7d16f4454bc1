"""Texts into statements.

The parser is not sqlglot's: that one takes what it does not know as a command, rewrites functions and types, and does
not know what was expected at a place. Tokens, nodes and the generator of text are sqlglot's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from broker_sql.dialect import asserts, control, shows, sources
from broker_sql.dialect.cursor import Cursor, Unexpected
from broker_sql.dialect.expressions import condition
from broker_sql.dialect.queries import query
from broker_sql.dialect.tokenizer import MAX_TEXT, Kind, places, tokenize
from broker_sql.dialect.types import column_type
from broker_sql.dialect.variables import split, substitute
from broker_sql.errors import ParseError
from broker_sql.statements import Define, Statement, Undefine
from broker_sql.types import SqlType


def parse(text: str, variables: Mapping[str, str] | None = None) -> list[Statement]:
    """Return the statements of a text.

    `variables` are the values for `${name}`; DEFINE and UNDEFINE in the text change them for the statements behind. The
    last statement may lack its semicolon. Raises ParseError."""
    return [statement for statement, _ in parse_each(text, variables)]


def parse_each(text: str, variables: Mapping[str, str] | None = None) -> Iterator[tuple[Statement, bool]]:
    """Yield the statements of a text one by one, each with whether a semicolon ends it."""
    if len(text) > MAX_TEXT:
        raise ParseError(f"the text has {len(text)} characters: at most {MAX_TEXT} are allowed")
    whole = places(text)
    defined = {name.upper(): value for name, value in (variables or {}).items()}
    for part in split(text):
        content, place = substitute(part, defined, whole)
        tokens = tokenize(content, place)
        if tokens[0].kind is Kind.END:
            continue
        statement = _whole(Cursor(tokens, content))
        if isinstance(statement, Define):
            defined[statement.name.upper()] = statement.value
        elif isinstance(statement, Undefine):
            defined.pop(statement.name.upper(), None)
        yield statement, part.ended


def expected(text: str) -> tuple[str, ...]:
    """Return what can follow a statement that is not written to its end: words in upper case, symbols in quotes, and
    phrases such as "the name of a column". Nothing if the text is wrong before its end."""
    try:
        cursor = Cursor(tokenize(text), text)
    except ParseError:
        return ()
    try:
        _statement(cursor)
    except Unexpected as error:
        return error.expected if cursor.token.kind is Kind.END else ()
    except ParseError:
        return ()
    return cursor.expected if cursor.token.kind is Kind.END else ()


def parse_expression(text: str) -> exp.Expr:
    """Return the expression that a text is. Raises ParseError."""
    cursor = Cursor(tokenize(text), text)
    node = condition(cursor)
    _end(cursor)
    return node


def parse_type(text: str) -> SqlType:
    """Return the type that a text is: `STRUCT<A INTEGER>`. Raises ParseError."""
    cursor = Cursor(tokenize(text), text)
    kind = column_type(cursor)
    _end(cursor)
    return kind


def _whole(cursor: Cursor) -> Statement:
    statement = _statement(cursor)
    _end(cursor)
    return statement


def _end(cursor: Cursor) -> None:
    if cursor.token.kind is not Kind.END:
        cursor.wanted("';'")
        cursor.fail()


def _statement(cursor: Cursor) -> Statement:
    place, start = cursor.location, cursor.token.start
    form = _FORMS.get(cursor.token.upper)
    if form is None:
        for word in _FORMS:
            cursor.wanted(word)
        cursor.fail()
    with cursor:
        statement = form(cursor)
    return replace(statement, text=cursor.text_from(start), location=place)


def _alter(cursor: Cursor) -> Statement:
    cursor.expect("ALTER")
    if cursor.at_words("SYSTEM"):
        return control.alter_system(cursor)
    cursor.wanted("SYSTEM")
    return sources.alter_source(cursor)


_FORMS: dict[str, Callable[[Cursor], Statement]] = {
    "SELECT": query,
    "CREATE": sources.create,
    "INSERT": sources.insert,
    "DROP": sources.drop,
    "ALTER": _alter,
    "DESCRIBE": shows.describe,
    "EXPLAIN": lambda cursor: shows.explain(cursor, _statement),
    "PREVIEW": lambda cursor: shows.preview(cursor, _statement),
    "SHOW": shows.show,
    "LIST": shows.show,
    "PRINT": shows.print_topic,
    "TERMINATE": control.of_query,
    "PAUSE": control.of_query,
    "RESUME": control.of_query,
    "SET": control.set_property,
    "UNSET": control.unset_property,
    "DEFINE": control.define,
    "UNDEFINE": control.undefine,
    "RUN": control.run_script,
    "ASSERT": asserts.assertion,
}
