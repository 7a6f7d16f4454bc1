"""Ingest from a broker that wants a login."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from broker_cy.metrics import sample
from tests.spark_analytics.own_topics import SETTINGS
from tests.support.sasl_broker import ALICE, PASSWORD, SaslBroker, client_jaas, write_properties
from tests.support.wait import until

ROOT = Path(__file__).resolve().parents[2]


def ingest(broker: SaslBroker, lake: Path, login: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_analytics", "ingest", "--bootstrap", broker.bootstrap, "--out", str(lake)]
    return subprocess.run(
        [*command, "--command-config", str(login)], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )


def test_an_ingest_with_a_login(tmp_path: Path) -> None:
    """If this fails, what secured clusters say of themselves cannot be analysed, or only with their passwords shown."""
    good, bad = tmp_path / "good.properties", tmp_path / "bad.properties"
    for path, password in ((good, PASSWORD), (bad, "wrong-secret")):
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        write_properties(path, settings | {"sasl.jaas.config": client_jaas("PLAIN", ALICE, password)})
    broker = SaslBroker(tmp_path / "broker", SETTINGS)
    try:
        broker.start()
        lake = tmp_path / "lake"

        def has_samples() -> bool:
            done = ingest(broker, lake, good)
            assert done.returncode in (0, 65, 69), done.stderr
            return done.returncode == 0 and any(lake.rglob("*.parquet"))

        until(has_samples, f"records of {sample.TOPIC}", 120)
        refused = ingest(broker, lake, bad)
        assert refused.returncode == 69
        assert "Invalid username or password" in refused.stderr
        assert "wrong-secret" not in refused.stdout + refused.stderr
        assert PASSWORD not in "".join(each.read_text() for each in lake.rglob("*.json"))
    finally:
        broker.close()
