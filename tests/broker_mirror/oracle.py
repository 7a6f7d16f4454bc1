"""MirrorMaker 2's classes as an oracle (MirrorOracle.java)."""

from __future__ import annotations

from pathlib import Path

from bench.launch.mirrors import class_path
from tests.support.java_oracle import JavaOracle


def mirror_maker() -> JavaOracle:
    """Return the running oracle."""
    return JavaOracle(Path(__file__).with_name("MirrorOracle.java"), class_path())
