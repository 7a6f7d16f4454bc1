"""Schemas against formats: whether a format can hold the columns, and columns that come from the registry."""

from __future__ import annotations

from collections.abc import Sequence

from broker_sql.analysis import serdes
from broker_sql.analysis.properties import IN_REGISTRY, SourceProperties
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import SourceInfo
from broker_sql.errors import AnalysisError, Location, SqlError
from broker_sql.formats.inference import infer
from broker_sql.formats.kinds import SCHEMA_ID
from broker_sql.statements import CreateSource
from broker_sql.types import Column, Kind


def check_formats(source: SourceInfo, settings: Settings, where: Location | None) -> None:
    """Raises AnalysisError: a format cannot hold the columns."""
    try:
        serdes.source_key_serde(source, settings)
        serdes.source_value_serde(source, settings)
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
                unwraps=is_key or found.wrap_value is False,
            )
        except SqlError as error:
            raise type(error)(error.message, error.location or statement.location) from None
        inferred.extend(Column(name, each, kind) for name, each in from_registry.columns)
    return tuple(inferred)
