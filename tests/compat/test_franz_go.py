"""Ordinary use of franz-go, if a Go compiler is installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.launch import go_programs
from broker_cy.launch.processes import run
from tests.compat.test_confluent_share import SETTINGS as SHARE_SETTINGS
from tests.support import needs
from tests.support.both_brokers import running
from tests.support.broker import Target

pytestmark = [pytest.mark.full, needs.go]
SUITE_S = 500


@pytest.fixture(scope="session")
def program() -> Path:
    return go_programs.program(Path(__file__).with_name("franz_go"))


@pytest.fixture(scope="session")
def suite() -> Path:
    """The tests of franz-go's client, compiled."""
    return go_programs.tests(Path(__file__).with_name("franz_go"), "github.com/twmb/franz-go/pkg/kgo")


@pytest.mark.timeout(360)  # the first of them compiles
@pytest.mark.parametrize("scenario", ["topics", "records", "codecs", "offsets", "group"])
def test_life(program: Path, broker: Target, topic: str, group: str, scenario: str) -> None:
    """If this fails, Go programs cannot administer topics, produce and read complete records, find offsets, or share
    work.
    """
    run([program, scenario, broker.bootstrap, topic, group], timeout_s=90)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chaos", ["", "1"])
def test_groups_of_its_own_suite(suite: Path, broker: Target, chaos: str) -> None:
    """If this fails, groups of Go programs lose or repeat records, with the classic or the consumer protocol; with
    chaos, their connections are cut.
    """
    settings = {"KGO_SEEDS": broker.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000", "KGO_TEST_CHAOS": chaos}
    words: list[str | Path] = [suite, "-test.run", "TestGroupETL$", "-test.v", "-test.timeout", f"{SUITE_S}s"]
    shown = run(words, env={**os.environ, **settings}, timeout_s=SUITE_S + 30).stdout.decode()
    for name in ("range/848", "sticky/848", "sticky/848/static", "cooperative-sticky"):
        assert f"--- PASS: TestGroupETL/{name} (" in shown


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chaos", ["", "1"])
def test_share_groups_of_its_own_suite(suite: Path, tmp_path: Path, chaos: str) -> None:
    """If this fails, share groups of Go programs lose records, get acknowledged ones again, or cannot be administered;
    with chaos, their connections are cut.
    """
    with running("broker-cy", tmp_path, SHARE_SETTINGS) as broker:
        settings = {"KGO_SEEDS": broker.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000"}
        words: list[str | Path] = [suite, "-test.run", "TestShareGroup", "-test.v", "-test.timeout", f"{SUITE_S}s"]
        environment = {**os.environ, **settings, "KGO_TEST_CHAOS": chaos}
        shown = run(words, env=environment, timeout_s=SUITE_S + 30).stdout.decode()
    for name in ("TestShareGroup", "TestShareGroupETL", "TestShareGroupAckOnClose", "TestShareGroupOffsetsAdmin"):
        assert f"--- PASS: {name} (" in shown
