"""Statements that only show: SHOW, DESCRIBE, EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_sql.analysis.functions import registry
from broker_sql.analysis.settings import TopicInfo
from broker_sql.catalog import SourceInfo
from broker_sql.errors import StatementError
from broker_sql.server import entities
from broker_sql.server.config import definitions
from broker_sql.server.engine import WantedQuery
from broker_sql.server.entities import Entity, QueryRow, SourceRow
from broker_sql.server.queries.persistent import PAUSED, RUNNING, PersistentQuery
from broker_sql.server.queries.pull import pull_plan
from broker_sql.server.service import Service
from broker_sql.server.session import Session
from broker_sql.server.statistics import Statistics, statistics_of
from broker_sql.statements import (
    CreateAs,
    Describe,
    DescribeFunction,
    DescribeStreams,
    DescribeTables,
    Explain,
    InsertInto,
    ListFunctions,
    ListProperties,
    ListQueries,
    ListStreams,
    ListTables,
    ListTopics,
    ListTypes,
    ListVariables,
    Query,
    Statement,
)
from broker_streams.plan.describe import describe
from broker_streams.plan.topology import Topology


async def show(service: Service, statement: Statement, session: Session) -> Entity | None:
    """Return the answer; None: the statement is none that shows. Raises SqlError and ClientError."""
    text = statement.text
    match statement:
        case ListStreams(extended=extended) | DescribeStreams(extended=extended):
            return await _sources(service, statement, is_table=False, extended=extended)
        case ListTables(extended=extended) | DescribeTables(extended=extended):
            return await _sources(service, statement, is_table=True, extended=extended)
        case ListTopics(all=all_topics, extended=extended):
            return await _topics(service, text, shows_all=all_topics, extended=extended)
        case ListQueries(extended=extended):
            return await _queries(service, text, extended=extended)
        case ListFunctions():
            return _functions(service, text)
        case DescribeFunction(function=name):
            return _function(service, text, str(name))
        case ListProperties():
            return _properties(service, text, session)
        case ListTypes():
            return entities.types_list(text, service.engine.catalog.types)
        case ListVariables():
            return entities.variables_list(text, session.variables)
        case Describe(source=name, extended=extended):
            return await _describe(service, statement, name, extended=extended)
        case Explain():
            return await _explain(service, statement, session)
    return None


# ---- sources


def _row(source: SourceInfo) -> SourceRow:
    return SourceRow(
        source.kind.value,
        source.name,
        source.topic,
        source.key_format.name,
        source.value_format.name,
        source.window is not None,
    )


async def _sources(service: Service, statement: Statement, *, is_table: bool, extended: bool) -> Entity:
    found = [each for _, each in sorted(service.engine.catalog.sources.items()) if each.is_table is is_table]
    if isinstance(statement, DescribeStreams | DescribeTables) or extended:
        topics = await service.topics()
        shown = [await _description(service, each, topics, extended=extended) for each in found]
        return entities.source_descriptions(statement.text, shown)
    rows = [_row(each) for each in found]
    make = entities.tables_list if is_table else entities.streams_list
    return make(statement.text, rows)


async def _describe(service: Service, statement: Describe, name: str, *, extended: bool) -> Entity:
    source = service.engine.catalog.sources.get(name)
    if source is None:
        # As ksqlDB names it; the nearest names help with a typing error.
        source = service.engine.catalog.source(name, getattr(name, "location", None))
    topics = await service.topics() if extended else {}
    warnings = []
    if extended and source.topic not in topics:
        warnings.append(f"topic {source.topic} does not exist")
    shown = await _description(service, source, topics, extended=extended)
    return entities.source_description(statement.text, shown, warnings)


async def _description(
    service: Service, source: SourceInfo, topics: Mapping[str, TopicInfo], *, extended: bool
) -> Entity:
    catalog = service.engine.catalog
    topic = topics.get(source.topic)
    statistics = await statistics_of(service, source) if extended else Statistics()
    return {
        "name": source.name,
        "windowType": None if source.window is None else source.window.kind.value,
        "readQueries": [_query_row(service, each).to_json() for each in catalog.readers(source.name)],
        "writeQueries": [_query_row(service, each).to_json() for each in catalog.writers(source.name)],
        "fields": entities.fields(source.schema),
        "type": source.kind.value,
        "timestamp": "" if source.timestamp is None else source.timestamp.name,
        "statistics": statistics.text,
        "errorStats": statistics.errors,
        "extended": extended,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": 0 if topic is None else topic.partitions,
        "replication": 0 if topic is None else topic.replicas or 0,
        "statement": source.text,
        "queryOffsetSummaries": list(statistics.offsets),
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


# ---- queries


def _state(query: WantedQuery, running: PersistentQuery | None) -> str:
    """The state of a query that is about to start is that which it will have."""
    if running is not None:
        return running.state
    return PAUSED if query.is_paused else RUNNING


def _query_row(service: Service, query_id: str) -> QueryRow:
    query, running = service.engine.queries[query_id], service.runner.running.get(query_id)
    state = _state(query, running)
    sink = query.planned.sink
    return QueryRow(
        query.text,
        () if sink is None else (sink.name,),
        () if sink is None else (sink.topic,),
        query_id,
        {state: 1},
    )


def _push_row(query_id: str, text: str) -> QueryRow:
    return QueryRow(text, (), (), query_id, {"RUNNING": 1}, "PUSH")


async def _queries(service: Service, text: str, *, extended: bool) -> Entity:
    found = list(service.engine.queries)
    if extended:
        shown = [_query_description(service, each) for each in found]
        return entities.query_descriptions(text, shown)
    rows = [_query_row(service, each) for each in found]
    rows += [_push_row(each.id, each.text) for each in service.push_queries.values()]
    return entities.queries_list(text, rows)


def _query_description(service: Service, query_id: str) -> Entity:
    query, running = service.engine.queries[query_id], service.runner.running.get(query_id)
    state = _state(query, running)
    planned = query.planned
    sink = planned.sink
    host, port = service.host
    return {
        "id": query_id,
        "statementText": query.text,
        "windowType": None if sink is None or sink.window is None else sink.window.kind.value,
        "fields": entities.fields(sink.schema) if sink is not None else [],
        "sources": list(service.engine.catalog.queries[query_id].sources),
        "sinks": [] if sink is None else [sink.name],
        "topology": _shown(query.topology),
        "executionPlan": "",
        "overriddenProperties": dict(query.properties),
        "ksqlHostQueryStatus": {f"{host}:{port}": state},
        "queryType": "PERSISTENT",
        "queryErrors": [] if running is None else [each.to_json() for each in running.errors],
        "tasksMetadata": [],
        "consumerGroupId": service.config.query_prefix + query_id,
        "state": state,
    }


def _shown(topology: Topology) -> str:
    return describe(topology)


async def _explain(service: Service, statement: Explain, session: Session) -> Entity:
    """Raises SqlError: the query does not run, or the statement is none that makes a query."""
    if statement.query_id is not None:
        (query_id,) = service.engine.chosen(statement.query_id)
        return entities.query_description(statement.text, _query_description(service, query_id))
    inner = statement.statement
    if not isinstance(inner, Query | CreateAs | InsertInto):
        raise StatementError("EXPLAIN is for queries: SELECT, CREATE ... AS SELECT, INSERT INTO ... SELECT, or the id")
    settings = service.engine.settings(session.properties, topics=await service.topics())
    if isinstance(inner, Query) and inner.emit is None:
        plan = pull_plan(inner, service.engine.catalog, settings, may_scan=True)
        fields, sources, topology = entities.value_fields(plan.columns), [plan.source.name], ""
    else:
        planned = service.engine.planned(inner, settings, 0)
        if planned.schema is None or planned.topology is None or planned.analysis is None:
            raise StatementError("the statement starts no query: what it makes exists already", inner.location)
        fields = entities.value_fields(planned.schema.columns)
        sources = [each.info.name for each in planned.analysis.sources]
        topology = _shown(planned.topology.plan)
    return entities.query_description(
        statement.text,
        {
            "id": "",
            "statementText": inner.text,
            "windowType": None,
            "fields": fields,
            "sources": sources,
            "sinks": [],
            "topology": topology,
            "executionPlan": "",
            "overriddenProperties": session.properties,
            "ksqlHostQueryStatus": {},
            "queryType": "PUSH" if topology else "PULL",
            "queryErrors": [],
            "tasksMetadata": [],
            "consumerGroupId": "",
            "state": None,
        },
    )


# ---- the rest


async def _topics(service: Service, text: str, *, shows_all: bool, extended: bool) -> Entity:
    found = {
        each.name: [len(part.replicas) for part in each.partitions]
        for each in await service.client.topics.list_all()
        if shows_all or not (each.is_internal or service.config.is_hidden(each.name))
    }
    if not extended:
        return entities.topics_list(text, found)
    consumers: dict[str, int] = {}
    groups: dict[str, int] = {}
    listed = [each.group_id for each in await service.client.groups.listed()]
    described = await service.client.groups.describe(listed)
    for group in described.found.values():
        topics = {part.topic for member in group.members for part in member.assignment}
        for topic in topics:
            groups[topic] = groups.get(topic, 0) + 1
            having = [each for each in group.members if any(part.topic == topic for part in each.assignment)]
            consumers[topic] = consumers.get(topic, 0) + len(having)
    return entities.topics_list_extended(text, found, consumers, groups)


def _functions(service: Service, text: str) -> Entity:
    functions = registry(service.engine.functions, service.engine.catalog)
    found = (functions.describe(each) for each in functions.names())
    return entities.functions_list(text, [(each.name, each.kind, each.category) for each in found])


def _function(service: Service, text: str, name: str) -> Entity:
    found = registry(service.engine.functions, service.engine.catalog).describe(name.upper())
    variants = [
        {
            "arguments": [
                {"name": each.name, "type": each.type, "description": each.description, "isVariadic": each.variadic}
                for each in signature.arguments
            ],
            "returnType": signature.return_type,
            "description": signature.description,
            "argumentTypes": [each.type for each in signature.arguments],
        }
        for signature in found.signatures
    ]
    return entities.entity(
        "describe_function",
        text,
        name=found.name,
        description=found.description,
        author=found.author,
        version="",
        path="internal",
        functions=variants,
        type=found.kind,
    )


def _properties(service: Service, text: str, session: Session) -> Entity:
    config = service.config
    values = {f"ksql.streams.{name}": value for name, value in config.streams.items()}
    defaults = []
    for name, (definition, _) in definitions().items():
        if name.startswith("ksql.") and not definition.is_sensitive:
            values[name] = config.values[name]
            if config.values[name] == definition.default:
                defaults.append(name)
    values |= service.engine.altered
    values |= session.properties
    rows = [
        {
            "name": name,
            "scope": "KSQL" if name.startswith("ksql.") and not name.startswith("ksql.streams.") else "CLIENT",
            "value": _text(value),
            "editable": not config.problem_of({name: value}),
            "level": "SERVER",
        }
        for name, value in sorted(values.items())
    ]
    return entities.properties_list(text, rows, sorted(session.properties), defaults)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)
