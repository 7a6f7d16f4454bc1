"""CREATE STREAM and CREATE TABLE over a topic, ALTER, DROP, and types that users name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from broker_sql.analysis import properties as with_properties
from broker_sql.analysis.names import RESERVED
from broker_sql.analysis.schemas import check_formats, infer_columns
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import (
    Catalog,
    Change,
    PutSource,
    PutType,
    RemoveQuery,
    RemoveSource,
    RemoveType,
    SourceInfo,
    TimestampColumn,
    nearest,
)
from broker_sql.errors import AnalysisError, Location, StatementError
from broker_sql.formats import has_map
from broker_sql.statements import (
    AlterSource,
    CreateSource,
    CreateTable,
    CreateType,
    DropSource,
    DropTable,
    DropType,
    Element,
    Mark,
    Properties,
    SourceKind,
)
from broker_sql.types import (
    BIGINT,
    BYTES,
    STRING,
    TIMESTAMP,
    Array,
    Column,
    Kind,
    Schema,
    Struct,
    quoted,
)

_ALL_HEADERS: Final = Array(Struct((("KEY", STRING), ("VALUE", BYTES))))
_KINDS: Final = {Mark.NONE: Kind.VALUE, Mark.KEY: Kind.KEY, Mark.PRIMARY_KEY: Kind.KEY, Mark.HEADERS: Kind.HEADERS}


def create(statement: CreateSource, catalog: Catalog, settings: Settings) -> SourceInfo | None:
    """The stream or table that a statement makes; None: it exists already, and IF NOT EXISTS is given.

    Raises AnalysisError or StatementError.
    """
    kind = SourceKind.TABLE if isinstance(statement, CreateTable) else SourceKind.STREAM
    if is_present(statement.name, statement.or_replace, statement.if_not_exists, catalog):
        return None
    found = with_properties.read(statement.properties, with_properties.OF_CREATE, settings)
    where = statement.location
    if found.topic is None:
        raise AnalysisError("WITH needs KAFKA_TOPIC, the name of a topic", where)
    for name, given in (("KEY_FORMAT", found.key_format), ("VALUE_FORMAT", found.value_format)):
        if given is None:
            raise AnalysisError(f"WITH needs {name}, or the server a default format", where)
    assert found.key_format is not None
    assert found.value_format is not None
    columns = _columns(statement.elements, kind, catalog)
    schema = _ordered((*columns, *infer_columns(columns, found, statement, settings)))
    _check_columns(schema, kind, where)
    if found.window is not None and not schema.key:
        raise AnalysisError("windowed keys need a column with KEY", where)
    wrap = with_properties.wraps_value(
        found.wrap_value, found.value_format, len(schema.value), settings, statement.properties
    )
    source = SourceInfo(
        name=str(statement.name),
        kind=kind,
        schema=schema,
        topic=found.topic,
        key_format=found.key_format,
        value_format=found.value_format,
        window=found.window,
        timestamp=checked_timestamp(found.timestamp, schema, statement.properties),
        wrap_value=wrap,
        unwraps_key=with_properties.unwraps_key(found.key_format, len(schema.key)),
        partitions=_partitions(found, settings, where),
        replicas=found.replicas,
        retention_ms=found.retention_ms,
        is_read_only=statement.source,
        text=statement.text,
    )
    check_formats(source, settings, where)
    check_replacement(source, statement.or_replace, catalog, statement.source, where)
    return source


def is_present(name: str, or_replace: bool, if_not_exists: bool, catalog: Catalog) -> bool:
    """True: the source exists, and that is well. Raises StatementError: it exists, and that is not."""
    old = catalog.sources.get(name)
    if old is None or or_replace:
        return False
    if if_not_exists:
        return True
    raise StatementError(
        f"{old.kind.value.lower()} {quoted(old.name)} exists already; CREATE OR REPLACE changes it",
        getattr(name, "location", None),
    )


def _columns(elements: Sequence[Element], kind: SourceKind, catalog: Catalog) -> tuple[Column, ...]:
    found: dict[str, Column] = {}
    headers: list[Element] = []
    for each in elements:
        name = str(each.name)
        if name in RESERVED:
            raise AnalysisError(f"{quoted(name)} is a reserved name, and cannot be that of a column", each.location)
        if name in found:
            raise AnalysisError(f"two columns have the name {quoted(name)}", each.location)
        wrong, right = (Mark.KEY, Mark.PRIMARY_KEY) if kind is SourceKind.TABLE else (Mark.PRIMARY_KEY, Mark.KEY)
        if each.mark is wrong:
            raise AnalysisError(
                f"column {quoted(name)} is a {wrong.value} column; a {kind.value.lower()} has {right.value} columns",
                each.location,
            )
        column = Column(name, catalog.resolved(each.type, each.location), _KINDS[each.mark], each.header)
        if each.mark is Mark.HEADERS:
            _check_header(each, column, headers)
            headers.append(each)
        found[name] = column
    return tuple(found.values())


def _check_header(element: Element, column: Column, before: list[Element]) -> None:
    if element.header is None:
        if column.type != _ALL_HEADERS:
            raise AnalysisError(
                f"column {quoted(column.name)} has all headers, whose type is {_ALL_HEADERS}, not {column.type}",
                element.location,
            )
        if before:
            raise AnalysisError("a column with all HEADERS is the only one of headers", element.location)
        return
    if column.type != BYTES:
        raise AnalysisError(
            f"column {quoted(column.name)} has the header {element.header!r}, whose type is BYTES, not {column.type}",
            element.location,
        )
    for each in before:
        if each.header is None or each.header == element.header:
            shown = "all headers" if each.header is None else f"header {each.header!r}"
            raise AnalysisError(f"{shown} has column {quoted(each.name)} already", element.location)


def _ordered(columns: Sequence[Column]) -> Schema:
    """Key columns come first."""
    keys = tuple(each for each in columns if each.kind is Kind.KEY)
    return Schema((*keys, *(each for each in columns if each.kind is not Kind.KEY)))


def check_keys(schema: Schema, where: Location | None) -> None:
    """Raises AnalysisError: a key column has a map in it, whose bytes have no fixed order."""
    for each in schema.key:
        if has_map(each.type):
            raise AnalysisError(
                f"key column {quoted(each.name)} has type {each.type}: a map has no fixed order, so it cannot be a key",
                where,
            )


def _check_columns(schema: Schema, kind: SourceKind, where: Location | None) -> None:
    check_keys(schema, where)
    if kind is SourceKind.TABLE and not schema.key:
        raise AnalysisError("a table needs a column with PRIMARY KEY", where)
    if not schema.columns:
        raise AnalysisError("there are no columns, and the formats do not bring a schema", where)
    seen: set[str] = set()
    for each in schema:
        if each.name in seen:
            raise AnalysisError(f"two columns have the name {quoted(each.name)}", where)
        seen.add(each.name)


def checked_timestamp(given: TimestampColumn | None, schema: Schema, properties: Properties) -> TimestampColumn | None:
    """Raises AnalysisError: the column is missing, or its type holds no time."""
    if given is None:
        return None
    found = properties.find("TIMESTAMP")
    where = found.location if found is not None else None
    column = schema.find(given.name)
    if column is None:
        names = [each.name for each in schema]
        raise AnalysisError(
            f"the TIMESTAMP column {quoted(given.name)} does not exist{nearest(given.name, names)}", where
        )
    if given.format is None and column.type not in (BIGINT, TIMESTAMP):
        hint = "; a STRING needs TIMESTAMP_FORMAT" if column.type == STRING else ""
        raise AnalysisError(
            f"the TIMESTAMP column {quoted(given.name)} is {column.type}; BIGINT or TIMESTAMP is expected{hint}", where
        )
    if given.format is not None and column.type != STRING:
        raise AnalysisError(
            f"the TIMESTAMP column {quoted(given.name)} is {column.type}; TIMESTAMP_FORMAT needs a STRING", where
        )
    return given


def _partitions(found: with_properties.SourceProperties, settings: Settings, where: Location | None) -> int | None:
    if settings.topics is None or found.topic is None:
        return found.partitions
    topic = settings.topics.get(found.topic)
    if topic is None:
        if found.partitions is None:
            hint = nearest(found.topic, settings.topics)
            raise StatementError(f"topic {found.topic} does not exist; PARTITIONS in WITH makes it{hint}", where)
        return found.partitions
    if found.partitions not in (None, topic.partitions):
        raise StatementError(
            f"topic {found.topic} has {topic.partitions} partitions; PARTITIONS is {found.partitions}", where
        )
    return topic.partitions


def check_replacement(
    source: SourceInfo, or_replace: bool, catalog: Catalog, is_read_only: bool, where: Location | None
) -> None:
    """Raises StatementError: CREATE OR REPLACE would change what queries and records rely on."""
    if not or_replace:
        return
    kind = source.kind.value.lower()
    old = catalog.sources.get(source.name)
    if is_read_only or (old is not None and old.is_read_only):
        raise StatementError(f"{kind} {quoted(source.name)} is one with SOURCE, which OR REPLACE cannot change", where)
    if old is None:
        return
    what = f"{kind} {quoted(source.name)} cannot be replaced"
    if old.kind is not source.kind:
        raise StatementError(f"{what}: it is a {old.kind.value.lower()}", where)
    if source.schema.key != old.schema.key:
        raise StatementError(f"{what}: its key is ({Schema(old.schema.key)}), not ({Schema(source.schema.key)})", where)
    kept, given = old.schema.value, source.schema.value
    if given[: len(kept)] != kept:
        missing = next((each for each in kept if each not in given), kept[0] if kept else None)
        raise StatementError(
            f"{what}: its columns stay, with new ones behind them only; {missing} is missing or at another place", where
        )
    for name, before, after in (
        ("KAFKA_TOPIC", old.topic, source.topic),
        ("KEY_FORMAT", old.key_format.name, source.key_format.name),
        ("VALUE_FORMAT", old.value_format.name, source.value_format.name),
        ("windows", old.window, source.window),
    ):
        if before != after:
            raise StatementError(f"{what}: {name} is {before}, not {after}", where)


def alter(statement: AlterSource, catalog: Catalog, settings: Settings) -> SourceInfo:
    """The source with more value columns. Raises AnalysisError or StatementError."""
    old = catalog.source(statement.name)
    kind = old.kind.value.lower()
    if old.kind is not statement.kind:
        raise StatementError(f"{quoted(old.name)} is a {kind}: write ALTER {old.kind.value}", statement.location)
    if old.is_read_only:
        raise StatementError(
            f"{kind} {quoted(old.name)} is one with SOURCE, which ALTER cannot change", statement.location
        )
    if old.query_id is not None:
        raise StatementError(
            f"query {old.query_id} makes {quoted(old.name)}: change it with CREATE OR REPLACE ... AS SELECT",
            statement.location,
        )
    added = _columns(statement.columns, old.kind, catalog)
    for each, element in zip(added, statement.columns, strict=True):
        if each.kind is not Kind.VALUE:
            raise AnalysisError(f"column {quoted(each.name)} cannot be added: only value columns can", element.location)
        if old.schema.find(each.name) is not None:
            raise AnalysisError(f"column {quoted(each.name)} exists already", element.location)
    changed = replace(old, schema=Schema((*old.schema.columns, *added)))
    if old.wrap_value is not None and len(changed.schema.value) > 1:
        changed = replace(changed, wrap_value=None)
    check_formats(changed, settings, statement.location)
    return changed


def drop(statement: DropSource, catalog: Catalog) -> tuple[list[Change], SourceInfo | None]:
    """The changes, and the source if it exists. Raises StatementError: it is missing, or queries use it."""
    kind = SourceKind.TABLE if isinstance(statement, DropTable) else SourceKind.STREAM
    old = catalog.sources.get(statement.name)
    where = statement.name.location or statement.location
    if old is None:
        if statement.if_exists:
            return [], None
        message = f"{kind.value.lower()} {quoted(statement.name)} does not exist"
        raise StatementError(message + nearest(statement.name, catalog.sources), where)
    if old.kind is not kind:
        raise StatementError(f"{quoted(old.name)} is a {old.kind.value.lower()}: write DROP {old.kind.value}", where)
    if old.is_read_only and statement.delete_topic:
        raise StatementError(f"{quoted(old.name)} is only read: DELETE TOPIC is not allowed for it", where)
    readers = [each for each in catalog.readers(old.name) if each != old.query_id]
    writers = [each for each in catalog.writers(old.name) if each != old.query_id]
    if readers or writers:
        used = [f"{' and '.join(some)} {verb} it" for some, verb in ((readers, "read"), (writers, "write")) if some]
        raise StatementError(f"{quoted(old.name)} is in use: {', and '.join(used)}. TERMINATE them first", where)
    changes: list[Change] = [RemoveSource(old.name)]
    if old.query_id is not None and old.query_id in catalog.queries:
        changes.insert(0, RemoveQuery(old.query_id))
    return changes, old


def create_type(statement: CreateType, catalog: Catalog) -> list[Change]:
    """Raises StatementError: the name is taken."""
    if statement.name in catalog.types:
        if statement.if_not_exists:
            return []
        raise StatementError(f"type {quoted(statement.name)} exists already", statement.location)
    return [PutType(str(statement.name), catalog.resolved(statement.type, statement.location))]


def drop_type(statement: DropType, catalog: Catalog) -> list[Change]:
    """Raises StatementError: there is no such type."""
    if statement.name not in catalog.types:
        if statement.if_exists:
            return []
        message = f"type {quoted(statement.name)} does not exist{nearest(statement.name, catalog.types)}"
        raise StatementError(message, statement.location)
    return [RemoveType(str(statement.name))]


def put(source: SourceInfo | None) -> list[Change]:
    return [] if source is None else [PutSource(source)]
