"""A broker that was built where OpenSSL's headers were missing, started with a listener that needs them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from broker_cy.launch.processes import run
from tests.support.certificates import PASSWORD, Authority

ROOT = Path(__file__).resolve().parents[3]
# The modules that setup.py leaves out.
TLS_MODULES = ("openssl.cpython-*", "tls_transport.cpython-*")


@pytest.fixture(scope="module")
def without_tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory from which this tree's broker is imported as if it was built without TLS."""
    made = tmp_path_factory.mktemp("without-tls")
    ignored = shutil.ignore_patterns(*TLS_MODULES, "__pycache__", "*.c", "*.pyx")
    shutil.copytree(ROOT / "broker_cy", made / "broker_cy", ignore=ignored, copy_function=os.symlink)
    return made


def started(without_tls: Path, tmp_path: Path, settings: dict[str, str]) -> tuple[int, str]:
    """The exit code and the messages of a broker with these settings."""
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "broker_cy.cli",
        "start",
        "--config",
        file,
        "--data-dir",
        tmp_path / "data",
    ]
    done = run(argv, cwd=tmp_path, timeout_s=60, env={"PYTHONPATH": str(without_tls)}, check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("kind", ["pem", "encrypted pem", "pkcs12"])
def test_a_listener_with_tls_is_refused_with_the_name_of_the_package(
    without_tls: Path, tmp_path: Path, kind: str
) -> None:
    """If this fails, the broker serves the listener without TLS, or its operator does not learn what to install."""
    authority = Authority()
    issued = authority.issue("broker")
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(tmp_path / "authority.pem")),
    }
    password = None if kind == "pem" else PASSWORD
    if password is not None:
        settings["ssl.key.password"] = password
    if kind == "pkcs12":
        settings["ssl.keystore.location"] = str(issued.write_pkcs12(tmp_path / "broker.p12", PASSWORD))
        settings["ssl.keystore.password"] = PASSWORD
    else:
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.location"] = str(issued.write_pem(tmp_path / "broker.pem", password))
    code, said = started(without_tls, tmp_path, settings)
    assert code != 0
    assert "apt-get install libssl-dev" in said
    assert len(said.splitlines()) == 1, said


def test_other_listeners_need_no_openssl(without_tls: Path, tmp_path: Path) -> None:
    """If this fails, a host without OpenSSL's headers cannot run a broker at all."""
    script = (
        "import broker_cy.cli, broker_cy.server.lifecycle, broker_cy.core.tls_version as v; print(v.version_text())"
    )
    done = run([sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(without_tls)})
    assert "without TLS" in done.stdout.decode()
