"""Entities of a server's answer as tables and texts: pure, without a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from broker_sql.client import Entity
from broker_sql.types import quoted


@dataclass(frozen=True)
class Table:
    """Rows of texts under titles. `about` stands above it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    about: str = ""


@dataclass(frozen=True)
class Text:
    """A text of one or more lines."""

    text: str
    is_warning: bool = False


Shown = Table | Text


def shown(entity: Entity) -> list[Shown]:
    """Return what a terminal shows of an entity. A type that is not known is shown as JSON."""
    found: list[Shown] = [Text(f"warning: {each.get('message', '')}", True) for each in entity.get("warnings") or ()]
    form = _FORMS.get(entity.get("@type", ""))
    if form is None:
        return [*found, Text(to_json(entity, indent=2))]
    return [*found, *form(entity)]


def to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON in which a Decimal is a number with all of its digits."""
    return _written(value, indent, 0)


def _written(value: Any, indent: int | None, depth: int) -> str:
    """Write a value. The library writes every float in its own way, so objects and lists are written here."""
    if isinstance(value, Decimal):
        return str(value)
    if not isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    is_map = isinstance(value, dict)
    pairs: Iterable[str]
    if isinstance(value, dict):
        pairs = (f"{_written(str(name), None, 0)}: {_written(each, indent, depth + 1)}" for name, each in value.items())
    else:
        pairs = (_written(each, indent, depth + 1) for each in value)
    opens, closes = "{}" if is_map else "[]"
    if indent is None or not value:
        return opens + ", ".join(pairs) + closes
    space = "\n" + " " * (indent * (depth + 1))
    return opens + space + ("," + space).join(pairs) + "\n" + " " * (indent * depth) + closes


def cell(value: Any) -> str:
    """Return the text of a value in a table."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return to_json(value)


def _table(items: Iterable[Mapping[str, Any]], columns: Mapping[str, str], about: str = "") -> Table:
    """Return a table of objects: `columns` are titles by the names of members, which may be missing."""
    rows = tuple(tuple("" if each.get(name) is None else cell(each[name]) for name in columns) for each in items)
    return Table(tuple(columns.values()), rows, about)


def _sources(kind: str) -> Callable[[Entity], list[Shown]]:
    columns = {"name": kind, "topic": "Topic", "keyFormat": "Key format", "valueFormat": "Value format"}
    if kind == "Table":
        columns["isWindowed"] = "Windowed"
    return lambda entity: [_table(entity[kind.lower() + "s"], columns)]


def _queries(entity: Entity) -> list[Shown]:
    rows = []
    for each in entity["queries"]:
        counts = each.get("statusCount") or {}
        state = ", ".join(f"{name}: {count}" for name, count in counts.items()) or str(each.get("state") or "")
        sinks = ", ".join(each.get("sinks") or ())
        topics = ", ".join(each.get("sinkKafkaTopics") or ())
        rows.append((each["id"], each.get("queryType") or "", state, sinks, topics, each.get("queryString") or ""))
    return [Table(("Query", "Type", "State", "Sink", "Topic", "Statement"), tuple(rows))]


def _topics(entity: Entity) -> list[Shown]:
    rows: list[tuple[str, ...]] = []
    for each in entity["topics"]:
        replicas = sorted(set(each.get("replicaInfo") or ()))
        row: tuple[str, ...] = (each["name"], str(len(each.get("replicaInfo") or ())), "/".join(map(str, replicas)))
        if "consumerCount" in each:
            row += (str(each["consumerCount"]), str(each.get("consumerGroupCount", "")))
        rows.append(row)
    titles = ("Topic", "Partitions", "Replicas", "Consumers", "Groups")
    return [Table(titles[: len(rows[0]) if rows else 3], tuple(rows))]


