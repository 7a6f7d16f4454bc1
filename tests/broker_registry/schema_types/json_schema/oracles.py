"""Confluent's classes for JSON Schema."""

from __future__ import annotations

from pathlib import Path

from broker_cy.launch.maven import Artifact
from tests.broker_registry.schema_types.confluent_classes import JACKSON, class_path
from tests.support.java_oracle import JavaOracle

_JARS = (
    Artifact("com.github.erosb", "everit-json-schema", "1.14.6"),
    # 0.30.0, which the sources name, is not on Maven Central.
    Artifact("com.github.erosb", "json-sKema", "0.29.0"),
    Artifact("io.yokota", "mbknor-jackson-jsonschema-java8", "1.0.39.3"),
    *(Artifact("com.fasterxml.jackson.datatype", f"jackson-datatype-{each}", JACKSON) for each in ("joda", "jsr310")),
)


def confluent() -> JavaOracle:
    """Call it only if CONFLUENT names a repository."""
    source = Path(__file__).with_name("ConfluentJson.java")
    return JavaOracle(source, class_path("json-schema-provider", _JARS))
