"""The SCRAM tests of franz-go's own suite, if a Go compiler is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.sasl_broker import SaslBroker

pytestmark = [
    pytest.mark.skipif(target_is_kafka(), reason="about our own settings"),
    needs.go,
    pytest.mark.full,
]
HERE = Path(__file__).with_name("franz_go")
MODULE = "github.com/twmb/franz-go"
TESTS = {"TestSCRAMAuth", "TestSCRAMAuthBadCredentials"}
COMPILE_S = 300
USER, PASSWORD = "franz", "franz-secret"


@pytest.mark.timeout(400)  # compiles the suite
def test_its_own_suite(tmp_path: Path) -> None:
    """If this fails, Go programs cannot log in with SCRAM, or can with a wrong password."""
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=HERE, capture_output=True, text=True, check=True
    )
    program = tmp_path / "kgo.test"
    subprocess.run(
        ["go", "test", "-c", "-o", program, "./pkg/kgo"],
        cwd=found.stdout.strip(),
        check=True,
        timeout=COMPILE_S,
        capture_output=True,
    )
    broker = SaslBroker(tmp_path / "broker")
    broker.start()
    try:
        broker.add_user(USER, PASSWORD)
        environment = {
            **os.environ,
            "KGO_SEEDS": broker.open_bootstrap,
            "KGO_TEST_SCRAM_SEEDS": broker.bootstrap,
            "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}",
        }
        done = subprocess.run(
            [program, "-test.run", "^TestSCRAM", "-test.v"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    finally:
        broker.close()
    assert done.returncode == 0, done.stdout[-4000:]
    passed = {line.split()[2] for line in done.stdout.splitlines() if "--- PASS: " in line}
    assert passed >= TESTS, done.stdout[-4000:]
