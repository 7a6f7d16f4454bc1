"""The tests of Aiven's registry Karapace against this one (Apache-2.0; BROKER_CY_KARAPACE names a git repository)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from broker_cy.launch.processes import run
from tests.support import needs, public_suites
from tests.support.broker import QUICK, BrokerProcess
from tests.support.environments import find_python

HERE = Path(__file__).parent
KARAPACE = os.environ.get("BROKER_CY_KARAPACE")
# Those that ask a registry over HTTP; the others start parts of Karapace.
FILES = (
    "test_client.py",
    "test_client_protobuf.py",
    "test_dependencies_compatibility_protobuf.py",
    "test_jsonschema.py",
    "test_schema.py",
    "test_schema_avro_references.py",
    "test_schema_compatibility.py",
    "test_schema_protobuf.py",
    "test_schema_registry_mode.py",
)
RUN_S = 1_500.0

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(RUN_S + 3 * public_suites.INSTALL_S),
    pytest.mark.skipif(KARAPACE is None, reason="BROKER_CY_KARAPACE names no repository"),
]


def test_its_tests_pass_but_for_those_with_a_reason(tmp_path: Path) -> None:
    """If this fails, clients of Karapace cannot move to this registry. Each test has a registry of its own."""
    needs.require(needs.python("3.12"))
    assert KARAPACE is not None
    tree = public_suites.exported("karapace", KARAPACE, ["src", "tests", "pytest.ini"], _name_the_version)
    python = public_suites.environment("karapace", find_python("3.12"), HERE / "karapace_requirements.txt")
    broker = BrokerProcess(tmp_path / "broker", QUICK)
    try:
        broker.start()
        registry = [sys.executable, "-m", "broker_registry", "--listen", "127.0.0.1:0", "--topic", "{topic}"]
        words: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "karapace_plugin", "-p", "no:cacheprovider"]
        words += ["--registry-url", "http://127.0.0.1:1", "--kafka-bootstrap-servers", broker.bootstrap]
        words += ["--junitxml", tmp_path / "results.xml", *(f"tests/integration/{name}" for name in FILES)]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tree}/src:{tree}:{HERE}",
            "BROKER_CY_REGISTRY_COMMAND": json.dumps([*registry, "--bootstrap", broker.bootstrap]),
        }
        done = run(words, cwd=tree, env=environment, timeout_s=RUN_S, check=False)
        assert done.returncode in public_suites.RAN, done.stdout.decode()[-3000:]
    finally:
        broker.close()
    found = public_suites.outcomes(tmp_path / "results.xml")
    wrong = public_suites.differences(found, public_suites.expected_failures(HERE / "karapace_expected.tsv"))
    assert not wrong, "\n".join(wrong)
    assert len(found.passed) > 150


def _name_the_version(tree: Path) -> None:
    """Make the file that the build of Karapace makes."""
    (tree / "src" / "karapace" / "version.py").write_text('__version__ = version = "0"\n')
