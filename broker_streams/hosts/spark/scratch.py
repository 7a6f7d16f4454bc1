"""Directories of a driver that are of no use after it: checkpoints, and the applications that it sends to the workers.

A driver that is killed leaves its directories. The next driver deletes them. Each directory has a file that its driver
holds locked, so a directory without a live driver is known by its lock, also where process ids are those of another
container.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "broker-streams-"
LOCK: Final = "driver.lock"


class Scratch:
    """A directory below `parent`, or in the directory of temporary files, until `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        """Raises OSError."""
        found = None
        while found is None:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            found = _locked(self.path, os.O_CREAT)
        self._lock = found

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def delete_left(parent: Path | None = None) -> list[Path]:
    """Delete directories of this user whose drivers are gone; returns them."""
    deleted = []
    for path in sorted(Path(parent or tempfile.gettempdir()).glob(f"{PREFIX}*")):
        try:
            seen = path.lstat()
            if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
                continue
            # A directory that is being made has no such file yet.
            lock = _locked(path)
        except OSError:
            continue
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
            deleted.append(path)
    return deleted


def _locked(directory: Path, flags: int = 0) -> int | None:
    """The open lock file of a directory; None: another process has it, or has deleted the directory. Raises OSError."""
    path = directory / LOCK
    made = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another driver may have taken a directory for one that was left, before this one had locked it.
        if os.path.samestat(os.fstat(made), path.lstat()):
            return made
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(made)
    return None
