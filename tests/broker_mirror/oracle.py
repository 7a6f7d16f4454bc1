"""MirrorMaker 2's classes as an oracle (MirrorOracle.java)."""

from __future__ import annotations

from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import Artifact, copy_jars
from tests.support.java_oracle import JavaOracle

VERSION = "4.3.1"
_JARS = (
    Artifact("org.apache.kafka", "connect-mirror", VERSION),
    Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
)


def class_path() -> str:
    """Return the jars of MirrorMaker 2; the first call on a machine downloads 40 MB."""

    def copied(directory: Path) -> None:
        copy_jars(directory, _JARS)

    return f"{made_once(f'connect-mirror-{VERSION}-jars', copied)}/libs/*"


def mirror_maker() -> JavaOracle:
    """Return the running oracle."""
    return JavaOracle(Path(__file__).with_name("MirrorOracle.java"), class_path())
