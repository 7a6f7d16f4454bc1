"""Canonical texts: they are what is stored and hashed, so that another byte gives a schema another id than Confluent's
registry has for it.
"""

from __future__ import annotations

import pytest

from broker_registry.schema_types.base import InvalidSchema, ParseSettings
from broker_registry.schema_types.protobuf import parse
from broker_registry.schema_types.protobuf.parser import parse_file
from broker_registry.schema_types.protobuf.printer import print_file
from tests.broker_registry.schema_types.protobuf import corpus

STORED, NEW, NORMALIZED = ParseSettings(), ParseSettings(is_new=True), ParseSettings(normalizes=True)
# Without editions, the library refuses features.
NOT_NEW = {"features"}
# `default` and `json_name` stand among the other options of a normalized text, and behind them in a canonical one.
HAS_SPECIAL_OPTIONS = {"legacy", "options"}


@pytest.mark.parametrize("name", corpus.NAMES)
def test_the_canonical_text_is_that_of_confluents_registry(name: str) -> None:
    """A schema that is registered again after a move from Confluent's registry keeps its id."""
    assert parse(corpus.text_of(name), (), STORED).canonical == corpus.recorded(name, "canonical")


@pytest.mark.parametrize("name", corpus.NAMES)
def test_the_normalized_text_is_that_of_confluents_registry(name: str) -> None:
    """Clients with `normalize.schemas` find the schemas that they registered at Confluent's registry."""
    assert parse(corpus.text_of(name), (), NORMALIZED).canonical == corpus.recorded(name, "normalized")


@pytest.mark.parametrize("form", ["ignore_extensions", "serialized"])
@pytest.mark.parametrize("name", corpus.NAMES)
def test_the_other_formats_are_those_of_confluents_registry(name: str, form: str) -> None:
    """Clients that ask with `format=serialized`, as librdkafka's, get the descriptor that they expect."""
    assert parse(corpus.text_of(name), (), STORED).formatted(form) == corpus.recorded(name, form)


@pytest.mark.parametrize("name", corpus.NAMES)
def test_a_canonical_text_is_its_own_canonical_text(name: str) -> None:
    """A registry that starts again reads the stored text: it must be the same schema."""
    text = corpus.recorded(name, "canonical")
    assert parse(text, (), STORED).canonical == text


@pytest.mark.parametrize("name", sorted(set(corpus.NAMES) - HAS_SPECIAL_OPTIONS))
def test_a_normalized_text_is_its_own_canonical_text(name: str) -> None:
    """A client that registers the text which it got from the registry gets its id."""
    text = corpus.recorded(name, "normalized")
    assert parse(text, (), STORED).canonical == text


@pytest.mark.parametrize("name", corpus.NAMES)
def test_a_normalized_text_is_its_own_normalized_text(name: str) -> None:
    """Two clients that normalize an already normalized schema get one id."""
    text = corpus.recorded(name, "normalized")
    assert parse(text, (), NORMALIZED).canonical == text


@pytest.mark.parametrize("name", sorted(set(corpus.NAMES) - NOT_NEW))
def test_each_text_of_the_corpus_may_be_registered(name: str) -> None:
    """The checks of new schemas refuse nothing that protoc accepts."""
    assert parse(corpus.text_of(name), (), NEW).canonical == corpus.recorded(name, "canonical")


@pytest.mark.parametrize("name", corpus.NAMES)
def test_a_serialized_descriptor_is_accepted_in_place_of_a_text(name: str) -> None:
    """Python's and .NET's serializers register descriptors in base64."""
    descriptor = corpus.recorded(name, "serialized")
    schema = parse(descriptor, (), STORED)
    assert parse(schema.canonical, (), STORED).canonical == schema.canonical
    assert schema.name == parse(corpus.text_of(name), (), STORED).name


def test_an_unknown_format_has_the_canonical_text() -> None:
    """A client of a later release gets a text, not an error."""
    schema = parse(corpus.text_of("orders"), (), STORED)
    assert schema.formatted("") == schema.formatted("no such format") == schema.canonical


def test_comments_spaces_and_the_order_of_sections_make_no_other_schema() -> None:
    """A team that adds a comment gets no new version."""
    one = 'syntax = "proto3"; message A { message B {} int32 a = 1; reserved 5; } enum E { Z = 0; } message C {}'
    other = '// c\nsyntax="proto3";/**/message A{reserved 5;int32 a=1; // t\nmessage B{}}\nmessage C{}\nenum E{Z=0;}'
    assert parse(one, (), STORED).is_equivalent(parse(other, (), STORED))
    assert not parse(one, (), STORED).is_equivalent(parse(one.replace("a = 1", "a = 2"), (), STORED))


def test_a_default_that_wire_writes_without_quotes_is_refused() -> None:
    """The stored text would not be read again: the registry would not start."""
    text = 'message A { optional bytes b = 1 [default = "\\000\\377"]; }'
    with pytest.raises(InvalidSchema, match="the canonical text of the schema is no schema"):
        parse(text, (), NEW)


def test_elements_are_equal_wherever_they_stand() -> None:
    text = corpus.text_of("orders")
    file = parse_file(text)
    assert parse_file("\n\n" + text) == file
    assert print_file(parse_file("// first\n" + text)) == print_file(file)
