"""Files of the programs for comparison, built or downloaded once per machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def cache_directory() -> Path:
    """Return the directory of downloads: $BROKER_CY_CACHE, else .cache in a source tree, else the user's cache."""
    if configured := os.environ.get("BROKER_CY_CACHE"):
        return Path(configured)
    if (_ROOT / "pyproject.toml").exists():
        return _ROOT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "broker-cy"


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory `name` of the cache; `make` fills it once per machine, while other processes wait."""
    home = cache_directory() / name
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if home.exists():
            return home
        # Made next to its final place and renamed, so that an incomplete directory never looks complete.
        making = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{name}-making-"))
        try:
            make(making)
            making.chmod(0o755)
            making.rename(home)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return home
