"""Workers compile different test files, and collect with the bytecode of all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.support import bytecode


def test_parts_compile_each_file_once(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, each worker of `make test` in a new clone compiles all test files for itself."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(bytecode, "TESTS", tmp_path)
    sources = [tmp_path / f"test_{number}.py" for number in range(4)] + [tmp_path / "conftest.py"]
    for path in sources:
        path.write_text("def test_it():\n    assert 1 == 1\n")
    assert [bytecode.compile_part(pytestconfig, number, 2) for number in (0, 1)] == [3, 2]
    for path in sources:
        place = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
        assert rewrite._read_pyc(path, place) is not None
    assert [bytecode.compile_part(pytestconfig, number, 2) for number in (0, 1)] == [0, 0]
    sources[0].write_text("def test_it():\n    assert 2 == 2\n")
    assert sum(bytecode.compile_part(pytestconfig, number, 2) for number in (0, 1)) == 1
