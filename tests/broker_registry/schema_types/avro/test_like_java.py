"""Avro schemas are read, printed and compared as by Avro's Java library, by which Confluent's registry works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_registry.schema_types.avro import diff, parse
from broker_registry.schema_types.base import InvalidSchema, ParseSettings, Resolved
from tests.broker_registry.schema_types.avro.random_schemas import Schemas, nearly
from tests.support import needs
from tests.support.java_oracle import JavaOracle
from tests.support.tiers import by_tier

pytestmark = [pytest.mark.full, needs.java]
SETTINGS = {True: ParseSettings(is_new=True, validates=True), False: ParseSettings(validates=True)}
SCHEMAS, TEXTS, PAIRS = by_tier(300, 5_000), by_tier(300, 5_000), by_tier(300, 5_000)
VERSION = "1.12.1"
JARS = (Artifact("org.apache.avro", "avro", VERSION), Artifact("org.slf4j", "slf4j-nop", "1.7.36"))


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    def copied(directory: Path) -> None:
        copy_jars(directory, JARS)

    jars = made_once(f"avro-{VERSION}-jars", copied)
    with JavaOracle(Path(__file__).with_name("AvroJava.java"), f"{jars}/libs/*") as found:
        yield found


def ours(text: str, *, is_new: bool, references: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the forms of a text, as the oracle has them; an error without its message."""
    resolved = [Resolved(f"r{index}", each) for index, each in enumerate(references)]
    try:
        found = parse(text, resolved, SETTINGS[is_new])
    except InvalidSchema:
        return {}
    return {"resolved": found.resolved, "canonical": found.canonical}


def theirs(java: JavaOracle, text: str, *, is_new: bool, references: tuple[str, ...] = ()) -> dict[str, str]:
    answer: dict[str, str] = java.ask({"text": text, "is_new": is_new, "references": references})
    return {} if "error" in answer else answer


def test_random_schemas_have_the_same_texts(java: JavaOracle) -> None:
    """If this fails, a schema has another id than in Confluent's registry, or only one of the two takes it."""
    count_read = 0
    for seed in range(SCHEMAS):
        text = json.dumps(Schemas(seed).schema())
        for is_new in (True, False):
            expected = theirs(java, text, is_new=is_new)
            count_read += bool(expected)
            assert ours(text, is_new=is_new) == expected, (seed, is_new, text)
    assert count_read > SCHEMAS


def test_nearly_schemas_are_accepted_or_refused_alike(java: JavaOracle) -> None:
    """If this fails, the registry refuses what producers of Java register, or takes what their consumers refuse."""
    count_read = 0
    for seed in range(TEXTS):
        text = nearly(seed)
        for is_new in (True, False):
            expected = theirs(java, text, is_new=is_new)
            count_read += bool(expected)
            assert ours(text, is_new=is_new) == expected, (seed, is_new, text)
    assert TEXTS // 10 < count_read < 2 * TEXTS


def test_random_changes_have_the_same_verdicts(java: JavaOracle) -> None:
    """If this fails, a change that breaks consumers is registered, or one that does not is refused: kinds, places and
    details of all differences, in their order.
    """
    count_compared = count_equal = 0
    for seed in range(PAIRS):
        schemas = Schemas(seed)
        old = schemas.schema()
        new = schemas.changed(old)
        for reader, writer in ((new, old), (old, new)):
            texts = json.dumps(reader), json.dumps(writer)
            answer = java.ask({"reader": texts[0], "writer": texts[1]})
            found = _differences(*texts)
            assert found == answer.get("differences" if "error" not in answer else "no"), (seed, texts, answer)
            count_compared += found is not None
            count_equal += found == []
    assert count_compared > PAIRS
    assert PAIRS // 10 < count_equal < count_compared


def _differences(reader: str, writer: str) -> list[list[str]] | None:
    """Return kind, place and detail of each difference; None if there is no answer."""
    try:
        found = diff.differences(*(parse(text, (), ParseSettings()).schema for text in (reader, writer)))
    except ValueError:
        return None
    return [[each.kind, each.path, _detail(each.text)] for each in found]


def _detail(text: str) -> str:
    return text.split("additionalInfo:'", 1)[1].removesuffix("'}")


def test_references_are_named_only_as_by_java(java: JavaOracle) -> None:
    """If this fails, a schema with references has another id than in Confluent's registry."""
    for seed in range(SCHEMAS // 3):
        schemas = Schemas(seed)
        first = schemas.schema()
        text = json.dumps(schemas.schema())
        references = (json.dumps(first),)
        expected = theirs(java, text, is_new=True, references=references)
        assert ours(text, is_new=True, references=references) == expected, (seed, references, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"int"} x',
        '{"type":"int"} {"type":"int"}',
        "",
        " ",
        '"int" // end',
        '# "int"',
        "'int'",
        '{"type":"record","name":"R","fields":[{"name":"a","type":"Later"},{"name":"b","type":{"type":"fixed","name":"Later",'
        '"size":1}}]}',
        '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":"Missing"}]}',
        '{"type":"record","name":"R","namespace":"foo-bar","fields":[]}',
        '{"type":"record","name":"foo-bar.R","fields":[]}',
        '{"type":"record","name":"R","fields":[],"namespace":"1x"}',
        '{"type":"record","name":".R","fields":[]}',
        '{"type":"record","name":"x.","fields":[]}',
        '{"type":"record","name":"R","fields":[{"name":"größe","type":"int"}]}',
        '{"type":"enum","name":"E","symbols":["ä"]}',
        '{"type":"error","name":"E","fields":[]}',
        '{"type":"fixed","name":"F","size":-1}',
        '{"type":"fixed","name":"F","size":1.0}',
        '{"type":"fixed","name":"F","size":"1"}',
        '{"type":"bytes","logicalType":"decimal","precision":-1}',
        '{"type":"bytes","logicalType":"decimal","precision":2,"scale":3}',
        '{"type":"int","logicalType":"uuid"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":1e400}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}],"fields":[]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":NaN}]}',
        '{"type":"int","p":12345678901234567890123}',
        '{"type":"int","p":0.1000}',
        '{"type":"int","p":1E5}',
        '{"type":"int","p":-0}',
        '{"type":"int","p":-0.0}',
        '{"type":"int","p":1.0e-5,"q":123456789.0,"r":1e7,"s":1e-3}',
        '{"type":"int","p":"\\u0000\\u001f\\u007f\\u2028/"}',
        '{"type":"array","items":"int","default":[]}',
        '{"type":"map","values":"int","java-class":"x"}',
        '{"type":["null","int"]}',
        '{"type":{"type":"array","items":"int"},"p":1}',
        '{"type":"int","type":"long"}',
    ],
)
def test_rare_texts_are_read_alike(java: JavaOracle, text: str) -> None:
    """If this fails, a text of a client in Java is refused, or becomes another schema."""
    for is_new in (True, False):
        assert ours(text, is_new=is_new) == theirs(java, text, is_new=is_new), is_new


def test_kinds_of_answers(java: JavaOracle) -> None:
    """The oracle answers with an error for what is no schema."""
    found: Any = java.ask({"text": "{", "is_new": True})
    assert found["error"]
