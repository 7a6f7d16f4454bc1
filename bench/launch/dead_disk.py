"""Directories whose disk dies while a process uses them: by a library that fails its system calls (dead_disk.c)."""

from __future__ import annotations

import mmap
import shutil
from pathlib import Path
from typing import Final

from broker_cy.launch.processes import ProcessError, run

SOURCE: Final = Path(__file__).with_name("dead_disk.c")


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


class DyingDirectory:
    """`root` works until `die`, for the processes whose command lines begin with `wrapper`."""

    def __init__(self, directory: Path, root: Path) -> None:
        """The library and its switch are written to `directory`. Raises ProcessError."""
        compiler = _compiler()
        if compiler is None:
            raise ProcessError("a disk that dies needs a C compiler (cc or gcc)")
        library = directory / "dead_disk.so"
        run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE, "-ldl"])
        switch = directory / "dead_disk.switch"
        switch.write_bytes(b"\0")
        with open(switch, "r+b") as file:
            self._switch = mmap.mmap(file.fileno(), 1)
        self.root = root
        self.wrapper = [
            "env",
            f"LD_PRELOAD={library}",
            f"DEAD_DISK_SWITCH={switch}",
            f"DEAD_DISK_ROOT={root}",
        ]

    def die(self) -> None:
        """Fail every access from now on."""
        self._switch[0] = 1

    def close(self) -> None:
        self._switch.close()
