"""The source distribution and the wheel of the tree, built once for all workers of a test run."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.packaging.distributions import make_sdist, make_wheel


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory with both; workers share it, because it takes a while to build."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "distributions"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "done").exists():
            make_wheel(make_sdist(shared), shared)
            (shared / "done").touch()
    return shared / "dist"


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    """The source distribution."""
    (path,) = dist.glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """The wheel, built from the source distribution."""
    (path,) = dist.glob("*.whl")
    return path
