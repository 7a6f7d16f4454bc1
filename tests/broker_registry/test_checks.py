"""Parsed schemas that a process keeps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker_registry.checks import ParsedCache, Source
from broker_registry.schema_types import avro
from broker_registry.schema_types.base import InvalidSchema, Kind, ParsedSchema, ParseSettings, Resolved
from tests.broker_registry.operations.support import record_of

LOOKUP = ParseSettings(validates=True)
NEW = ParseSettings(is_new=True, validates=True)


class Counting:
    """Counts the texts that are parsed."""

    def __init__(self) -> None:
        self.settings: list[ParseSettings] = []

    def __call__(self, text: str, references: Sequence[Resolved], settings: ParseSettings) -> ParsedSchema:
        self.settings.append(settings)
        return avro.parse(text, references, settings)


def test_a_registration_parses_its_schema_once() -> None:
    """If this fails, a registration takes a third more CPU."""
    parser = Counting()
    cache = ParsedCache(parsers={Kind.AVRO: parser})
    source = Source("AVRO", record_of("x:int"))
    found = cache.parsed(source, LOOKUP)
    assert cache.parsed(source, NEW) is found
    assert cache.parsed(source) is found
    assert parser.settings == [NEW]


def test_schemas_that_are_not_allowed_any_more_are_found() -> None:
    """If this fails, producers of an old schema with a wrong default get an error instead of its id."""
    parser = Counting()
    cache = ParsedCache(parsers={Kind.AVRO: parser})
    source = Source("AVRO", record_of('x:int="one"'))
    assert cache.parsed(source, LOOKUP).canonical == source.text
    with pytest.raises(InvalidSchema, match="Invalid default for field x"):
        cache.parsed(source, NEW)
    assert cache.parsed(source, LOOKUP).canonical == source.text
    assert parser.settings == [NEW, LOOKUP, NEW]