def type_text(schema: Mapping[str, Any]) -> str:
    """Return the text of a type as the API describes it: {"type": "ARRAY", "memberSchema": ...}."""
    kind = str(schema.get("type"))
    member = schema.get("memberSchema")
    if kind == "ARRAY" and member:
        return f"ARRAY<{type_text(member)}>"
    if kind == "MAP" and member:
        return f"MAP<STRING, {type_text(member)}>"
    if kind == "STRUCT":
        fields = (f"{quoted(each['name'])} {type_text(each['schema'])}" for each in schema.get("fields") or ())
        return f"STRUCT<{', '.join(fields)}>"
    parameters = schema.get("parameters") or {}
    if kind == "DECIMAL" and parameters:
        return f"DECIMAL({parameters.get('precision')}, {parameters.get('scale')})"
    return kind


def _fields(fields: Iterable[Mapping[str, Any]], is_table: bool = False) -> Table:
    marks = {"KEY": "PRIMARY KEY" if is_table else "KEY", "HEADER": "HEADERS", "SYSTEM": "system"}
    rows = []
    for each in fields:
        mark = marks.get(str(each.get("type") or each.get("fieldType") or ""), "")
        mark = f"HEADER('{each['headerKey']}')" if each.get("headerKey") else mark
        rows.append((each["name"], type_text(each["schema"]), mark))
    return Table(("Column", "Type", ""), tuple(rows))


def _source(entity: Entity) -> list[Shown]:
    return _described(entity["sourceDescription"])


def _described(source: Mapping[str, Any]) -> list[Shown]:
    kind = str(source.get("type") or "")
    window = f", {source['windowType']} windows" if source.get("windowType") else ""
    formats = f"key {source.get('keyFormat')}, value {source.get('valueFormat')}"
    found: list[Shown] = [
        Text(f"{kind} {source['name']}: topic {source.get('topic')}, {formats}{window}"),
        _fields(source.get("fields") or (), kind == "TABLE"),
    ]
    for title, name in (("Read by", "readQueries"), ("Written by", "writeQueries")):
        queries = source.get(name) or ()
        if queries:
            found.append(_table(queries, {"id": title, "queryString": "Statement"}))
    if source.get("extended"):
        texts = {"statement": "", "partitions": "partitions: ", "replication": "replicas: ", "timestamp": "timestamp: "}
        lines = [f"{before}{source[name]}" for name, before in texts.items() if source.get(name)]
        lines += [str(source[name]).strip() for name in ("statistics", "errorStats") if source.get(name)]
        found.append(Text("\n".join(lines)))
    return found


def _query(entity: Entity) -> list[Shown]:
    return _described_query(entity["queryDescription"])


def _described_query(query: Mapping[str, Any]) -> list[Shown]:
    head = f"{query.get('queryType') or 'query'} {query.get('id') or ''}"
    found: list[Shown] = [Text(f"{head}: {query.get('statementText')}")]
    if query.get("state"):
        found.append(Text(f"state: {query['state']}"))
    found.append(_fields(query.get("fields") or ()))
    for title, name in (("reads", "sources"), ("writes", "sinks")):
        if query.get(name):
            found.append(Text(f"{title}: {', '.join(query[name])}"))
    for title, name in (("Plan", "executionPlan"), ("Topology", "topology")):
        if query.get(name):
            found.append(Text(f"{title}\n{query[name].rstrip()}"))
    if query.get("overriddenProperties"):
        found.append(_properties_of(query["overriddenProperties"], "Overridden properties"))
    if query.get("queryErrors"):
        found.append(_table(query["queryErrors"], {"timestamp": "Time", "type": "Error", "errorMessage": "Message"}))
    return found


def _properties_of(properties: Mapping[str, Any], about: str) -> Table:
    rows = tuple((name, "" if value is None else cell(value)) for name, value in sorted(properties.items()))
    return Table(("Property", "Value"), rows, about)


