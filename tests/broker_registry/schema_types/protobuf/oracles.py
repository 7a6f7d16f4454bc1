"""Wire's parser (Apache-2.0, Maven Central), and Confluent's classes: what our parser and texts are compared with."""

from __future__ import annotations

from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from tests.broker_registry.schema_types.confluent_classes import JACKSON, class_path
from tests.support.java_oracle import JavaOracle

_HERE = Path(__file__).parent
# The version of Confluent 8.
_WIRE = Artifact("com.squareup.wire", "wire-schema-jvm", "6.4.5")
_WIRE_JARS = (_WIRE, Artifact("com.fasterxml.jackson.core", "jackson-databind", JACKSON))
_CONFLUENT_JARS = (
    _WIRE,
    Artifact("com.google.protobuf", "protobuf-java-util", "4.34.0"),
    Artifact("com.google.api.grpc", "proto-google-common-protos", "2.53.0", without=(("com.google.protobuf", "*"),)),
)


def wire() -> JavaOracle:
    def copied(directory: Path) -> None:
        copy_jars(directory, _WIRE_JARS)

    jars = made_once(f"wire-{_WIRE.version}-jars", copied)
    return JavaOracle(_HERE / "WireProto.java", f"{jars}/libs/*")


def confluent() -> JavaOracle:
    """Call it only if CONFLUENT names a repository."""
    return JavaOracle(_HERE / "ConfluentProtobuf.java", class_path("protobuf-provider", _CONFLUENT_JARS))
