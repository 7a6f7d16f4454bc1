"""Java programs of one source file, with Kafka's client of 4.3.1; compiled once for each version."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from bench.launch import kafka_dist
from bench.launch.cache import made_once
from bench.launch.processes import run

COMPILE_TIMEOUT_S = 280.0


def missing() -> str | None:
    """Return a sentence about missing programs; None if nothing is missing."""
    if shutil.which("javac") is None:
        return "no javac here (Debian: apt-get install openjdk-17-jdk-headless)"
    return kafka_dist.missing()


def classes(source: Path, class_path: str) -> Path:
    """Return the directory with the program's classes."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]

    def compiled(directory: Path) -> None:
        run(["javac", "-cp", class_path, "-d", directory, source], timeout_s=COMPILE_TIMEOUT_S)

    return made_once(f"java-{source.stem}-{digest}", compiled)


def command(source: Path, class_path: str) -> list[str]:
    """Return the start of the command line that runs the program, with its logs on stderr."""
    # Kafka's class path comes first, as in the archive of its tools.
    *start, kafka_path, _ = kafka_dist.tool_command(source.stem)
    paths = dict.fromkeys((kafka_path, str(classes(source, class_path)), class_path))
    return [*start, ":".join(paths), source.stem]
