"""Columns from the schemas of a registry, and schemas that statements register there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_registry.schema_types.base import Kind
from broker_sql.errors import AnalysisError, StatementError
from broker_sql.formats.connect import Base, Unsupported, columns_of, sql_type
from broker_sql.formats.kinds import FULL_SCHEMA_NAME, SCHEMA_ID, kind_of
from broker_sql.formats.registered import RegisteredSerde
from broker_sql.formats.rows import RowShape
from broker_sql.types import SqlType
from broker_streams.serdes import SerdeError, SerdeUnavailable
from broker_streams.serdes.schemas.lookups import Known, SchemaRegistry

# The name of the only column if a schema is no record.
_UNNAMED: Final = {True: "ROWKEY", False: "ROWVAL"}
_FORMATS: Final = {Kind.AVRO: "AVRO", Kind.JSON: "JSON_SR", Kind.PROTOBUF: "PROTOBUF"}


@dataclass(frozen=True)
class Inferred:
    """Columns (name, type) of a key or value, the schema that they come from, and the name of its record or message."""

    columns: tuple[tuple[str, SqlType], ...]
    known: Known
    schema_name: str | None


def subject_of(topic: str, *, is_key: bool) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def infer(
    registry: SchemaRegistry | None,
    format_name: str,
    properties: Mapping[str, str],
    topic: str,
    *,
    is_key: bool,
    unwraps: bool,
) -> Inferred:
    """Return the columns of the schema of `schemaId`, else of the newest one of the topic's subject.

    Names are upper case; those of a schema by its id stay as they are. `unwraps`: a schema other than a record is one
    column. Raises AnalysisError: there is no such schema, or it has no columns. StatementError: the registry does not
    answer.
    """
    part, subject = "key" if is_key else "value", subject_of(topic, is_key=is_key)
    schema_id = properties.get(SCHEMA_ID)
    what = f"the schema of {part}s of topic {topic}" if schema_id is None else f"schema {schema_id}"
    known = _known(registry, schema_id, subject, what, format_name)
    if _FORMATS[known.parsed.kind] != format_name:
        found = _FORMATS[known.parsed.kind]
        raise AnalysisError(f"{what} is of {found}, and the {part} format is {format_name}; {found} reads it")
    names = message_names(known)
    if len(names) > 1 and FULL_SCHEMA_NAME not in properties:
        raise AnalysisError(
            f"{what} has several messages: {', '.join(names)}; choose one with {part.upper()}_SCHEMA_FULL_NAME"
        )
    try:
        shape = serde_without_columns(format_name, properties, is_key=is_key).shape_of(known.parsed)
    except ValueError as error:
        raise AnalysisError(f"{what} cannot be read: {error}") from None
    is_upper = schema_id is None
    columns: tuple[tuple[str, SqlType], ...]
    if unwraps:
        try:
            columns = ((_UNNAMED[is_key], sql_type(shape, is_upper=is_upper)),)
        except Unsupported as error:
            raise AnalysisError(f"{what} has no type of SQL: {error}") from None
    elif shape.base is not Base.STRUCT:
        raise AnalysisError(
            f"{what} is {shape.base.value} and no record: set WRAP_SINGLE_VALUE=false to read it as one column"
        )
    else:
        columns = columns_of(shape, is_upper=is_upper)
    if not columns:
        raise AnalysisError(f"{what} has no field with a type of SQL")
    if is_key and len(columns) > 1:
        raise AnalysisError(f"{what} has several columns, and keys from the registry have one")
    return Inferred(columns, known, known.parsed.name)


def message_names(known: Known) -> list[str]:
    """Return the full names of a schema's records or messages."""
    if known.parsed.kind is not Kind.PROTOBUF:
        return [] if known.parsed.name is None else [known.parsed.name]
    file: Any = getattr(known.parsed, "file")  # noqa: B009
    prefix = f"{file.package}." if file.package else ""
    return [f"{prefix}{each.name}" for each in file.messages]


def _known(registry: SchemaRegistry | None, schema_id: str | None, subject: str, what: str, format_name: str) -> Known:
    if registry is None:
        raise StatementError(f"format {format_name} needs a schema registry: set ksql.schema.registry.url")
    try:
        return registry.latest(subject) if schema_id is None else registry.schema(int(schema_id))
    except SerdeUnavailable as error:
        raise StatementError(f"{what} cannot be asked for: {error}") from None
    except SerdeError as error:
        place = "" if schema_id is not None else f" (subject {subject})"
        raise AnalysisError(f"{what} is not in the registry{place}: {error}") from None


def serde_without_columns(format_name: str, properties: Mapping[str, str], *, is_key: bool) -> RegisteredSerde:
    """A serde without columns: it knows how schemas of its format are read."""
    from importlib import import_module

    rooms = {"AVRO": "avro", "JSON_SR": "json_schema", "PROTOBUF": "protobuf"}
    shape = RowShape(kind_of(format_name).name, (), (), tuple(sorted(properties.items())), is_key=is_key)
    made: RegisteredSerde = import_module(f"broker_sql.formats.{rooms[shape.format]}").make(shape)
    return made


def register(registry: SchemaRegistry | None, serde: Any, topic: str, *, is_key: bool, only_first: bool) -> None:
    """Register the schema of a serde for a topic. `only_first`: not if the subject has a version, as for a stream that
    is declared on a topic. A serde by `schemaId` must find the same id. Nothing happens for formats without a registry.
    Raises StatementError: the registry refuses the schema, or does not answer.
    """
    if not isinstance(serde, RegisteredSerde):
        return
    subject, label = subject_of(topic, is_key=is_key), serde.row.format
    if registry is None:
        raise StatementError(f"format {label} needs a schema registry: set ksql.schema.registry.url")
    try:
        if serde.schema is None:
            schema_id = int(serde.row.settings[SCHEMA_ID])
            known = registry.schema(schema_id)
            found = registry.registered(subject, known.text)
            if found.name != schema_id:
                raise StatementError(f"schema {schema_id} has the id {found.name} in subject {subject}")
            return
        if only_first and _has_version(registry, subject):
            return
        registry.registered(subject, serde.schema)
    except SerdeError as error:
        raise StatementError(f"the schema of {subject} cannot be registered: {error}") from None
    except SerdeUnavailable as error:
        raise StatementError(f"the schema of {subject} cannot be registered now: {error}") from None


def _has_version(registry: SchemaRegistry, subject: str) -> bool:
    try:
        registry.latest(subject)
    except SerdeError:
        return False
    return True
