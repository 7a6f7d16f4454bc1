"""The directories of tasks below `state.dir`: STATE_DIR/APPLICATION/TASK, as Kafka Streams lays them out.

A task's directory is locked as long as its file is open. Where another instance on this host has it, which runs the
task or follows it as a standby, the next one takes TASK~2, and so on: they never share a file, and never wait.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker_streams.kernel.errors import StreamsError

LOCK: Final = ".lock"
# Directories of one task on one host: one for each instance that has it.
SAME_TASK_MAX: Final = 64


def default_root() -> Path:
    """Kafka's default is kafka-streams in Java's directory of temporary files."""
    return Path(tempfile.gettempdir()) / "kafka-streams"


class TaskDirectory:
    """A locked directory."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def release(self) -> None:
        """Later calls do nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def delete(self) -> None:
        """Delete all of it while it is locked."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()


class StateDirectory:
    """The directories of one application."""

    def __init__(self, root: Path, application_id: str) -> None:
        self.path = root / application_id

    def lock(self, task: str) -> TaskDirectory:
        """A directory for the task, which no other has. Raises StreamsError: it cannot be made."""
        for number in range(1, SAME_TASK_MAX + 1):
            path = self.path / (task if number == 1 else f"{task}~{number}")
            try:
                path.mkdir(parents=True, exist_ok=True)
                found = _locked(path)
            except OSError as error:
                raise StreamsError(f"state.dir: {path} cannot be used: {error.strerror}") from error
            if found is not None:
                return found
        raise StreamsError(f"state.dir: {SAME_TASK_MAX} instances have {self.path / task} already")

    def clean(self, now_ms: int, delay_ms: int) -> list[str]:
        """Delete the directories of tasks that no instance has had for `delay_ms`; return their names."""
        gone = []
        with suppress(OSError):
            for path in sorted(self.path.iterdir()):
                with suppress(OSError):
                    if path.is_dir() and now_ms - path.stat().st_mtime_ns // 1_000_000 >= delay_ms:
                        found = _locked(path)
                        if found is not None:
                            found.delete()
                            gone.append(path.name)
        return gone


def _locked(path: Path) -> TaskDirectory | None:
    """None: another has the lock. Raises OSError."""
    while True:
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Somebody may have deleted the directory meanwhile, with the file that is locked now.
            if os.stat(path / LOCK).st_ino == os.fstat(handle).st_ino:
                return TaskDirectory(path, handle)
        except BlockingIOError:
            os.close(handle)
            return None
        except FileNotFoundError:
            path.mkdir(parents=True, exist_ok=True)
        os.close(handle)
