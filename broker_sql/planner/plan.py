"""Statements to changes of the catalog and topologies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from broker_sql.analysis import functions, inserts, sources
from broker_sql.analysis import properties as with_properties
from broker_sql.analysis.query import Analysis, analyse
from broker_sql.analysis.schemas import check_formats, check_physical
from broker_sql.analysis.settings import KEY_FORMAT, SINK_PARTITIONS, SINK_REPLICAS, TOPIC_PREFIX, Settings
from broker_sql.catalog import Catalog, Change, Format, PutQuery, PutSource, QueryInfo, SourceInfo
from broker_sql.dialect import parse
from broker_sql.errors import AnalysisError, StatementError
from broker_sql.planner import aggregate, joins, push, rows, sink
from broker_sql.planner.source import source_stage
from broker_sql.planner.stage import PlanContext, Stage
from broker_sql.planner.upgrades import check_upgrade
from broker_sql.statements import (
    AlterSource,
    CreateAs,
    CreateFunction,
    CreateSource,
    CreateTableAs,
    CreateType,
    DropFunction,
    DropSource,
    DropType,
    InsertInto,
    Query,
    SourceKind,
    Statement,
)
from broker_sql.types import Schema, quoted
from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.topology import Topology
from broker_streams.plan.topology import TopologyError

OnRow = Callable[[tuple[Any, ...], bool], object]


@dataclass(frozen=True)
class Planned:
    """The effects of a statement. `changes` are for the catalog. A query has a topology, and its id.

    `schema` is that of the result; a query without a sink has all its columns in the order of SELECT. `dropped` is the
    source that DROP removes. `already`: there is nothing to do, since IF [NOT] EXISTS holds.
    """

    changes: tuple[Change, ...] = ()
    query_id: str | None = None
    topology: Topology | None = None
    schema: Schema | None = None
    sink: SourceInfo | None = None
    dropped: SourceInfo | None = None
    analysis: Analysis | None = None
    already: bool = False


def plan(statement: Statement, catalog: Catalog, settings: Settings, on_row: OnRow | None = None) -> Planned:
    """Plan a statement that changes the catalog, or a query.

    `on_row(row, is_deleted)` gets the rows of a query without a sink; a deleted row of a table has its key only.
    Raises AnalysisError or StatementError.
    """
    settings = functions.with_functions(settings, catalog)
    match statement:
        case CreateSource():
            made = sources.create(statement, catalog, settings)
            return Planned(
                tuple(sources.put(made)), sink=made, schema=None if made is None else made.schema, already=made is None
            )
        case CreateAs():
            return _create_as(statement, catalog, settings)
        case InsertInto():
            return _insert_into(statement, catalog, settings)
        case Query():
            return _query(statement, catalog, settings, on_row)
        case AlterSource():
            changed = sources.alter(statement, catalog, settings)
            return Planned((PutSource(changed),), sink=changed, schema=changed.schema)
        case DropSource():
            changes, dropped = sources.drop(statement, catalog)
            return Planned(tuple(changes), dropped=dropped, already=dropped is None)
        case CreateType():
            changes = sources.create_type(statement, catalog)
            return Planned(tuple(changes), already=not changes)
        case DropType():
            changes = sources.drop_type(statement, catalog)
            return Planned(tuple(changes), already=not changes)
        case CreateFunction():
            changes = functions.create(statement, catalog, settings)
            return Planned(tuple(changes), already=not changes)
        case DropFunction():
            changes = functions.drop(statement, catalog)
            return Planned(tuple(changes), already=not changes)
    raise StatementError(f"{type(statement).__name__} is nothing to plan", statement.location)


def _create_as(statement: CreateAs, catalog: Catalog, settings: Settings) -> Planned:
    if sources.is_present(statement.name, statement.or_replace, statement.if_not_exists, catalog):
        return Planned(already=True)
    is_table = isinstance(statement, CreateTableAs)
    analysis = analyse(statement.query, catalog, settings, str(statement.name))
    if analysis.is_table != is_table:
        made, wanted = ("TABLE", "STREAM") if analysis.is_table else ("STREAM", "TABLE")
        raise AnalysisError(
            f"the query makes a {made.lower()}: write CREATE {made} AS SELECT, not CREATE {wanted} AS SELECT",
            statement.location,
        )
    made_sink = _sink(statement, analysis, settings)
    check_formats(made_sink, settings, statement.location)
    check_physical(made_sink, settings, statement.location)
    sources.check_replacement(made_sink, statement.or_replace, catalog, False, statement.location)
    old = catalog.sources.get(statement.name)
    if old is not None and old.query_id is not None:
        query_id = old.query_id
    else:
        query_id = f"{'CTAS' if is_table else 'CSAS'}_{statement.name}_{catalog.next_query}"
    made_sink = replace(made_sink, query_id=query_id)
    planned = _persistent(analysis, made_sink, query_id, settings, statement.text, (PutSource(made_sink),))
    if old is not None and old.query_id is not None:
        _check_upgrade(planned, old, catalog, settings, statement)
    return planned


def _check_upgrade(
    planned: Planned, old: SourceInfo, catalog: Catalog, settings: Settings, statement: CreateAs
) -> None:
    (before,) = parse(old.text)
    if not isinstance(before, CreateAs):
        raise StatementError(f"{quoted(old.name)} was not made by a query", statement.location)
    analysis = analyse(before.query, catalog, settings, old.name)
    earlier = _persistent(analysis, old, str(old.query_id), settings, old.text, ())
    assert planned.analysis is not None
    assert planned.topology is not None
    assert earlier.topology is not None
    check_upgrade(old.name, analysis, planned.analysis, (earlier.topology, planned.topology), statement.location)


def _sink(statement: CreateAs, analysis: Analysis, settings: Settings) -> SourceInfo:
    first = analysis.sources[0].info
    schema = analysis.schema
    inherited = first.key_format
    if inherited.name == "NONE" and schema.key:
        inherited = Format(settings.text(KEY_FORMAT, "KAFKA").upper())
    properties = statement.properties
    found = with_properties.read(
        properties, with_properties.OF_CREATE_AS, settings, key=inherited, value=first.value_format
    )
    assert found.key_format is not None
    assert found.value_format is not None
    key_format = found.key_format
    if not schema.key:
        given = properties.find("KEY_FORMAT")
        if given is not None and key_format.name != "NONE":
            raise AnalysisError("KEY_FORMAT is given, and the stream has no key columns", given.location)
        key_format = Format("NONE")
    sources.check_keys(schema, statement.location)
    return SourceInfo(
        name=str(statement.name),
        kind=SourceKind.TABLE if analysis.is_table else SourceKind.STREAM,
        schema=schema,
        topic=found.topic or settings.text(TOPIC_PREFIX) + str(statement.name),
        key_format=key_format,
        value_format=found.value_format,
        window=analysis.window,
        timestamp=sources.checked_timestamp(found.timestamp, schema, properties),
        wrap_value=with_properties.wraps_value(
            found.wrap_value, found.value_format, len(schema.value), settings, properties
        ),
        unwraps_key=with_properties.unwraps_key(key_format, len(schema.key)),
        partitions=found.partitions or _number(settings, SINK_PARTITIONS) or first.partitions,
        replicas=found.replicas or _number(settings, SINK_REPLICAS) or first.replicas,
        retention_ms=found.retention_ms or first.retention_ms,
        text=statement.text,
    )


def _number(settings: Settings, name: str) -> int | None:
    text = settings.text(name)
    return int(text) if text.lstrip("-").isdigit() else None


def _insert_into(statement: InsertInto, catalog: Catalog, settings: Settings) -> Planned:
    target = inserts.checked_target(statement, catalog)
    given = with_properties.query_id(statement.properties)
    analysis = analyse(statement.query, catalog, settings, str(statement.target))
    if analysis.is_table:
        raise AnalysisError("the query makes a table, and INSERT INTO takes a stream", statement.location)
    analysis = inserts.with_types_of(analysis, target)
    query_id = given or f"INSERTQUERY_{catalog.next_query}"
    if query_id in catalog.queries:
        raise StatementError(f"query {query_id} exists already", statement.location)
    return _persistent(analysis, target, query_id, settings, statement.text, ())


def _persistent(
    analysis: Analysis,
    made_sink: SourceInfo,
    query_id: str,
    settings: Settings,
    text: str,
    changes: tuple[Change, ...],
) -> Planned:
    context = PlanContext(StreamsBuilder(), settings, query_id)
    stage = result_stage(analysis, context, made_sink.key_format)
    sink.written(stage, made_sink)
    names = tuple(dict.fromkeys(each.info.name for each in analysis.sources))
    query = QueryInfo(query_id, names, made_sink.name, text)
    return Planned(
        (*changes, PutQuery(query)),
        query_id,
        _built(context),
        made_sink.schema,
        made_sink,
        analysis=analysis,
    )


def _query(query: Query, catalog: Catalog, settings: Settings, on_row: OnRow | None) -> Planned:
    if query.emit is None:
        raise StatementError("a pull query is answered from a view: it has no topology", query.location)
    analysis = analyse(query, catalog, settings, None)
    query_id = f"transient_{analysis.sources[0].info.name}_{catalog.next_query}"
    context = PlanContext(StreamsBuilder(), settings, query_id)
    stage = result_stage(analysis, context, analysis.sources[0].info.key_format)
    push.emitted(stage, analysis, on_row or (lambda row, is_deleted: None))
    return Planned((), query_id, _built(context), push.schema_of(analysis), analysis=analysis)


def _built(context: PlanContext) -> Topology:
    properties = context.settings.properties
    config = {
        name.removeprefix("ksql.streams."): value
        for name, value in properties.items()
        if name in ("ksql.streams.topology.optimization", "topology.optimization")
    }
    try:
        return context.builder.build(config)
    except TopologyError as error:
        raise StatementError(str(error)) from error


def result_stage(analysis: Analysis, context: PlanContext, key_format: Format) -> Stage:
    """All clauses of a query: rows of value columns with the result's key. A query without a sink has all items."""
    if analysis.joins:
        stage = joins.joined_stage(analysis, context)
    else:
        stage = source_stage(analysis.sources[0], context, "KsqlTopic")
    if analysis.where is not None:
        stage = rows.filtered(stage, analysis.where, "WHERE", "WhereFilter")
    if analysis.table_functions:
        stage = rows.flat_mapped(stage, analysis.table_functions, analysis.layout)
    items, name = analysis.values, "Project"
    named = [(each.name, each.type) for each in analysis.key]
    if analysis.aggregation is not None:
        wanted = _key_format(key_format, context.settings)
        stage = aggregate.aggregated(stage, analysis.aggregation, analysis.query, named, wanted, analysis.window)
        name = "Aggregate-Project"
    elif analysis.partition_by is not None:
        wanted = _key_format(key_format, context.settings)
        stage = rows.partitioned(stage, analysis.partition_by, named, wanted, "PartitionBy")
    return rows.projected(stage, items, named, name)


def _key_format(given: Format, settings: Settings) -> Format:
    return Format(settings.text(KEY_FORMAT, "KAFKA").upper()) if given.name == "NONE" else given


__all__ = ["OnRow", "Planned", "plan", "result_stage"]
