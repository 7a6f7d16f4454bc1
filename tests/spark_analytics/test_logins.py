"""Ingest from a broker that requires a login."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker_cy.metrics import sample
from tests.spark_analytics.own_topics import SETTINGS
from tests.support import needs
from tests.support.sasl_broker import ALICE, PASSWORD, SaslBroker, client_jaas, write_properties
from tests.support.tls_broker import TlsBroker
from tests.support.wait import until

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]


def ingest(bootstrap: str, lake: Path, login: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_analytics", "ingest", "--bootstrap", bootstrap, "--lake", str(lake)]
    return subprocess.run(
        [*command, "--command-config", str(login)], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_an_ingest_with_a_login(protocol: str, tmp_path: Path) -> None:
    """If this fails, metrics and events of secured clusters cannot be analysed, or their passwords are exposed."""
    broker: SaslBroker | TlsBroker
    if protocol == "SASL_SSL":
        needs.require(needs.tls)
        broker = TlsBroker(tmp_path / "broker", SETTINGS)
    else:
        broker = SaslBroker(tmp_path / "broker", SETTINGS)
    good, bad = tmp_path / "good.properties", tmp_path / "bad.properties"
    try:
        broker.start()
        bootstrap = broker.sasl_bootstrap if isinstance(broker, TlsBroker) else broker.bootstrap
        for path, password in ((good, PASSWORD), (bad, "wrong-secret")):
            settings = {"security.protocol": protocol, "sasl.mechanism": "PLAIN"}
            if protocol == "SASL_SSL":
                settings |= {
                    "ssl.truststore.type": "PEM",
                    "ssl.truststore.location": str(broker.directory / "authority.pem"),
                }
            write_properties(path, settings | {"sasl.jaas.config": client_jaas("PLAIN", ALICE, password)})
        lake = tmp_path / "lake"

        def has_samples() -> bool:
            done = ingest(bootstrap, lake, good)
            assert done.returncode in (0, 1, 3), done.stderr
            return done.returncode == 0 and any(lake.rglob("*.parquet"))

        until(has_samples, f"records of {sample.TOPIC}", 120)
        refused = ingest(bootstrap, lake, bad)
        assert refused.returncode == 1
        assert "Invalid username or password" in refused.stderr
        assert "wrong-secret" not in refused.stdout + refused.stderr
        assert PASSWORD not in "".join(each.read_text() for each in lake.rglob("*.json"))
    finally:
        broker.close()
