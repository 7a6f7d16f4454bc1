"""A wall clock for each host: the machine's clock plus an offset that can jump (tests/lab/clock.c).

The whole machine has one CLOCK_REALTIME; time namespaces shift only the monotonic clocks. File times stay those of the
machine.
"""

from __future__ import annotations

import mmap
import shutil
import struct
from pathlib import Path
from typing import Final

from broker_cy.launch.processes import run

SOURCE: Final = Path(__file__).with_name("clock.c")


def compiler() -> str | None:
    """The C compiler, which building broker-cy also needs."""
    return shutil.which("cc") or shutil.which("gcc")


def built(directory: Path) -> Path:
    """Compile the library."""
    found = compiler()
    assert found is not None, "there is no C compiler"
    library = directory / "clock.so"
    run([found, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE, "-ldl"])
    return library


class HostClock:
    """The offset of one host's clock. `wrapper` is the prefix of the command lines of its processes."""

    def __init__(self, library: Path, path: Path) -> None:
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)
        self.wrapper = ["env", f"LD_PRELOAD={library}", f"LAB_CLOCK={path}"]

    def shift(self, offset_s: float) -> None:
        """Set the clock to the machine's clock plus `offset_s`."""
        # Eight aligned bytes: a reader never sees only a part of them.
        self._shared[:8] = struct.pack("=q", int(offset_s * 1e9))
