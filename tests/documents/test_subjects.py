"""Sentences of documents, and docstrings, name their subject and begin with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.documents.lines import ROOT, documents

# The first word of a sentence that leaves its subject to the end. A question may begin with What or Who.
FIRST = r"(?:What|Whatever|Who|Whoever|Of) (?=[a-z])(?![^.]*\?)"
INDIRECT = re.compile(
    rf"(?:^|[.:;|] |^#+ |^[-*] ){FIRST}"
    r"|\b(?:is|are|was|were) there\b(?! (?:a|an|no|any)\b)"
    r"|\b(?:that|which|who) (?:is|are) no\b(?! longer)|\bof which\b|\bthat has none\b"
    r"|\b(?:[Nn]obody|[Ss]omebody|[Ee]verybody)\b"
)
DOCSTRING = re.compile(rf'^ *r?"""{FIRST}', re.MULTILINE)
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
SOURCES = {".py", ".pyi", ".pyx", ".pxd"}


def prose(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a document outside of its code blocks, with their numbers."""
    found = []
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            found.append((number, line))
    return found


def test_documents_name_their_subjects() -> None:
    """If this fails, a page reads like a translation: a reader finds the subject of a sentence at its end, or not."""
    for text in ("Sent to nobody.", "It ends. What is left goes.", "## Who may write", "a ratio that is no number"):
        assert INDIRECT.search(text), text
    assert not INDIRECT.search("What is a shard? A process that is no longer alone, if there is no other.")
    assert not [
        f"{path.name}:{number}: {line}" for path in documents() for number, line in prose(path) if INDIRECT.search(line)
    ]


def test_docstrings_begin_with_their_subjects() -> None:
    """If this fails, a docstring says less than its name, because its subject is missing."""
    assert DOCSTRING.search('\n    """Of a group: its name."""')
    assert not [
        f"{path.relative_to(ROOT)}: {found[0].strip()}"
        for package in (*PACKAGES, "deploy", "tests", "tools")
        for path in (ROOT / package).rglob("*")
        if path.suffix in SOURCES and (found := DOCSTRING.search(path.read_text(encoding="utf-8")))
    ]
