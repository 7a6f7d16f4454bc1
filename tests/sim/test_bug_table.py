"""The bugs of others in docs/simulation.md have what finds them."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
DOCUMENT = TESTS.parent / "docs" / "simulation.md"
HEADING = "## Bugs of others, and what finds them"


def test_whatever_finds_a_bug_exists() -> None:
    """If this fails, docs/simulation.md promises that a bug would be found by something that is not there."""
    section = DOCUMENT.read_text().partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    code = "\n".join(path.read_text() for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__))
    for bug, found_by in rows:
        names = re.findall(r"`([^`]+)`", found_by)
        assert names, f"{bug}: nothing finds it"
        missing = [name for name in names if f"def {name}(" not in code and f'"{name}": Planted(' not in code]
        assert not missing, f"{bug}: {missing}"
