"""The answers to statements as JSON objects, with the names and the order that clients of ksqlDB know.

Each function returns one object of the array that /ksql answers with; `@type` says which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker_sql.types import Array, Column, Decimal, Kind, Map, Schema, SqlType, Struct

Entity = dict[str, Any]


def entity(kind: str, statement: str, **members: Any) -> Entity:
    warnings = members.pop("warnings", ())
    shown = [{"message": each} for each in warnings]
    return {"@type": kind, "statementText": statement, **members, "warnings": shown}


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """`state` is QUEUED, PARSING, EXECUTING, TERMINATED, SUCCESS or ERROR; `query_id` that of the query it started."""

    state: str
    message: str
    query_id: str | None = None

    def to_json(self) -> Entity:
        return {"status": self.state, "message": self.message, "queryId": self.query_id}


def current_status(
    statement: str, command_id: str, status: CommandStatus, sequence: int, warnings: Sequence[str] = ()
) -> Entity:
    return entity(
        "currentStatus",
        statement,
        commandId=command_id,
        commandStatus=status.to_json(),
        commandSequenceNumber=sequence,
        warnings=warnings,
    )


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A stream or table in a list."""

    kind: str
    name: str
    topic: str
    key_format: str
    value_format: str
    is_windowed: bool

    def to_json(self) -> Entity:
        return {
            "type": self.kind,
            "name": self.name,
            "topic": self.topic,
            "keyFormat": self.key_format,
            "valueFormat": self.value_format,
            "isWindowed": self.is_windowed,
        }


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query in a list. `states` counts the servers that have it in each state."""

    text: str
    sinks: tuple[str, ...]
    sink_topics: tuple[str, ...]
    id: str
    states: Mapping[str, int]
    kind: str = "PERSISTENT"

    @property
    def state(self) -> str:
        """The worst state that a server has the query in."""
        for each in ("UNRESPONSIVE", "ERROR", "PAUSED", "RUNNING"):
            if self.states.get(each):
                return each
        return "RUNNING"

    def to_json(self) -> Entity:
        return {
            "queryString": self.text,
            "sinks": list(self.sinks),
            "sinkKafkaTopics": list(self.sink_topics),
            "id": self.id,
            "statusCount": dict(self.states),
            "queryType": self.kind,
            "state": self.state,
        }


def streams_list(statement: str, rows: Iterable[SourceRow]) -> Entity:
    return entity("streams", statement, streams=[each.to_json() for each in rows])


def tables_list(statement: str, rows: Iterable[SourceRow]) -> Entity:
    return entity("tables", statement, tables=[each.to_json() for each in rows])


def queries_list(statement: str, rows: Iterable[QueryRow]) -> Entity:
    return entity("queries", statement, queries=[each.to_json() for each in rows])


def topics_list(statement: str, replicas: Mapping[str, Sequence[int]]) -> Entity:
    """`replicas` has the number of replicas of each partition, by topic."""
    rows = [{"name": name, "replicaInfo": list(found)} for name, found in sorted(replicas.items())]
    return entity("kafka_topics", statement, topics=rows)


def topics_list_extended(
    statement: str, replicas: Mapping[str, Sequence[int]], consumers: Mapping[str, int], groups: Mapping[str, int]
) -> Entity:
    rows = [
        {
            "name": name,
            "replicaInfo": list(found),
            "consumerCount": consumers.get(name, 0),
            "consumerGroupCount": groups.get(name, 0),
        }
        for name, found in sorted(replicas.items())
    ]
    return entity("kafka_topics_extended", statement, topics=rows)


def properties_list(
    statement: str, properties: Sequence[Mapping[str, Any]], overwritten: Sequence[str], defaults: Sequence[str]
) -> Entity:
    return entity(
        "properties",
        statement,
        properties=list(properties),
        overwrittenProperties=list(overwritten),
        defaultProperties=list(defaults),
    )


def functions_list(statement: str, functions: Iterable[tuple[str, str, str]]) -> Entity:
    """`functions` are names, kinds (SCALAR, AGGREGATE, TABLE) and categories."""
    rows = [{"name": name, "type": kind, "category": category} for name, kind, category in functions]
    return entity("function_names", statement, functions=rows)


def types_list(statement: str, types: Mapping[str, SqlType]) -> Entity:
    return entity("type_list", statement, types={name: schema_info(kind) for name, kind in types.items()})


def variables_list(statement: str, variables: Mapping[str, str]) -> Entity:
    rows = [{"name": name, "value": value} for name, value in variables.items()]
    return entity("variables", statement, variables=rows)


def warning(statement: str, message: str) -> Entity:
    return entity("warning_entity", statement, message=message)


def assert_topic(statement: str, topic: str, *, exists: bool) -> Entity:
    return entity("assert_topic", statement, topicName=topic, exists=exists)


def assert_schema(statement: str, subject: str | None, schema_id: int | None, *, exists: bool) -> Entity:
    return entity("assert_schema", statement, subject=subject, id=schema_id, exists=exists)


def terminated_query(statement: str, query_id: str, *, was_terminated: bool) -> Entity:
    return entity("terminate_query", statement, queryId=query_id, wasTerminated=was_terminated)


def source_description(statement: str, description: Entity, warnings: Sequence[str] = ()) -> Entity:
    return entity("sourceDescription", statement, sourceDescription=description, warnings=warnings)


def source_descriptions(statement: str, descriptions: Sequence[Entity]) -> Entity:
    return entity("source_descriptions", statement, sourceDescriptions=list(descriptions))


def query_description(statement: str, description: Entity) -> Entity:
    return entity("queryDescription", statement, queryDescription=description)


def query_descriptions(statement: str, descriptions: Sequence[Entity]) -> Entity:
    return entity("query_descriptions", statement, queryDescriptions=list(descriptions))


def fields(schema: Schema) -> list[Entity]:
    """Return the columns of a schema, those of the key first, as descriptions have them."""
    return [_field(each) for each in (*schema.key, *schema.value, *schema.headers)]


def value_fields(columns: Iterable[Column]) -> list[Entity]:
    """Return columns without the parts of a record that they are in, as those of a query that is not stored."""
    return [{"name": each.name, "schema": schema_info(each.type)} for each in columns]


def _field(column: Column) -> Entity:
    found: Entity = {"name": column.name, "schema": schema_info(column.type)}
    if column.kind is Kind.KEY:
        found["type"] = "KEY"
    elif column.kind is Kind.HEADERS:
        found["type"] = "HEADER"
        if column.header is not None:
            found["headerKey"] = column.header
    return found


def schema_info(kind: SqlType) -> Entity:
    """Return a type as an object."""
    found: Entity = {"type": str(kind).partition("<")[0].partition("(")[0], "fields": None, "memberSchema": None}
    match kind:
        case Array(element):
            found["memberSchema"] = schema_info(element)
        case Map(_, value):
            found["memberSchema"] = schema_info(value)
        case Struct(members):
            found["fields"] = [{"name": name, "schema": schema_info(each)} for name, each in members]
        case Decimal(precision, scale):
            found["parameters"] = {"precision": precision, "scale": scale}
    return found
