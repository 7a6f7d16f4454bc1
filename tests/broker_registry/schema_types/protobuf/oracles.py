"""Wire's parser, and Confluent's classes: what our parser and texts are compared with.

Wire (Apache-2.0) is on Maven Central. Confluent's sources (Confluent Community License) are no part of this project:
the variable BROKER_CY_CONFLUENT_REGISTRY names a git repository of them outside of it, from which a test compiles the
classes that it asks. Only their answers to our own texts are recorded.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import run
from tests.support.java_oracle import JavaOracle

_HERE = Path(__file__).parent
CONFLUENT = os.environ.get("BROKER_CY_CONFLUENT_REGISTRY")
_COMPILE_S = 580.0
# The version of Confluent 8.
_WIRE = Artifact("com.squareup.wire", "wire-schema-jvm", "6.4.5")
_JACKSON = "2.18.2"
_WIRE_JARS = (_WIRE, Artifact("com.fasterxml.jackson.core", "jackson-databind", _JACKSON))
_CONFLUENT_JARS = (
    *_WIRE_JARS,
    Artifact("com.google.protobuf", "protobuf-java-util", "4.34.0"),
    Artifact("com.google.api.grpc", "proto-google-common-protos", "2.53.0", without=(("com.google.protobuf", "*"),)),
    Artifact("org.apache.kafka", "kafka-clients", "4.3.1"),
    Artifact("org.apache.avro", "avro", "1.12.0"),
    Artifact("org.apache.commons", "commons-lang3", "3.18.0"),
    Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
    Artifact("io.swagger.core.v3", "swagger-annotations", "2.2.20"),
    *(Artifact("com.fasterxml.jackson.datatype", f"jackson-datatype-{each}", _JACKSON) for each in ("guava", "jdk8")),
    Artifact("com.fasterxml.jackson.module", "jackson-module-parameter-names", _JACKSON),
)
_SOURCES = ("avro-types", "client", "protobuf-provider", "protobuf-types", "schema-types")


def wire() -> JavaOracle:
    jars = made_once(f"wire-{_WIRE.version}-jars", lambda directory: _copy(directory, _WIRE_JARS))
    return JavaOracle(_HERE / "WireProto.java", f"{jars}/libs/*")


def confluent() -> JavaOracle:
    """Call it only if CONFLUENT names a repository."""
    return JavaOracle(_HERE / "ConfluentProtobuf.java", _confluent_classes())


@cache
def _confluent_classes() -> str:
    assert CONFLUENT is not None
    commit = confluent_text("rev-parse", "HEAD").strip()
    jars = made_once("confluent-protobuf-jars", lambda directory: _copy(directory, _CONFLUENT_JARS))
    home = made_once(f"confluent-protobuf-{commit[:16]}", lambda directory: _compile(directory, f"{jars}/libs/*"))
    return f"{home}/classes:{jars}/libs/*"


def confluent_text(*words: str) -> str:
    """Return the output of a git command in Confluent's repository."""
    return subprocess.run(["git", "-C", str(CONFLUENT), *words], check=True, capture_output=True, text=True).stdout


def _copy(directory: Path, artifacts: tuple[Artifact, ...]) -> None:
    copy_jars(directory, artifacts)


def _compile(directory: Path, class_path: str) -> None:
    assert CONFLUENT is not None
    folders = [f"{each}/src/main/java" for each in _SOURCES]
    archive = directory / "sources.tar"
    run(["git", "-C", CONFLUENT, "archive", "-o", archive, "HEAD", *folders], timeout_s=_COMPILE_S)
    run(["tar", "xf", archive, "-C", directory], timeout_s=_COMPILE_S)
    provider = directory / "protobuf-provider/src/main/java"
    for source in provider.rglob("*.java"):
        # Kafka 4.3 has this class at its older place.
        text = source.read_text().replace("common.utils.internals.ByteUtils", "common.utils.ByteUtils")
        source.write_text(text)
    source_path = ":".join(str(directory / each) for each in folders)
    command = ["javac", "-nowarn", "-proc:none", "-cp", class_path, "-sourcepath", source_path]
    run([*command, "-d", directory / "classes", *sorted(provider.rglob("*.java"))], timeout_s=_COMPILE_S)
