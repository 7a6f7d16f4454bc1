"""A small private file system for a test, which the test can fill, and optionally a separate network.

A tmpfs in a mount namespace that a child process holds: it disappears when that process ends. It needs root; `why_not`
returns the reason if it cannot be mounted.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from broker_cy.launch.processes import Child, run
from tests.support.wait import until


def why_not() -> str | None:
    """None if a small file system can be made, else the reason."""
    for tool in ("unshare", "nsenter", "mount"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    made = run(["unshare", "-m", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False)
    return None if made.returncode == 0 else f"mounting fails here: {made.stderr.decode().strip()}"


class Volume:
    """A small file system. `path` is its mount point for the processes in the namespaces of process `pid`, `view` the
    same place for this process.
    """

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self.view = Path(f"/proc/{pid}/root{path}")
        self._filler = self.view / "filler"

    def free_bytes(self) -> int:
        room = os.statvfs(self.view)
        return room.f_bavail * room.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all free space except `leave_bytes` (whole pages)."""
        page = os.sysconf("SC_PAGE_SIZE")
        with open(self._filler, "ab", buffering=0) as file:
            # Queried in each round, because the broker also takes space.
            while (room := self.free_bytes() - leave_bytes) >= page:
                file.write(bytes(min(room, 1 << 20) // page * page))

    def make_room(self) -> None:
        """Release the space that `fill` took."""
        self._filler.unlink(missing_ok=True)


class SmallDisk(Volume):
    """A volume for processes that are started with `wrapper`.

    With `network` these processes are also in a separate network namespace, whose interfaces are all down.
    """

    def __init__(self, directory: Path, size_bytes: int, inodes: int = 0, *, network: bool = False) -> None:
        path = directory / "small-disk"
        path.mkdir()
        options = f"size={size_bytes}" + (f",nr_inodes={inodes}" if inodes else "")
        script = f"mount -t tmpfs -o {options} tmpfs {path} && echo mounted && exec sleep infinity"
        kinds = ["-m", "-n"] if network else ["-m"]
        unshare = ["unshare", *kinds, "--propagation", "private"]
        self._holder = Child([*unshare, "sh", "-c", script], directory, "small-disk")
        until(lambda: "mounted" in self._holder.stdout() or self._holder.returncode is not None, "the mount")
        assert self._holder.returncode is None, self._holder.stderr()
        self.pid = self._holder.pid
        """The process that holds the namespaces."""
        super().__init__(path, self.pid)
        self.wrapper = ["nsenter", "-t", str(self.pid), *kinds, f"--wd={Path.cwd()}", "--"]

    def beside(self, path: Path, size_bytes: int) -> Volume:
        """Mount another volume for the same processes."""
        path.mkdir()
        run([*self.wrapper, "mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", path])
        return Volume(path, self.pid)

    def close(self) -> None:
        self._holder.kill()
