"""The bytecode of the tests, with pytest's assertions: each worker of pytest-xdist compiles a part of the files.

All workers collect many files in the same order. In a new clone, each would compile each of these itself. Instead,
each worker first compiles its part, and then reads what the others have written.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.support.scheduling import shares

TESTS = Path(__file__).resolve().parents[1]


def compile_part(config: pytest.Config, number: int, count: int) -> int:
    """Write the missing or outdated bytecode of part `number` of `count` of the test files that all workers collect;
    return how many files.
    """
    if sys.dont_write_bytecode:
        return 0
    # Large and small files are next to each other in a folder: neighbours go to different workers.
    names = ("test_*.py", "conftest.py")
    alone = {path for share in shares(count) for path in share}
    paths = (path for name in names for path in TESTS.rglob(name) if "node_modules" not in path.parts)
    files = sorted(path for path in paths if path not in alone)
    state = config.stash[rewrite.assertstate_key]
    written = 0
    for path in files[number::count]:
        directory = rewrite.get_cache_dir(path)
        place = directory / (path.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(path, place) is None and rewrite.try_makedirs(directory):
            source_hash, code = rewrite._rewrite_test(path, config)
            written += rewrite._write_pyc(state, code, source_hash, place)
    return written
