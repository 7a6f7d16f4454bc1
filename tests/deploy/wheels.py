"""The wheelhouse of the tree for the hosts of labs, rebuilt when the tree has changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from broker_cy.launch.processes import run
from tests.deploy.base import locked
from tests.deploy.lab import REPOSITORY, Lab

BUILD_S = 900.0
PROGRAM = REPOSITORY / "deploy" / "wheelhouse.py"
# The contents of the wheel.
PARTS = (
    "broker_cy",
    "broker_registry",
    "broker_sql",
    "broker_mirror",
    "broker_streams",
    "bench",
    "admin_tui",
    "dashboard",
    "loadgen",
    "spark_analytics",
)
FILES = ("setup.cfg", "setup.py", "requirements.lock", "deploy/wheelhouse.py", "tools/openssl.sh")


def version() -> str:
    """The version of the tree."""
    lines = (REPOSITORY / "setup.cfg").read_text().splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.startswith("version ="))


def wheelhouse(lab: Lab, extras: Sequence[str] = (), versions: Sequence[str] = ()) -> Path:
    """Return the directory, with the wheels of these extras, and of the tree under these further versions."""
    out = lab.wheelhouse
    with locked(out.with_suffix(".lock")):
        about = out / "wheelhouse.json"
        known = json.loads(about.read_text()) if about.exists() else {"extras": [], "versions": []}
        extras = sorted({*extras, *known["extras"]})
        changed = not about.exists() or about.stat().st_mtime < _changed_at()
        if changed or extras != known["extras"]:
            _build(out, extras)
        (wheel,) = out.glob(f"broker_cy-{version()}-*.whl")
        for other in versions:
            if changed or other not in known["versions"]:
                _build(out, extras, "--version", other, "--from-wheel", wheel)
    return out


def _build(out: Path, extras: Sequence[str], *options: str | Path) -> None:
    argv = [sys.executable, PROGRAM, "--out", out, "--extras", ",".join(extras), *options]
    run(argv, timeout_s=BUILD_S, cwd=REPOSITORY)


def _changed_at() -> float:
    """The time of the tree's last change."""
    files = [REPOSITORY / name for name in FILES]
    files += [
        path for part in PARTS for path in (REPOSITORY / part).rglob("*") if path.suffix not in (".pyc", ".c", ".so")
    ]
    return max(path.stat().st_mtime for path in files if path.is_file())
