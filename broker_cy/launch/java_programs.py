"""Java programs of one source file, compiled once for each version."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run

COMPILE_TIMEOUT_S = 280.0


def missing() -> str | None:
    """Return a sentence about the missing compiler; None if it is installed."""
    return None if shutil.which("javac") else "no javac here (Debian: apt-get install openjdk-17-jdk-headless)"


def classes(source: Path, class_path: str) -> Path:
    """Return the directory with the program's classes."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]

    def compiled(directory: Path) -> None:
        run(["javac", "-cp", class_path, "-d", directory, source], timeout_s=COMPILE_TIMEOUT_S)

    return made_once(f"java-{source.stem}-{digest}", compiled)
