"""Confluent's own classes, with which ours are compared.

Confluent's sources (Confluent Community License) are no part of this project: the variable BROKER_CY_CONFLUENT_REGISTRY
names a git repository of them outside of it, from which a test compiles the classes that it asks. Only their answers to
our own texts are recorded.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import run

CONFLUENT: Final = os.environ.get("BROKER_CY_CONFLUENT_REGISTRY")
needs_confluent = pytest.mark.skipif(CONFLUENT is None, reason="BROKER_CY_CONFLUENT_REGISTRY names no repository")
JACKSON: Final = "2.18.2"
_COMPILE_S: Final = 580.0
# The classes of all schema types use these.
_JARS: Final = (
    Artifact("com.fasterxml.jackson.core", "jackson-databind", JACKSON),
    Artifact("org.apache.kafka", "kafka-clients", "4.3.1"),
    Artifact("org.apache.avro", "avro", "1.12.1"),
    Artifact("org.apache.commons", "commons-lang3", "3.18.0"),
    Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
    Artifact("io.swagger.core.v3", "swagger-annotations", "2.2.20"),
    *(Artifact("com.fasterxml.jackson.datatype", f"jackson-datatype-{each}", JACKSON) for each in ("guava", "jdk8")),
    Artifact("com.fasterxml.jackson.module", "jackson-module-parameter-names", JACKSON),
)
_SOURCES: Final = ("avro-types", "client", "protobuf-types", "schema-serializer", "schema-types")


def confluent_text(*words: str) -> str:
    """Return the output of a git command in Confluent's repository."""
    return subprocess.run(["git", "-C", str(CONFLUENT), *words], check=True, capture_output=True, text=True).stdout


@cache
def class_path(provider: str, jars: tuple[Artifact, ...], names: tuple[str, ...] = ("*",)) -> str:
    """Return a class path with classes of a folder such as `protobuf-provider`, by their names, and with those that
    they need; CONFLUENT names a repository.
    """
    everything = (*jars, *_JARS)
    stamp = hashlib.sha256("".join([confluent_text("rev-parse", "HEAD"), *map(str, everything)]).encode()).hexdigest()

    def made(directory: Path) -> None:
        copy_jars(directory, everything)
        _compile(directory, provider, f"{directory}/libs/*", names)

    home = made_once(f"confluent-{provider}-{stamp[:16]}", made)
    return f"{home}/classes:{home}/{provider}/src/main/resources:{home}/libs/*"


def _compile(directory: Path, provider: str, jars: str, names: tuple[str, ...]) -> None:
    assert CONFLUENT is not None
    folders = [f"{each}/src/main/java" for each in (*_SOURCES, provider)]
    archive = directory / "sources.tar"
    words: list[str | Path] = ["git", "-C", CONFLUENT, "archive", "-o", archive, "HEAD", *folders]
    run([*words, f"{provider}/src/main"], timeout_s=_COMPILE_S)
    run(["tar", "xf", archive, "-C", directory], timeout_s=_COMPILE_S)
    for source in directory.rglob("*.java"):
        # Kafka 4.3 has this class at its older place.
        text = source.read_text().replace("common.utils.internals.ByteUtils", "common.utils.ByteUtils")
        source.write_text(text)
    found = ((directory / provider / "src/main/java").rglob(f"{name}.java") for name in names)
    sources = sorted(source for each in found for source in each)
    source_path = ":".join(str(directory / each) for each in folders)
    command = ["javac", "-nowarn", "-proc:none", "-cp", jars, "-sourcepath", source_path]
    run([*command, "-d", directory / "classes", *sources], timeout_s=_COMPILE_S)
