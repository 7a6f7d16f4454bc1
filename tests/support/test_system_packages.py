"""tools/system_packages.sh: what it installs, prints and refuses, with stub programs on PATH."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "system_packages.sh"
# The programs without which it fails. A machine may lack the packages that it takes from other places.
KERBEROS = ["krb5kdc", "kadmin.local", "kinit", "krb5-config"]
NEEDED = ["kcat", "node", "npm", "java", "mvn", "chromium", "valgrind", "tmux", *KERBEROS]
AS_ROOT = ["ip", "nft", "mmdebstrap", "systemd-nspawn", "mkfs.ext4", "ssh"]
Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run it for a tier, as a user, on a machine with these programs; `apt` is the body of apt-get."""

    def run(tier: str, programs: list[str], *, uid: int, apt: str = "exit 100") -> subprocess.CompletedProcess[str]:
        stubs = {"id": f"echo {uid}", "apt-get": apt, "cc": "exit 0"} | dict.fromkeys(programs, "exit 0")
        for name, body in stubs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / name).chmod(0o755)
        # Directories that the script appends to PATH may have some of the programs.
        text = SCRIPT.read_text().replace("PATH=$PATH:/usr/sbin:/sbin\n", "").replace("/usr/lib/*/", f"{tmp_path}/")
        (tmp_path / "sasl2").mkdir()
        (tmp_path / "sasl2" / "libgssapiv2.so").touch()
        argv = ["/bin/sh", "-c", text, "system_packages.sh", tier]
        return subprocess.run(argv, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)

    return run


def test_a_machine_with_all_programs_installs_nothing(script: Script) -> None:
    """If this fails, each `make test` updates the lists of packages."""
    done = script("soak", [*NEEDED, *AS_ROOT, "javac", "jq", "g++"], uid=0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("tier", "packages"),
    [
        ("quick", "default-jdk-headless"),
        ("all", "default-jdk-headless jq"),
        ("soak", "default-jdk-headless jq g++"),
    ],
)
@pytest.mark.parametrize("uid", [0, 1000])
def test_packages_that_cannot_be_installed_only_skip_tests(script: Script, uid: int, tier: str, packages: str) -> None:
    """If this fails, `make test` fails where apt is not possible, or a test is skipped without a hint."""
    done = script(tier, [*NEEDED, *AS_ROOT], uid=uid)
    assert done.returncode == 0, done.stderr
    assert "tests are skipped, because these packages" in done.stderr
    assert f": {packages}" in done.stderr


def test_root_installs_what_the_tier_needs(script: Script, tmp_path: Path) -> None:
    """If this fails, a clean machine skips tests, or installs packages for tests that do not run."""
    apt = f'echo "$@" >> {tmp_path}/calls'
    assert script("quick", [each for each in NEEDED if each != "tmux"], uid=0, apt=apt).returncode == 0
    asked = [line.rpartition("recommends ")[2] for line in (tmp_path / "calls").read_text().splitlines()]
    assert asked == ["update -qq", "tmux", "default-jdk-headless"]


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_necessary_package_that_cannot_be_installed_ends_it(script: Script, uid: int) -> None:
    """If this fails, `make test` goes on, and fails an hour later with another message."""
    done = script("quick", [*(each for each in NEEDED if each != "kcat"), "javac"], uid=uid)
    assert done.returncode != 0
    assert uid == 0 or "these system packages are needed: kcat" in done.stderr


def test_an_unknown_tier_is_refused(script: Script) -> None:
    """If this fails, a mistyped tier installs the packages of another one."""
    done = script("ful", NEEDED, uid=1000)
    assert done.returncode == 2
    assert "the tier ful is unknown (allowed: quick, all, soak)" in done.stderr
