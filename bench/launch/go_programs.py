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
    names = ["go.mod", "go.sum", *sorted(path.name for path in source.glob("*.go"))]
    digest = hashlib.sha256(b"".join((source / name).read_bytes() for name in names)).hexdigest()[:16]

    def compiled(directory: Path) -> None:
        run(["go", "build", "-o", directory / source.name, "."], cwd=source, timeout_s=BUILD_TIMEOUT_S)

    return made_once(f"go-{source.name}-{digest}", compiled) / source.name
