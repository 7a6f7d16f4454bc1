"""Statements into canonical text: one line, keywords in upper case, names in backquotes where they need them.

`parse(to_text(statement))` is the statement again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp

from broker_sql import statements as s
from broker_sql.dialect.generator import expression_text, name_text, string_text, unlike_keyword
from broker_sql.dialect.words import RESERVED


def to_text(of: s.Statement | exp.Expr) -> str:
    """Return the text of a statement or an expression, without a semicolon."""
    return expression_text(of) if isinstance(of, exp.Expr) else _TEXTS[type(of)](of)


def _words(*parts: str) -> str:
    """Return the parts that are not empty, with spaces between them."""
    return " ".join(part for part in parts if part)


def _when(condition: bool, text: str) -> str:
    return text if condition else ""


def _names(names: Sequence[str]) -> str:
    return _when(bool(names), "(" + ", ".join(name_text(each) for each in names) + ")")


def _topic(name: str) -> str:
    """Return the name of a topic or subject, which may also be a string."""
    return name if name_text(name) == name else string_text(name)


def _values(values: Sequence[exp.Expr]) -> str:
    return ", ".join(expression_text(each) for each in values)


def _properties(properties: s.Properties) -> str:
    return _when(bool(properties), "WITH " + _entries(properties))


def _entries(properties: s.Properties) -> str:
    return "(" + ", ".join(f"{_property_name(each.name)}={_literal(each.value)}" for each in properties) + ")"


def _property_name(name: str) -> str:
    plain = name_text(name) == name or (name.isidentifier() and name.isupper() and name not in RESERVED)
    return name if plain else string_text(name)


def _literal(value: s.PropertyValue) -> str:
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text if "." in text else text + ".0"
    if isinstance(value, float):
        return repr(value) if "e" in repr(value) else f"{value!r}e0"
    return str(value)


# -- SELECT


def _query(query: s.Query) -> str:
    clauses = [
        "SELECT " + ", ".join(_item(each) for each in query.items),
        "FROM " + _source(query.source),
        *(_join(each) for each in query.joins),
        _window(query.window) if query.window else "",
        _clause("WHERE ", query.where),
        _groups("PARTITION BY ", query.partition_by),
        _groups("GROUP BY ", query.group_by),
        _clause("HAVING ", query.having),
        f"EMIT {query.emit.value}" if query.emit else "",
        "" if query.limit is None else f"LIMIT {query.limit}",
    ]
    return _words(*clauses)


def _item(item: s.SelectAll | s.SelectItem) -> str:
    if isinstance(item, s.SelectAll):
        return f"{name_text(item.source)}.*" if item.source else "*"
    return expression_text(item.expression) + _alias(item.alias)


def _alias(alias: s.Name | None) -> str:
    return f" AS {name_text(alias)}" if alias else ""


def _source(source: s.Source) -> str:
    return name_text(source.name) + _alias(source.alias)


def _join(join: s.Join) -> str:
    within = ""
    if join.within:
        before, after = join.within.before, join.within.after
        within = f"WITHIN {before}" if before == after else f"WITHIN ({before}, {after})"
        within += _grace(join.within.grace, " ")
    return _words(f"{join.kind.value} JOIN", _source(join.source), within, "ON", expression_text(join.on))


def _grace(grace: s.Duration | None, before: str) -> str:
    return f"{before}GRACE PERIOD {grace}" if grace else ""


def _window(window: s.Window) -> str:
    size = _when(window.kind is not s.WindowKind.SESSION, "SIZE ") + str(window.size)
    advance = f", ADVANCE BY {window.advance}" if window.advance else ""
    retention = f", RETENTION {window.retention}" if window.retention else ""
    return f"WINDOW {window.kind.value} ({size}{advance}{retention}{_grace(window.grace, ', ')})"


def _clause(words: str, node: exp.Expr | None) -> str:
    return words + expression_text(node) if node is not None else ""


def _groups(words: str, items: tuple[exp.Expr, ...] | None) -> str:
    """Return the clause. Parentheses around all items let one of them begin with a parenthesis or be a condition."""
    return "" if items is None else f"{words}({_values(items)})" if len(items) != 1 else words + _group(items[0])


def _group(node: exp.Expr) -> str:
    text = expression_text(node)
    return text if isinstance(node, exp.Column) else f"({text})"


# -- sources


def _elements(elements: Sequence[s.Element]) -> str:
    return _when(bool(elements), "(" + ", ".join(_element(each) for each in elements) + ")")


def _element(element: s.Element) -> str:
    mark = element.mark.value if element.header is None else f"HEADER({string_text(element.header)})"
    return _words(name_text(element.name), str(element.type), mark)


def _create(word: str) -> Callable[[s.CreateSource], str]:
    return lambda it: _words(
        "CREATE",
        _when(it.or_replace, "OR REPLACE"),
        _when(it.source, "SOURCE"),
        word,
        _when(it.if_not_exists, "IF NOT EXISTS"),
        name_text(it.name),
        _elements(it.elements),
        _properties(it.properties),
    )


def _create_as(word: str) -> Callable[[s.CreateAs], str]:
    return lambda it: _words(
        "CREATE",
        _when(it.or_replace, "OR REPLACE"),
        word,
        _when(it.if_not_exists, "IF NOT EXISTS"),
        name_text(it.name),
        _properties(it.properties),
        "AS",
        _query(it.query),
    )


def _insert_values(it: s.InsertValues) -> str:
    return _words("INSERT INTO", name_text(it.target), _names(it.columns), f"VALUES ({_values(it.values)})")


def _drop(word: str) -> Callable[[s.DropSource], str]:
    return lambda it: _words(
        f"DROP {word}", _when(it.if_exists, "IF EXISTS"), name_text(it.name), _when(it.delete_topic, "DELETE TOPIC")
    )


def _alter(it: s.AlterSource) -> str:
    added = ", ".join(f"ADD COLUMN {_element(each)}" for each in it.columns)
    return f"ALTER {it.kind.value} {name_text(it.name)} {added}"


def _connector(it: s.CreateConnector) -> str:
    words = _words(f"CREATE {it.kind.value} CONNECTOR", _when(it.if_not_exists, "IF NOT EXISTS"), name_text(it.name))
    return f"{words} WITH {_entries(it.config)}"


# -- shows, control, asserts


def _extended(words: str) -> Callable[[Any], str]:
    return lambda it: _words(words, _when(it.extended, "EXTENDED"))


def _explain(it: s.Explain) -> str:
    return "EXPLAIN " + (to_text(it.statement) if it.statement else unlike_keyword(it.query_id or ""))


def _print(it: s.Print) -> str:
    return _words(
        f"PRINT {_topic(it.topic)}",
        _when(it.from_beginning, "FROM BEGINNING"),
        "" if it.interval is None else f"INTERVAL {it.interval}",
        "" if it.limit is None else f"LIMIT {it.limit}",
    )


def _of_query(word: str) -> Callable[[s.Terminate | s.Pause | s.Resume], str]:
    return lambda it: f"{word} {'ALL' if it.query_id is None else unlike_keyword(it.query_id)}"


def _exists(it: s.AssertTopic | s.AssertSchema) -> str:
    return "ASSERT" if it.exists else "ASSERT NOT EXISTS"


def _timeout(timeout: s.Duration | None) -> str:
    return f"TIMEOUT {timeout}" if timeout else ""


def _assert_schema(it: s.AssertSchema) -> str:
    subject = "" if it.subject is None else f"SUBJECT {_topic(it.subject)}"
    return _words(_exists(it), "SCHEMA", subject, "" if it.id is None else f"ID {it.id}", _timeout(it.timeout))


def _assert_source(word: str) -> Callable[[s.AssertStream | s.AssertTable], str]:
    return lambda it: _words(f"ASSERT {word}", name_text(it.name), _elements(it.elements), _properties(it.properties))


def _create_function(it: s.CreateFunction) -> str:
    arguments = ", ".join(f"{name_text(name)} {kind}" for name, kind in it.parameters)
    body = string_text(it.body) if "$$" in it.body or it.body.startswith("{") else f"$${it.body}$$"
    return _words(
        "CREATE",
        _when(it.or_replace, "OR REPLACE"),
        "FUNCTION",
        _when(it.if_not_exists, "IF NOT EXISTS"),
        f"{name_text(it.name)}({arguments})",
        f"RETURNS {it.returns} LANGUAGE PYTHON AS {body}",
    )


_TEXTS: dict[type[s.Statement], Callable[[Any], str]] = {
    s.Query: _query,
    s.CreateStream: _create("STREAM"),
    s.CreateTable: _create("TABLE"),
    s.CreateStreamAs: _create_as("STREAM"),
    s.CreateTableAs: _create_as("TABLE"),
    s.InsertInto: lambda it: _words(
        f"INSERT INTO {name_text(it.target)}", _properties(it.properties), _query(it.query)
    ),
    s.InsertValues: _insert_values,
    s.DropStream: _drop("STREAM"),
    s.DropTable: _drop("TABLE"),
    s.CreateType: lambda it: _words(
        "CREATE TYPE", _when(it.if_not_exists, "IF NOT EXISTS"), name_text(it.name), f"AS {it.type}"
    ),
    s.DropType: lambda it: _words("DROP TYPE", _when(it.if_exists, "IF EXISTS"), name_text(it.name)),
    s.CreateFunction: _create_function,
    s.DropFunction: lambda it: _words("DROP FUNCTION", _when(it.if_exists, "IF EXISTS"), name_text(it.name)),
    s.AlterSource: _alter,
    s.AlterSystem: lambda it: f"ALTER SYSTEM {string_text(it.name)}={string_text(it.value)}",
    s.Describe: lambda it: _words(f"DESCRIBE {unlike_keyword(it.source)}", _when(it.extended, "EXTENDED")),
    s.DescribeStreams: _extended("DESCRIBE STREAMS"),
    s.DescribeTables: _extended("DESCRIBE TABLES"),
    s.DescribeFunction: lambda it: f"DESCRIBE FUNCTION {name_text(it.function)}",
    s.DescribeConnector: lambda it: f"DESCRIBE CONNECTOR {name_text(it.connector)}",
    s.Explain: _explain,
    s.Preview: lambda it: _words("PREVIEW", "" if it.records is None else str(it.records), to_text(it.statement)),
    s.Print: _print,
    s.ListStreams: _extended("SHOW STREAMS"),
    s.ListTables: _extended("SHOW TABLES"),
    s.ListTopics: lambda it: _words("SHOW", _when(it.all, "ALL"), "TOPICS", _when(it.extended, "EXTENDED")),
    s.ListQueries: _extended("SHOW QUERIES"),
    s.ListFunctions: lambda _: "SHOW FUNCTIONS",
    s.ListProperties: lambda _: "SHOW PROPERTIES",
    s.ListTypes: lambda _: "SHOW TYPES",
    s.ListVariables: lambda _: "SHOW VARIABLES",
    s.ListConnectors: lambda it: _words("SHOW", it.kind.value if it.kind else "", "CONNECTORS"),
    s.ListConnectorPlugins: lambda _: "SHOW CONNECTOR PLUGINS",
    s.Terminate: _of_query("TERMINATE"),
    s.Pause: _of_query("PAUSE"),
    s.Resume: _of_query("RESUME"),
    s.SetProperty: lambda it: f"SET {string_text(it.name)}={string_text(it.value)}",
    s.UnsetProperty: lambda it: f"UNSET {string_text(it.name)}",
    s.Define: lambda it: f"DEFINE {_variable(it.name)} = {string_text(it.value)}",
    s.Undefine: lambda it: f"UNDEFINE {_variable(it.name)}",
    s.RunScript: lambda it: f"RUN SCRIPT {string_text(it.path)}",
    s.CreateConnector: _connector,
    s.DropConnector: lambda it: _words("DROP CONNECTOR", _when(it.if_exists, "IF EXISTS"), name_text(it.name)),
    s.AssertTopic: lambda it: _words(
        _exists(it), f"TOPIC {_topic(it.topic)}", _properties(it.properties), _timeout(it.timeout)
    ),
    s.AssertSchema: _assert_schema,
    s.AssertStream: _assert_source("STREAM"),
    s.AssertTable: _assert_source("TABLE"),
    s.AssertValues: lambda it: _words(
        f"ASSERT VALUES {name_text(it.source)}", _names(it.columns), f"VALUES ({_values(it.values)})"
    ),
    s.AssertTombstone: lambda it: _words(
        f"ASSERT NULL VALUES {name_text(it.source)}", _names(it.columns), f"KEY ({_values(it.values)})"
    ),
}


def _variable(name: str) -> str:
    return name if name.isidentifier() and name.upper() not in RESERVED else name_text(name)
