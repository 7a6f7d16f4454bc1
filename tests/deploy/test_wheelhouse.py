"""deploy/wheelhouse.py: its files beside the wheels, wheels with another version, and the arguments it refuses."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from broker_cy.launch.processes import run
from deploy import wheelhouse

METADATA = """Metadata-Version: 2.1
Name: broker-cy
Version: 0.1.0
Provides-Extra: bench
Requires-Dist: {requirement}; extra == "bench"
"""


def made_wheel(directory: Path, requirement: str = "no-such-thing>=1") -> Path:
    """A wheel of a package with one module, which has its version, and nothing to compile."""
    path = directory / "broker_cy-0.1.0-py3-none-any.whl"
    info = "broker_cy-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("broker_cy/__init__.py", '__version__ = "0.1.0"\n')
        archive.writestr(f"{info}/METADATA", METADATA.format(requirement=requirement))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{info}/RECORD", f"broker_cy/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return path


def test_wheels_of_two_versions_stand_side_by_side(tmp_path: Path) -> None:
    """If this fails, an upgrade cannot be tried, or pip refuses the second wheel, or takes it for the first."""
    given, out = made_wheel(tmp_path), tmp_path / "out"
    for version in ("0.1.0", "0.2.0"):
        assert wheelhouse.main(["--out", str(out), "--version", version, "--from-wheel", str(given)]) == 0
    about = json.loads((out / "wheelhouse.json").read_text())
    assert about["versions"] == ["0.1.0", "0.2.0"]
    run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out)
    target = tmp_path / "installed"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--find-links",
        out,
    ]
    run([*pip, "--target", target, "broker-cy==0.2.0"])
    assert (target / "broker_cy" / "__init__.py").read_text() == '__version__ = "0.2.0"\n'
    assert (target / "broker_cy-0.2.0.dist-info").is_dir()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--version", "new"], "--version: Invalid version: 'new'"),
        (["--extras", "nothing"], "--extras nothing: expected some of bench"),
        (["--extras", "bench"], "requirements.lock lacks no-such-thing: run make lock"),
        (["--from-wheel", "/none.whl"], "--from-wheel /none.whl: no such file"),
    ],
)
def test_a_mistake_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """If this fails, a mistake causes a traceback, or hosts miss a wheel."""
    given = made_wheel(tmp_path)
    assert wheelhouse.main(["--out", str(tmp_path / "out"), "--from-wheel", str(given), *arguments]) == 1
    assert said in capsys.readouterr().err


def test_the_lock_file_is_read_whole() -> None:
    """If this fails, a wheel is installed without a check of its checksum, or one that this Python cannot use."""
    lock = wheelhouse.locked()
    entries = [line for line in (wheelhouse.ROOT / "requirements.lock").read_text().splitlines() if "==" in line[:80]]
    wanted = {
        requirement.name
        for requirement in (Requirement(line.rstrip(" \\")) for line in entries if not line.startswith((" ", "#")))
        if requirement.marker is None or requirement.marker.evaluate()
    }
    assert set(lock) == wanted
    assert all("--hash=sha256:" in entry for entry in lock.values())
