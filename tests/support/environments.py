"""Python interpreters other than that of the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class EnvironmentMissingError(Exception):
    """There is no such interpreter, or it cannot be installed; the text has the reason."""


@cache
def find_python(version: str) -> Path:
    """An interpreter of that version, on PATH or from pyenv. Raises EnvironmentMissingError."""
    on_path = shutil.which(f"python{version}")
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for place in [*([Path(on_path)] if on_path else []), *of_pyenv]:
        # pyenv puts a program on PATH for every version it has installed, even if that version is not active.
        code = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([place, "-c", code], capture_output=True, text=True)
        if done.stdout.strip() == version:
            return place
    raise EnvironmentMissingError(f"there is no Python {version} here, on PATH or of pyenv")


@cache
def sslyze_python() -> Path:
    """The interpreter of the environment with sslyze, which the first call installs. Raises EnvironmentMissingError."""
    command: list[str | Path] = ["sh", ROOT / "tools" / "sslyze.sh", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentMissingError(f"sslyze cannot be installed: {done.stderr.strip()[-300:]}")
    return Path(done.stdout.strip())
