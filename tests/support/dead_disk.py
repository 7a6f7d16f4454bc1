"""Directories whose disk dies while processes use them: without root by a library that fails system calls
(bench.launch.dead_disk), and with root as a file system on a loop device that the kernel shuts down.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from pathlib import Path
from typing import Final

from bench.launch.dead_disk import DyingDirectory
from broker_cy.launch.processes import run

__all__ = ["DyingDirectory", "DyingFileSystem", "why_not"]

IMAGE_BYTES: Final = 64 << 20
# EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32), and EXT4_GOING_FLAGS_NOLOGFLUSH: unwritten data is lost.
_SHUTDOWN: Final = 0x8004587D
_WITHOUT_LOG_FLUSH: Final = 2


def why_not() -> str | None:
    """None if a file system on a loop device can be made, else the missing requirement."""
    for tool in ("mkfs.ext4", "mount", "umount", "losetup"):
        if shutil.which(tool) is None:
            return f"{tool} is missing"
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    made = run(["losetup", "--find"], check=False)
    return None if made.returncode == 0 else f"no loop device: {made.stderr.decode().strip()}"


class DyingFileSystem:
    """The same by the kernel: a separate ext4 file system at `root`. It needs root."""

    def __init__(self, directory: Path, root: Path) -> None:
        """The image is written to `directory`."""
        image = directory / f"{root.name}.img"
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        run(["mkfs.ext4", "-q", "-F", image])
        root.mkdir(parents=True, exist_ok=True)
        run(["mount", "-o", "loop", image, root])
        self.root = root
        self.wrapper: list[str] = []

    def die(self) -> None:
        """Fail every access from now on."""
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("=I", _WITHOUT_LOG_FLUSH))
        finally:
            os.close(fd)

    def close(self) -> None:
        # Lazily: a killed process may not have exited yet.
        run(["umount", "--lazy", self.root])
