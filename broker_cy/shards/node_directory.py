"""A parent's files below the data directory of its node: `.shards/` with its lock, its socket, and the process of each
shard, so that another parent finds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from broker_cy.config.shard_plan import Plan
from broker_cy.core import uuid as uuids
from broker_cy.shards.children import Child, start_ticks
from broker_cy.shards.link import PARENT_DIRECTORY, SOCKET
from broker_cy.storage.data_directory import DataDirectory, DataDirectoryError, DirectoryUnavailable

LOCK: Final = "lock"
# Only processes of this user may connect as a shard.
MODE: Final = 0o700


class NodeDirectory:
    """Locked as long as it is open."""

    def __init__(self, root: str) -> None:
        """Lock the directory. Raises DataDirectoryError."""
        self.root = os.path.abspath(root)
        self.path = os.path.join(self.root, PARENT_DIRECTORY)
        try:
            os.makedirs(self.path, MODE, exist_ok=True)
            self._fd = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirectoryError(
                f"data directory {self.root} cannot be written ({error.strerror}): correct its permissions or choose "
                "another"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            if error.errno != errno.EAGAIN:
                raise DataDirectoryError(f"{self.path} cannot be locked: {error.strerror}") from error
            raise DataDirectoryError(
                f"data directory {self.root} is in use by another parent of shards (process {holder}): stop it, or "
                "choose another log.dirs"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Remove the socket, and release the lock."""
        with suppress(OSError):
            os.unlink(os.path.join(self.path, SOCKET))
        os.close(self._fd)

    def socket_address(self) -> tuple[str, int]:
        """A path of the socket that is short enough, and a descriptor to close once it is bound. A socket that a former
        parent left is removed.
        """
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, SOCKET))
        fd = os.open(self.path, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        return f"/proc/self/fd/{fd}/{SOCKET}", fd

    # --- processes

    def note(self, shard: int, pid: int) -> None:
        """This process is that shard. Raises OSError."""
        path = self._pid_file(shard)
        path.with_suffix(".new").write_text(f"{pid} {start_ticks(pid)} {_boot_id()}\n", encoding="ascii")
        path.with_suffix(".new").replace(path)

    def forget(self, shard: int) -> None:
        """The process has ended."""
        with suppress(FileNotFoundError):
            self._pid_file(shard).unlink()

    def running(self, shard: int) -> Child | None:
        """The process of a shard that another parent has started, and that still runs."""
        try:
            pid, started, boot_id = self._pid_file(shard).read_text(encoding="ascii").split()
            if boot_id != _boot_id():
                return None
            return Child.found(int(pid), int(started))
        except (OSError, ValueError):
            return None

    def _pid_file(self, shard: int) -> Path:
        return Path(self.path, f"shard-{shard}.pid")


def format_new(plan: Plan, running: Sequence[int], begins_cluster: bool, new_id: Callable[[], UUID]) -> None:
    """Format the directories of shards that have no formatted one, if this node is a cluster of its own; `running` are
    shards that hold theirs. A shard with a formatted one decides itself whether it can run without the others. Raises
    DataDirectoryError if another process uses one.
    """
    cluster_id = ""
    empty: list[tuple[DataDirectory, int]] = []
    held: list[DataDirectory] = []
    try:
        for shard, settings in enumerate(plan.shards):
            every = [DataDirectory(path) for path in _directories(settings)]
            formatted = [each for each in every if each.formatted]
            for found in formatted or every:
                if shard not in running and not _lock(found, is_offline_allowed=bool(formatted)):
                    continue
                held.append(found)
                if formatted:
                    found.read_meta()
                    cluster_id = cluster_id or found.cluster_id
                elif begins_cluster:
                    found.refuse_logs_without_meta()
                    empty.append((found, int(settings["node.id"])))
        for found, node_id in empty:
            cluster_id = cluster_id or uuids.to_text(new_id())
            found.format(cluster_id, node_id, new_id())
    finally:
        for found in held:
            found.close()


def _directories(settings: Mapping[str, str]) -> Sequence[str]:
    """The directories of a shard."""
    metadata = settings.get("metadata.log.dir")
    return list(dict.fromkeys([*settings["log.dirs"].split(","), *([metadata] if metadata else [])]))


def _lock(found: DataDirectory, *, is_offline_allowed: bool) -> bool:
    try:
        found.lock()
    except DirectoryUnavailable:
        if not is_offline_allowed:
            raise
        return False
    return True


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
