"""Lines of prose in the documents have at most 120 characters, so that the change of a sentence is a small diff, and
no document has the marks of a merge.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.documents.lines import ROOT

CHARACTERS_MAX = 120
# Tables, indented code and headings keep their lines.
NOT_PROSE = ("|", "    ", "#", "+")
# `broker-bench record` writes these: a command, and where and when it was measured.
MEASURED = re.compile(r"- `[^`]+`: \d{4}-")
# The lines that git writes around the two sides of a conflict.
CONFLICT = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)


def long_lines(path: Path) -> list[int]:
    """Return the numbers of the lines of prose that are too long."""
    found = []
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif len(line) > CHARACTERS_MAX and not (is_code or line.startswith(NOT_PROSE) or MEASURED.match(line)):
            found.append(number)
    return found


def documents() -> list[Path]:
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "tests").glob("*/*.md"),
        *(ROOT / "tests").glob("fixtures/*/*.md"),
    ]
    assert ROOT / "docs" / "README.md" in found
    return found


def test_lines_of_prose_are_wrapped() -> None:
    """If this fails, a reader of a document in a terminal, or of a diff, scrolls sideways."""
    assert not {str(each.relative_to(ROOT)): found for each in documents() if (found := long_lines(each))}


def test_documents_have_no_marks_of_a_merge() -> None:
    """If this fails, a page shows both sides of a conflict that was committed unsolved."""
    marked = [str(each.relative_to(ROOT)) for each in documents() if CONFLICT.search(each.read_text(encoding="utf-8"))]
    assert not marked
