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


def mirror_maker() -> JavaOracle:
    """Return the running oracle; the first call on a machine downloads 40 MB."""

    def copied(directory: Path) -> None:
        copy_jars(directory, _JARS)

    jars = made_once(f"connect-mirror-{VERSION}-jars", copied)
    return JavaOracle(Path(__file__).with_name("MirrorOracle.java"), f"{jars}/libs/*")