def _properties(entity: Entity) -> list[Shown]:
    changed = set(entity.get("overwrittenProperties") or ())
    defaults = set(entity.get("defaultProperties") or ())
    rows = []
    for each in sorted(entity["properties"], key=lambda one: str(one["name"])):
        name = str(each["name"])
        origin = "session" if name in changed else "default" if name in defaults else "server"
        rows.append((name, "" if each.get("value") is None else cell(each["value"]), origin))
    return [Table(("Property", "Value", "From"), tuple(rows))]


def _function(entity: Entity) -> list[Shown]:
    head = f"{entity['name']} ({entity.get('type') or 'SCALAR'})"
    found: list[Shown] = [Text(f"{head}: {entity['description']}" if entity.get("description") else head)]
    for each in entity.get("functions") or ():
        arguments = each.get("arguments") or []
        parts = (f"{one.get('name')} {one.get('type')}{'...' if one.get('isVariadic') else ''}" for one in arguments)
        names = ", ".join(parts)
        about = f"{entity['name']}({names}) -> {each.get('returnType')}"
        found.append(Text(f"  {about}" + (f": {each['description']}" if each.get("description") else "")))
    return found


def _types(entity: Entity) -> list[Shown]:
    rows = tuple((name, type_text(schema)) for name, schema in sorted(entity["types"].items()))
    return [Table(("Type", "Definition"), rows)]


def _connector(entity: Entity) -> list[Shown]:
    status = entity.get("status") or {}
    state = status.get("connector") or {}
    head = f"{status.get('name')}: {entity.get('connectorClass')}, {state.get('state')} on {state.get('worker_id')}"
    tasks = _table(status.get("tasks") or (), {"id": "Task", "state": "State", "trace": "Error"})
    topics = ", ".join(entity.get("topics") or ())
    return [Text(head), tasks, *([Text(f"topics: {topics}")] if topics else [])]


def _status(entity: Entity) -> list[Shown]:
    status = entity.get("commandStatus") or {}
    message = str(status.get("message") or status.get("status") or "")
    return [Text(message, status.get("status") == "ERROR")]


def _exists(entity: Entity) -> list[Shown]:
    what = "topic" if "topicName" in entity else "schema"
    named = [str(entity[name]) for name in ("topicName", "subject", "id") if entity.get(name) is not None]
    return [Text(f"{what} {' '.join(named)} {'exists' if entity.get('exists') else 'does not exist'}")]


_FORMS: dict[str, Callable[[Entity], list[Shown]]] = {
    "currentStatus": _status,
    "streams": _sources("Stream"),
    "tables": _sources("Table"),
    "queries": _queries,
    "kafka_topics": _topics,
    "kafka_topics_extended": _topics,
    "properties": _properties,
    "sourceDescription": _source,
    "source_descriptions": lambda it: [one for each in it["sourceDescriptions"] for one in _described(each)],
    "queryDescription": _query,
    "query_descriptions": lambda it: [one for each in it["queryDescriptions"] for one in _described_query(each)],
    "function_names": lambda it: [
        _table(sorted(it["functions"], key=lambda one: str(one["name"])), {"name": "Function", "category": "Category"})
    ],
    "describe_function": _function,
    "type_list": _types,
    "variables": lambda it: [_table(it["variables"], {"name": "Variable", "value": "Value"})],
    "connector_list": lambda it: [
        _table(it["connectors"], {"name": "Connector", "type": "Type", "className": "Class", "state": "State"})
    ],
    "connector_plugins_list": lambda it: [
        _table(it["connectorsPlugins"], {"className": "Class", "type": "Type", "version": "Version"})
    ],
    "connector_description": _connector,
    "connector_info": lambda it: [Text(f"created connector {(it.get('info') or {}).get('name')}")],
    "drop_connector": lambda it: [Text(f"dropped connector {it.get('connectorName')}")],
    "terminate_query": lambda it: [Text(f"query {it['queryId']} {'ends' if it.get('wasTerminated') else 'runs on'}")],
    "assert_topic": _exists,
    "assert_schema": _exists,
    "warning_entity": lambda it: [Text(str(it.get("message") or ""), True)],
}
