"""Ordinary use of franz-go, if a Go compiler is installed."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from pathlib import Path

import pytest

from bench.launch.cache import cache_directory
from bench.launch.processes import run
from tests.support.broker import Target

SOURCE = Path(__file__).parent / "franz_go"
BUILD_TIMEOUT_S = 280.0

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="no go here; franz-go is tried where there is one")


@pytest.fixture(scope="session")
def program() -> Path:
    """The compiled scenarios; built once for each version of their source."""
    sources = b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    built = cache_directory() / f"franz-go-{hashlib.sha256(sources).hexdigest()[:16]}"
    built.parent.mkdir(parents=True, exist_ok=True)
    with open(built.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            making = built.with_suffix(".making")
            run(["go", "build", "-o", making, "."], cwd=SOURCE, timeout_s=BUILD_TIMEOUT_S)
            making.rename(built)
    return built


@pytest.mark.timeout(360)  # the first of them compiles
@pytest.mark.parametrize("scenario", ["topics", "records", "codecs", "offsets", "group"])
def test_life(program: Path, broker: Target, topic: str, group: str, scenario: str) -> None:
    """If this fails, Go programs cannot administer topics, produce and read complete records, find offsets, or share
    work.
    """
    run([program, scenario, broker.bootstrap, topic, group], timeout_s=90)
