"""Serdes of the topics of streams and tables, with the schema registry of the server."""

from __future__ import annotations

from typing import Any

from broker_sql.analysis import serdes
from broker_sql.catalog import SourceInfo
from broker_streams.serdes.schemas.binding import with_registry


def bound_key_serde(source: SourceInfo, registry: Any) -> Any:
    """In windows, if the source has them. Raises ValueError: the format needs a registry, and there is none."""
    return with_registry(serdes.source_key_serde(source), registry, is_key=True)


def bound_value_serde(source: SourceInfo, registry: Any) -> Any:
    """Raises ValueError: the format needs a registry, and there is none."""
    return with_registry(serdes.source_value_serde(source), registry)
