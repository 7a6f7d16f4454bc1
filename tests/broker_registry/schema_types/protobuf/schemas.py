"""Schemas of tests, from texts and the files that they import."""

from __future__ import annotations

from broker_registry.schema_types.base import ParseSettings, Resolved
from broker_registry.schema_types.protobuf import ParsedProtobuf, parse


def schema(text: str, *imported: tuple[str, str], settings: ParseSettings | None = None) -> ParsedProtobuf:
    """`imported` has (path, text)."""
    return parse(text, [Resolved(*each) for each in imported], settings or ParseSettings())


def proto3(body: str, *imported: tuple[str, str], settings: ParseSettings | None = None) -> ParsedProtobuf:
    return schema(f'syntax = "proto3"; {body}', *imported, settings=settings)
