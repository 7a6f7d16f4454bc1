"""Schemas against formats: whether a format can hold the columns, and columns that come from the registry."""

from __future__ import annotations

from collections.abc import Sequence

from broker_sql.analysis import serdes
from broker_sql.analysis.properties import IN_REGISTRY, SourceProperties
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import SourceInfo
from broker_sql.errors import AnalysisError, Location, SqlError
from broker_sql.formats.inference import infer
from broker_sql.formats.kinds import KINDS, SCHEMA_ID
from broker_sql.statements import CreateSource
from broker_sql.types import Column, Kind, quoted


def check_formats(source: SourceInfo, settings: Settings, where: Location | None) -> None:
    """Raises AnalysisError: a format cannot hold the columns."""
    try:
        serdes.source_key_serde(source)
        serdes.source_value_serde(source)
    except AnalysisError as error:
        raise AnalysisError(error.message, error.location or where) from None


def infer_columns(
    columns: Sequence[Column], found: SourceProperties, statement: CreateSource, settings: Settings
) -> tuple[Column, ...]:
    """The columns that the registry has, of a key or value for which none are declared.

    Raises AnalysisError: there is no schema, or columns are declared besides the id of one. StatementError: the
    registry does not answer.
    """
    assert found.topic is not None
    inferred: list[Column] = []
    for part, given, kind in (("KEY", found.key_format, Kind.KEY), ("VALUE", found.value_format, Kind.VALUE)):
        assert given is not None
        declared = any(each.kind is kind for each in columns)
        if SCHEMA_ID in given.properties and declared:
            raise AnalysisError(
                f"{part}_SCHEMA_ID brings the columns of the {part.lower()}: none can be declared", statement.location
            )
        if declared or given.name not in IN_REGISTRY:
            continue
        is_key = kind is Kind.KEY
        try:
            from_registry = infer(
                settings.registry,
                given.name,
                given.properties,
                found.topic,
                is_key=is_key,
                unwraps=KINDS[given.name].unwraps_key if is_key else found.wrap_value is False,
            )
        except SqlError as error:
            raise type(error)(error.message, error.location or statement.location) from None
        inferred.extend(Column(name, each, kind) for name, each in from_registry.columns)
    return tuple(inferred)


def check_physical(sink: SourceInfo, settings: Settings, where: Location | None) -> None:
    """Check the columns of a result against the schemas whose ids WITH gives: they are the first fields, in order.

    Raises AnalysisError: they are not. StatementError: the registry does not answer.
    """
    for part, given, columns in (
        ("KEY", sink.key_format, sink.schema.key),
        ("VALUE", sink.value_format, sink.schema.value),
    ):
        if SCHEMA_ID not in given.properties:
            continue
        is_key = part == "KEY"
        unwraps = KINDS[given.name].unwraps_key if is_key else sink.wrap_value is False
        try:
            found = infer(settings.registry, given.name, given.properties, sink.topic, is_key=is_key, unwraps=unwraps)
        except SqlError as error:
            raise type(error)(error.message, error.location or where) from None
        wanted = [(each.name, each.type) for each in columns]
        # A schema of one value has no name of the column in it.
        fields = (
            list(found.columns)
            if not unwraps
            else [(name, kind) for (name, _), (_, kind) in zip(wanted, found.columns, strict=False)]
        )
        if list(fields[: len(wanted)]) != wanted:
            shown = ", ".join(f"{quoted(name)} {kind}" for name, kind in found.columns)
            raise AnalysisError(
                f"the {part.lower()} columns of the result do not fit schema {given.properties[SCHEMA_ID]}, which has"
                f" ({shown}): they are its first ones, in order",
                where,
            )
