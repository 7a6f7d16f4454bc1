"""Statements that change something: commands of the topic, rows that are written, and assertions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from broker_sql.analysis import serdes
from broker_sql.analysis.properties import IN_REGISTRY
from broker_sql.analysis.settings import TopicInfo
from broker_sql.catalog import SourceInfo
from broker_sql.dialect import to_text
from broker_sql.errors import StatementError
from broker_sql.formats.inference import register
from broker_sql.planner import Planned
from broker_sql.server import entities
from broker_sql.server.commands import STATEMENT_BYTES_MAX, Command
from broker_sql.server.config import definitions
from broker_sql.server.engine import command_id
from broker_sql.server.entities import Entity
from broker_sql.server.inserting import values_record
from broker_sql.server.service import Service
from broker_sql.server.session import Session
from broker_sql.statements import (
    AlterSystem,
    CreateAs,
    CreateSource,
    DropSource,
    Element,
    InsertInto,
    InsertValues,
    Mark,
    Name,
    Pause,
    Resume,
    Statement,
    Terminate,
)
from broker_sql.types import Kind, quoted

PARTITIONS: Final = 1
_SCHEMA_IDS: Final = ("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID")


async def change(service: Service, statement: Statement, session: Session) -> Entity:
    """Carry out a statement that becomes a command. Raises SqlError and ClientError."""
    match statement:
        case Terminate(query_id=query_id) if query_id is not None and _push_query(service, query_id):
            found = _push_query(service, query_id)
            was_open = await service.close_push_query(found)
            return entities.terminated_query(statement.text, found, was_terminated=was_open)
        case Terminate() | Pause() | Resume():
            service.engine.chosen(statement.query_id)
            return await _written(service, statement, session)
        case AlterSystem(name=name):
            _check_alterable(service, name)
            return await _written(service, statement, session)
    topics = await service.topics()
    settings = service.engine.settings(session.properties, topics=topics)
    # In a thread: the registry may be asked.
    planned = await asyncio.to_thread(service.engine.planned, statement, settings, service.commands.end)
    if planned.already:
        return _already(statement, planned)
    _check_limits(service, statement)
    warnings = await _prepare(service, statement, planned, topics)
    answer = await _written(service, _complete(statement, planned), session, topics, shown=statement.text)
    answer["warnings"] += [{"message": each} for each in warnings]
    if isinstance(statement, DropSource) and statement.delete_topic and planned.dropped is not None:
        await _delete_topic(service, planned.dropped)
    return answer


def _push_query(service: Service, query_id: str) -> str:
    return next((each for each in service.push_queries if each.upper() == query_id.upper()), "")


def _check_alterable(service: Service, name: str) -> None:
    problem = service.config.problem_of({name: ""})
    if problem:
        raise StatementError(problem)
    if not name.startswith("ksql.streams.") and name not in definitions():
        raise StatementError(f"{name} is no setting of this server")


def _check_limits(service: Service, statement: Statement) -> None:
    if not isinstance(statement, CreateAs | InsertInto):
        return
    limit, count = service.config.values["ksql.query.persistent.active.limit"], len(service.engine.queries)
    if count >= limit and not getattr(statement, "or_replace", False):
        raise StatementError(
            f"{count} persistent queries run, and ksql.query.persistent.active.limit is {limit}; TERMINATE one of them",
            statement.location,
        )


def _already(statement: Statement, planned: Planned) -> Entity:
    """The answer to a statement that has nothing to do, because IF [NOT] EXISTS holds."""
    name = str(getattr(statement, "name", ""))
    if isinstance(statement, CreateSource | CreateAs):
        kind = "table" if "Table" in type(statement).__name__ else "stream"
        text = f"Cannot add {kind} {quoted(name)}: A {kind} with the same name already exists."
        return entities.warning(statement.text, text)
    if isinstance(statement, DropSource):
        return entities.warning(statement.text, f"Source {quoted(name)} does not exist.")
    state = "exists already" if "Create" in type(statement).__name__ else "does not exist"
    return entities.warning(statement.text, f"Type {quoted(name)} {state}.")


def _complete(statement: Statement, planned: Planned) -> Statement:
    """The statement with the columns that came from the registry, for a replay to be the same at any time."""
    if not isinstance(statement, CreateSource) or planned.sink is None:
        return statement
    declared = {str(each.name) for each in statement.elements}
    added = [each for each in planned.sink.schema if each.name not in declared]
    if not added or any(statement.properties.find(each) is not None for each in _SCHEMA_IDS):
        return statement
    key = Mark.PRIMARY_KEY if planned.sink.is_table else Mark.KEY
    marks = {Kind.KEY: key, Kind.VALUE: Mark.NONE, Kind.HEADERS: Mark.HEADERS}
    elements = [Element(Name(each.name), each.type, marks[each.kind], each.header) for each in added]
    complete = replace(statement, elements=(*statement.elements, *elements))
    return replace(complete, text=to_text(complete))


async def _written(
    service: Service,
    statement: Statement,
    session: Session,
    topics: Mapping[str, TopicInfo] | None = None,
    *,
    shown: str | None = None,
) -> Entity:
    """Append the command of a statement, which is checked again against the state that it meets."""
    text = statement.text.rstrip().removesuffix(";") + ";"
    if len(text.encode()) > STATEMENT_BYTES_MAX:
        raise StatementError(f"the statement has more than {STATEMENT_BYTES_MAX:,} bytes", statement.location)
    engine = service.engine

    def make(offset: int) -> Command:
        if isinstance(statement, Terminate | Pause | Resume):
            engine.chosen(statement.query_id)
        elif not isinstance(statement, AlterSystem):
            engine.planned(statement, engine.settings(session.properties, topics=topics), offset)
        return Command(command_id(statement), text, session.properties, engine.original)

    command, status, offset = await service.run_command(make)
    return entities.current_status(shown or statement.text, str(command.id), status, offset)


# ---- topics and schemas


async def _prepare(
    service: Service,
    statement: Statement,
    planned: Planned,
    topics: Mapping[str, TopicInfo],
) -> list[str]:
    """Create the topic of a new stream or table, and register its schemas; returns warnings."""
    sink = planned.sink
    if sink is None or not isinstance(statement, CreateSource | CreateAs):
        return []
    if service.config.is_readonly(sink.topic) and isinstance(statement, CreateAs):
        raise StatementError(f"topic {sink.topic} is only read: see ksql.readonly.topics", statement.location)
    if sink.topic not in topics:
        await _create_topic(service, sink, planned, topics)
    only_first = isinstance(statement, CreateSource)
    for is_key, given in ((True, sink.key_format), (False, sink.value_format)):
        if given.name in IN_REGISTRY:
            serde = serdes.source_key_serde(sink) if is_key else serdes.source_value_serde(sink)
            inner = getattr(serde, "inner", serde)
            await asyncio.to_thread(register, service.registry, inner, sink.topic, is_key=is_key, only_first=only_first)
    return []


async def _create_topic(service: Service, sink: SourceInfo, planned: Planned, topics: Mapping[str, TopicInfo]) -> None:
    sources = () if planned.analysis is None else planned.analysis.sources
    first = topics.get(sources[0].info.topic) if sources else None
    partitions = sink.partitions or (first.partitions if first is not None else PARTITIONS)
    replicas = sink.replicas or (first.replicas if first is not None else None)
    configs: dict[str, str | None] = {}
    if sink.is_table:
        configs["cleanup.policy"] = "compact,delete" if sink.window is not None else "compact"
    if sink.retention_ms is not None:
        configs["retention.ms"] = str(sink.retention_ms)
    topic = NewTopic(sink.topic, partitions, -1 if replicas is None else replicas, configs)
    for error in (await service.client.topics.create([topic])).failed.values():
        # Another server was quicker.
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise StatementError(f"topic {sink.topic} cannot be created: {error}")


async def _delete_topic(service: Service, source: SourceInfo) -> None:
    for error in (await service.client.topics.delete([source.topic])).failed.values():
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise StatementError(f"{source.name} was dropped, and its topic {source.topic} stays: {error}")


# ---- rows


async def insert_values(service: Service, statement: InsertValues, session: Session) -> None:
    """Write a row. Raises SqlError and ClientError."""
    settings = service.engine.settings(session.properties)
    topic, record = await asyncio.to_thread(values_record, statement, service.engine.catalog, settings)
    if service.config.is_readonly(topic):
        raise StatementError(f"topic {topic} is only read: see ksql.readonly.topics", statement.location)
    await service.producer.send(topic, [record])
