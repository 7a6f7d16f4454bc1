"""The normalized form of Avro schemas is that of Confluent's class."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from broker_cy.launch.maven import Artifact
from broker_registry.schema_types.avro import parse
from broker_registry.schema_types.base import InvalidSchema, ParseSettings
from tests.broker_registry.schema_types.avro.random_schemas import Schemas
from tests.broker_registry.schema_types.confluent_classes import class_path, needs_confluent
from tests.support import needs
from tests.support.java_oracle import JavaOracle
from tests.support.tiers import by_tier

pytestmark = [pytest.mark.full, needs.java, needs_confluent]
SCHEMAS = by_tier(300, 4_000)
JARS = (
    Artifact("com.google.guava", "guava", "33.4.0-jre"),
    Artifact("org.apache.httpcomponents.client5", "httpclient5", "5.4.4"),
    Artifact("org.bouncycastle", "bctls-jdk18on", "1.80"),
)


def test_normalized_schemas_have_the_same_text() -> None:
    """If this fails, clients with `normalize.schemas=true` get other ids than from Confluent's registry."""
    source = Path(__file__).with_name("ConfluentAvro.java")
    count_read = 0
    with JavaOracle(source, class_path("client", JARS, ("AvroSchema",))) as confluent:
        for seed in range(SCHEMAS):
            text = json.dumps(Schemas(seed).schema())
            answer = confluent.ask(text)
            try:
                found = parse(text, (), ParseSettings(is_new=True, validates=True))
            except InvalidSchema:
                assert "canonical" not in answer, (seed, text)
                continue
            assert found.canonical == answer["canonical"], (seed, text)
            if "normalized" in answer and not _is_unlike(text, answer):
                count_read += 1
                normalized = _without_digits(found.normalized().canonical)
                assert normalized == _without_digits(answer["normalized"]), (seed, text)
    assert count_read > SCHEMAS // 2


def _without_digits(text: str) -> str:
    """Replace floats with an exponent by their values: before Java 19, Float.toString has more digits than it needs
    (JDK-4511638).
    """
    return re.sub(r"-?\d\.\d+E-?\d+", lambda number: struct.pack(">f", float(number[0])).hex(), text)


def _is_unlike(text: str, answer: dict[str, str]) -> bool:
    """Return whether Confluent's form loses a default or moves a type (broker_registry/schema_types/avro/normal.py)."""
    loses_default = answer["normalized"].count('"default":') < answer["canonical"].count('"default":')
    return loses_default or '"namespace": ""' in text
