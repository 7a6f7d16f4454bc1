"""No text file of the repository has the markers of a merge that was not finished."""

from __future__ import annotations

import re

from broker_cy.launch.processes import run
from tests.documents.lines import ROOT

# A row of `=` alone underlines headings too.
MARKER = re.compile(rb"^(<{7}|>{7}|\|{7})( |$)", re.MULTILINE)
# Data of others, which may have anything.
SKIPPED = ("tests/fixtures/",)


def test_no_file_has_conflict_markers() -> None:
    """If this fails, a reader sees two versions of a text with the marks of git between them."""
    command = ["git", "ls-files", "-z", "*.md", "*.py", "*.pyx", "*.toml", "*.yml", "*.tsv"]
    names = run(command, cwd=ROOT).stdout.decode().split("\0")
    assert "README.md" in names
    kept = (ROOT / name for name in names if name and not name.startswith(SKIPPED))
    assert not [str(path.relative_to(ROOT)) for path in kept if MARKER.search(path.read_bytes())]
