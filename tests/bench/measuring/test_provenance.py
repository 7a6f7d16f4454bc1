"""Where figures come from: the revision in a result document."""

import subprocess
from pathlib import Path

import pytest

from bench.measuring import provenance


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example")
    subprocess.run(["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True)


def test_recorded_tables_do_not_make_the_source_dirty(tmp_path: Path) -> None:
    """If this fails, every measurement after the first one seems to come from changed source, and is repeated."""
    git(tmp_path, "init", "-q")
    measured, source = tmp_path / "docs" / "measurements" / "a.json", tmp_path / "a.py"
    measured.parent.mkdir(parents=True)
    for path in (measured, source):
        path.write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = provenance.revision(tmp_path)
    assert len(clean) == 12
    measured.write_text("2")
    assert provenance.revision(tmp_path) == clean
    source.write_text("2")
    assert provenance.revision(tmp_path) == f"{clean}-dirty"


def test_a_tree_without_git_says_so(tmp_path: Path) -> None:
    """If this fails, a result from an installed wheel has an empty revision."""
    assert provenance.revision(tmp_path) == "no git"


def test_an_installed_package_has_no_revision_of_its_surroundings(tmp_path: Path) -> None:
    """If this fails, results name the commit of the project whose folder contains the virtual environment."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    packages = tmp_path / "venv" / "site-packages"
    packages.mkdir(parents=True)
    assert provenance.revision(packages) == "no git"


def test_a_host_without_git_has_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a run on a host that has no git ends with a stack trace, and its figures are lost."""
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.revision(tmp_path) == "no git"
