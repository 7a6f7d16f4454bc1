"""The parser of each schema type. A parser raises InvalidSchema, and no other exception, for a text that is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from broker_registry.schema_types.base import Kind, ParsedSchema, ParseSettings, Resolved

Parser = Callable[[str, Sequence[Resolved], ParseSettings], ParsedSchema]

_ROOMS: Final = {Kind.AVRO: "avro", Kind.JSON: "json_schema", Kind.PROTOBUF: "protobuf"}


def _first_used(kind: Kind) -> Parser:
    """Return a parser that loads its libraries with the first schema: a registry starts without them."""

    def parse(text: str, references: Sequence[Resolved], settings: ParseSettings) -> ParsedSchema:
        room = import_module(f"broker_registry.schema_types.{_ROOMS[kind]}")
        found: ParsedSchema = room.parse(text, references, settings)
        return found

    return parse


PARSERS: Final[Mapping[Kind, Parser]] = {kind: _first_used(kind) for kind in Kind}
