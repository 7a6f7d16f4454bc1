"""Fixtures of state on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import needs


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in memory, if there is one: the tests open hundreds of files, and each waits for the disk."""
    home = str(needs.MEMORY) if needs.MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="streams-state", dir=home) as directory:
        yield Path(directory)
