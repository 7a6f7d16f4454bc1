"""Ordinary use of franz-go, if a Go compiler is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.launch import go_programs
from broker_cy.launch.processes import run
from tests.support import needs
from tests.support.broker import Target

pytestmark = [pytest.mark.full, needs.go]


@pytest.fixture(scope="session")
def program() -> Path:
    return go_programs.program(Path(__file__).with_name("franz_go"))


@pytest.mark.timeout(360)  # the first of them compiles
@pytest.mark.parametrize("scenario", ["topics", "records", "codecs", "offsets", "group"])
def test_life(program: Path, broker: Target, topic: str, group: str, scenario: str) -> None:
    """If this fails, Go programs cannot administer topics, produce and read complete records, find offsets, or share
    work.
    """
    run([program, scenario, broker.bootstrap, topic, group], timeout_s=90)
