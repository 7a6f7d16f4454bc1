"""The registry tests of confluent-kafka, for the classic client and for that of asyncio, against this broker and this
registry (Apache-2.0; BROKER_CY_CONFLUENT_PYTHON names a git repository).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from broker_cy.launch.processes import run
from tests.support import public_suites
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import running_registry

HERE = Path(__file__).parent
SOURCE = os.environ.get("BROKER_CY_CONFLUENT_PYTHON")
FOLDER = "tests/integration/schema_registry"
RUN_S = 900.0

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(RUN_S + 3 * public_suites.INSTALL_S),
    pytest.mark.skipif(SOURCE is None, reason="BROKER_CY_CONFLUENT_PYTHON names no repository"),
]


def test_its_tests_pass_but_for_those_with_a_reason(tmp_path: Path) -> None:
    """If this fails, Python's serializers of Confluent do not work with this registry."""
    assert SOURCE is not None
    tree = public_suites.exported("confluent-kafka-tests", SOURCE, ["tests"])
    python = public_suites.environment("confluent-kafka", Path(sys.executable), HERE / "confluent_requirements.txt")
    broker = BrokerProcess(tmp_path / "broker", QUICK)
    try:
        broker.start()
        with running_registry(broker.bootstrap, tmp_path / "registry") as registry:
            words: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "confluent_plugin", "-p", "no:cacheprovider"]
            words += ["-o", "asyncio_mode=auto", "--junitxml", tmp_path / "results.xml", FOLDER]
            paths = {"PYTHONPATH": f"{tree}:{HERE}", "BROKERS": broker.bootstrap, "SR_URL": registry.url}
            done = run(words, cwd=tree, env={**os.environ, **paths}, timeout_s=RUN_S, check=False)
            assert done.returncode in public_suites.RAN, done.stdout.decode()[-3000:]
    finally:
        broker.close()
    found = public_suites.outcomes(tmp_path / "results.xml")
    wrong = public_suites.differences(found, public_suites.expected_failures(HERE / "confluent_expected.tsv"))
    assert not wrong, "\n".join(wrong)
    assert len(found.passed) > 90
