"""Test suites of other projects. A variable names a git repository of the project; a test takes the suite from there,
and runs it in a separate Python environment.

The failures that are expected are in a table beside the test, one a line: a cause, a tab, and the name of the test,
with `*` for any text. Lines of the form `CAUSE: reason` explain the causes. A test of the table that passes is an error
too, so that the table stays true.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run

INSTALL_S = 580.0
_FOLDER = "tests.integration."
RAN = (0, 1)
"""The exit codes of pytest that mean that the tests ran."""


def exported(name: str, repository: str, folders: Sequence[str], more: Callable[[Path], None] | None = None) -> Path:
    """Return a directory with folders of the repository's HEAD; `more` changes it once."""
    commit = subprocess.run(
        ["git", "-C", repository, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()

    def make(directory: Path) -> None:
        archive = directory / "archive.tar"
        run(["git", "-C", repository, "archive", "-o", archive, "HEAD", *folders], timeout_s=INSTALL_S)
        run(["tar", "xf", archive, "-C", directory], timeout_s=INSTALL_S)
        archive.unlink()
        if more is not None:
            more(directory)

    return made_once(f"{name}-{commit[:16]}", make)


def environment(name: str, python: Path, requirements: Path) -> Path:
    """Return the interpreter of an environment with the packages of a file, which names all of them."""
    stamp = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]

    def make(directory: Path) -> None:
        run([python, "-m", "venv", directory / "venv"], timeout_s=INSTALL_S)
        pip: list[str | Path] = [directory / "venv" / "bin" / "python", "-m", "pip", "install", "-q"]
        run([*pip, "--disable-pip-version-check", "--no-deps", "-r", requirements], timeout_s=INSTALL_S)

    return made_once(f"{name}-env-{stamp}", make) / "venv" / "bin" / "python"


@dataclass(frozen=True)
class Outcomes:
    """The tests of a run by their names, `module::name`, below tests/integration."""

    passed: frozenset[str]
    failed: Mapping[str, str]
    skipped: frozenset[str]


def outcomes(junit: Path) -> Outcomes:
    """Read a file that pytest wrote with --junitxml. A failure has its message."""
    passed: set[str] = set()
    failed: dict[str, str] = {}
    skipped: set[str] = set()
    for case in ElementTree.parse(junit).iter("testcase"):
        name = f"{case.get('classname', '').rpartition(_FOLDER)[2]}::{case.get('name')}"
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is not None:
            failed[name] = problem.get("message", "")[:300]
        elif case.find("skipped") is not None:
            skipped.add(name)
        else:
            passed.add(name)
    return Outcomes(frozenset(passed - failed.keys()), failed, frozenset(skipped))


def expected_failures(table: Path) -> dict[str, str]:
    """Return the patterns of a table with their causes. Raises AssertionError for a cause without a reason."""
    reasons: set[str] = set()
    found: dict[str, str] = {}
    for line in table.read_text().splitlines():
        cause, tab, name = line.partition("\t")
        if tab:
            assert cause in reasons, f"{cause} has no reason"
            found[name] = cause
        elif line:
            cause, _, reason = line.partition(": ")
            assert reason, line
            reasons.add(cause)
    return found


def differences(found: Outcomes, expected: Mapping[str, str]) -> list[str]:
    """Return the failures that no pattern expects, and the patterns that name a passed test or none at all."""
    patterns = {pattern: re.compile(re.escape(pattern).replace(r"\*", ".*")) for pattern in expected}
    wrong = [
        f"failed: {name}: {message}"
        for name, message in found.failed.items()
        if not any(each.fullmatch(name) for each in patterns.values())
    ]
    for pattern, compiled in patterns.items():
        wrong += [f"passed, but is expected to fail: {name}" for name in found.passed if compiled.fullmatch(name)]
        if not any(compiled.fullmatch(name) for name in (*found.failed, *found.passed, *found.skipped)):
            wrong.append(f"no such test: {pattern}")
    return wrong
