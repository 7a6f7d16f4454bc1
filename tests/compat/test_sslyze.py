"""The scanner sslyze against TLS listeners with default settings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.environments import sslyze_python
from tests.support.tls_broker import TlsBroker

# sslyze has an environment of its own, which the first test installs.
pytestmark = [pytest.mark.skipif(target_is_kafka(), reason="about our own settings"), pytest.mark.full]
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "sslyze_scan.py"
TIMEOUT_S = 150
TLS_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}
TLS_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}


@pytest.fixture(scope="module")
def sslyze() -> Path:
    """Return the Python interpreter that has sslyze installed."""
    needs.require(needs.sslyze())
    return sslyze_python()


def scan(python: Path, broker: TlsBroker, directory: Path, *, has_certificate: bool) -> dict[str, Any]:
    files: list[Path] = []
    if has_certificate:
        holder = broker.authority.issue("alice")
        for name, text in (("certificate.pem", holder.certificate_pem), ("key.pem", holder.key_pem())):
            (directory / name).write_text(text)
            files.append(directory / name)
    # -I: sslyze must not import from this tree.
    done = subprocess.run(
        [python, "-I", SCRIPT, str(broker.port), *files], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(400)
def test_nothing_is_found(sslyze: Path, tmp_path: Path) -> None:
    """If this fails, an audit finds a weak protocol, cipher suite or attack on TLS listeners."""
    for client_auth in ("none", "required"):
        broker = TlsBroker(tmp_path / client_auth, {"ssl.client.auth": client_auth})
        broker.start()
        try:
            found = scan(sslyze, broker, tmp_path, has_certificate=client_auth == "required")
        finally:
            broker.close()
        assert found["refused"] == {}
        assert found["findings"] == []
        accepted = {name: set(suites) for name, suites in found["accepted"].items() if suites}
        assert accepted == {"tls_1_2": TLS_1_2, "tls_1_3": TLS_1_3}


@pytest.mark.timeout(200)
def test_what_is_weak_is_found(sslyze: Path, tmp_path: Path) -> None:
    """If this fails, the test above never finds anything."""
    broker = TlsBroker(tmp_path / "weak", {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"})
    broker.start()
    try:
        found = scan(sslyze, broker, tmp_path, has_certificate=False)
    finally:
        broker.close()
    assert "tls_1_2 with TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA" in found["findings"]
