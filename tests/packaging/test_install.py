"""tools/install.py: uv uses pip's package sources, and installs only the packages of the lock file."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.distributions import ROOT
from tools import install

SHOWN = """:env:.find-links='/wheels /more'
global.cert='/ca.pem'
global.index-url='https://global.example/simple'
global.timeout='10'
install.index-url='https://install.example/simple'
install.extra-index-url='\\nhttps://one.example/simple\\nhttps://two.example/simple'
list.format='columns'
"""


def test_settings_of_pip_become_those_of_uv() -> None:
    """If this fails, a first start on a network with its own registry asks another one, or fails."""
    assert install.uv_variables(install.pip_settings(SHOWN)) == {
        "UV_DEFAULT_INDEX": "https://install.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/ca.pem",
        "UV_HTTP_TIMEOUT": "10",
    }


def test_empty_settings_of_pip_are_none_of_uv() -> None:
    """If this fails, an empty variable keeps uv from its registry."""
    assert install.uv_variables(install.pip_settings(":env:.index-url=''\n:env:.find-links=''\n")) == {}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A directory with one wheel, and requirements.txt with its checksum."""
    path = tmp_path / "wheels" / "one_thing-1.0-py3-none-any.whl"
    path.parent.mkdir()
    info = "one_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one_thing.py", "ANSWER = 42\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: one-thing\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"one_thing.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (path.parent / "requirements.txt").write_text(f"one-thing==1.0 --hash=sha256:{digest}\n")
    return path.parent


def installed(wheels: Path, target: Path, requirements: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with only pip's settings."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(target.parent),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }
    program = ROOT / "tools" / "install.py"
    argv: list[str | Path] = [sys.executable, program, "--target", target, "--require-hashes", "-r", requirements]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_it_installs_from_where_pip_would(made: Path, tmp_path: Path) -> None:
    """If this fails, uv ignores pip's package sources, or each process recompiles the packages."""
    done = installed(made, tmp_path / "target", made / "requirements.txt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "target" / "one_thing.py").exists()
    assert [*(tmp_path / "target").rglob("one_thing.*.pyc")]


def test_a_wheel_with_another_checksum_is_refused(made: Path, tmp_path: Path) -> None:
    """If this fails, a changed package is installed although the lock file has another checksum."""
    wanted = made / "requirements.txt"
    wanted.write_text(wanted.read_text()[:-65] + "0" * 64 + "\n")
    done = installed(made, tmp_path / "target", wanted)
    assert done.returncode != 0
    assert "one-thing" in done.stderr
    assert not (tmp_path / "target" / "one_thing.py").exists()
