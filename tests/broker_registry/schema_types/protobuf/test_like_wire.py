"""Our parser and Wire's read the same elements from the same texts, and refuse the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from broker_registry.schema_types.base import InvalidSchema
from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.parser import parse_file
from tests.broker_registry.schema_types.protobuf import corpus, malformed, oracles
from tests.support import needs
from tests.support.java_oracle import JavaOracle
from tests.support.tiers import by_tier

pytestmark = [pytest.mark.full, needs.java]
MUTANTS = by_tier(300, 5_000)


@pytest.fixture(scope="module")
def wire() -> Iterator[JavaOracle]:
    with oracles.wire() as found:
        yield found


def as_json(value: Any) -> Any:
    """Return an element in the form in which WireProto.java writes it."""
    if isinstance(value, ast.Range):
        return [value.first, value.last]
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value) if each.name != "at"}
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, tuple | list) else value


def ours(text: str) -> Any:
    try:
        return as_json(parse_file(text))
    except InvalidSchema:
        return None


def theirs(wire: JavaOracle, text: str) -> Any:
    answer = wire.ask(text)
    return None if "error" in answer else answer


@pytest.mark.parametrize("name", corpus.NAMES)
def test_the_corpus_has_the_elements_that_wire_reads(wire: JavaOracle, name: str) -> None:
    """An element that we read in another way is another schema to Confluent's registry."""
    text = corpus.text_of(name)
    expected = theirs(wire, malformed.without_comments(text))
    assert expected is not None
    assert ours(text) == expected


def test_changed_texts_are_read_or_refused_as_by_wire(wire: JavaOracle) -> None:
    """A schema that Confluent's registry accepts must be accepted here, with the same elements."""
    source = random.Random(35)
    count_read = 0
    for _ in range(MUTANTS):
        text = malformed.mutant(source)
        expected = theirs(wire, text)
        count_read += expected is not None
        assert ours(text) == expected, text
    assert count_read > MUTANTS // 50
