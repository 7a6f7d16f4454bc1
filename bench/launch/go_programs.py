"""Go programs of one directory, compiled once for each version of their source."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run

BUILD_TIMEOUT_S = 280.0


def missing() -> str | None:
    """Return a sentence about missing programs; None if nothing is missing."""
    return None if shutil.which("go") else "no go here (https://go.dev/dl)"


def program(source: Path) -> Path:
    """Return the compiled program of a directory with go.mod and go.sum. Raises ProcessError."""

    def compiled(directory: Path) -> None:
        run(["go", "build", "-o", directory / source.name, "."], cwd=source, timeout_s=BUILD_TIMEOUT_S)

    return made_once(f"go-{source.name}-{_digest(source)}", compiled) / source.name


def tests(source: Path, package: str) -> Path:
    """Return the compiled tests of a package that the program of a directory uses. Raises ProcessError."""
    name = package.rpartition("/")[2]

    def compiled(directory: Path) -> None:
        run(["go", "test", "-c", "-o", directory / name, package], cwd=source, timeout_s=BUILD_TIMEOUT_S)

    return made_once(f"go-tests-{name}-{_digest(source)}", compiled) / name


def _digest(source: Path) -> str:
    names = ["go.mod", "go.sum", *sorted(path.name for path in source.glob("*.go"))]
    return hashlib.sha256(b"".join((source / name).read_bytes() for name in names)).hexdigest()[:16]
