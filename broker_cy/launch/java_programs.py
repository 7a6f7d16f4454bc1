"""Java programs of a few source files, compiled once for each version."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run

COMPILE_TIMEOUT_S = 280.0


def missing() -> str | None:
    """Return a sentence about the missing compiler; None if it is installed."""
    return None if shutil.which("javac") else "no javac here (Debian: apt-get install openjdk-17-jdk-headless)"


def classes(source: Path, class_path: str, others: Sequence[Path] = ()) -> Path:
    """Return the directory with the program's classes. `others` are the further files of its source."""
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in (source, *others))).hexdigest()[:16]

    def compiled(directory: Path) -> None:
        run(["javac", "-cp", class_path, "-d", directory, source, *others], timeout_s=COMPILE_TIMEOUT_S)

    return made_once(f"java-{source.stem}-{digest}", compiled)
