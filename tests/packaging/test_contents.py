"""The contents of the source distribution and of the wheel, and their metadata."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from pathlib import Path, PurePath

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.distributions import ROOT, tree_files

# Not needed outside of the repository.
NOT_IN_SDIST = {".gitignore", ".ci/run"}
# Packages that are run from the tree only: `make demo`, tests and tools.
NOT_IN_WHEEL = {"demo", "tests", "tools"}
# A benchmark compiles it when it needs a disk that dies.
COMPILED_ON_USE = Path("bench/launch/dead_disk.c")
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)", re.MULTILINE)


def names_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.full
def test_the_source_distribution_is_the_tree(sdist: Path) -> None:
    """If this fails, a file that the build or a test reads is missing for users without a checkout."""
    with tarfile.open(sdist) as archive:
        names = {str(PurePath(*PurePath(member.name).parts[1:])) for member in archive if member.isfile()}
    tree = {str(path) for path in tree_files()} - NOT_IN_SDIST
    assert tree - names == set()
    # Files that the build adds.
    assert {name for name in names - tree if not name.startswith("broker_cy.egg-info/")} == {"PKG-INFO"}


@pytest.mark.full
def test_the_wheel_is_complete(wheel: Path) -> None:
    """If this fails, a schema, stylesheet, stub or extension is in the repository but not in the wheel."""
    rooms = {path.parts[0] for path in tree_files() if path.name == "__init__.py" and len(path.parts) == 2}
    suffix = f".cpython-{sys.version_info.major}{sys.version_info.minor}-x86_64-linux-gnu.so"
    # Cython's shared code, which Cython writes.
    expected = {f"broker_cy/core/cython_shared{suffix}"}
    for path in tree_files():
        if path.parts[0] not in rooms - NOT_IN_WHEEL or (path.suffix in (".c", ".h") and path != COMPILED_ON_USE):
            continue
        expected.add(str(path.with_suffix("")) + suffix if path.suffix == ".pyx" else str(path))
    assert names_in_wheel(wheel) == expected


@pytest.mark.full
def test_the_metadata_is_valid(wheel: Path, sdist: Path) -> None:
    """If this fails, an index refuses the upload, or pip chooses a Python or an extra that was not intended."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        raw = archive.read(name)
        (entries,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        points = ConfigParser()
        points.read_string(archive.read(entries).decode())
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert member is not None
        source = member.read()
    for each in (raw, source):
        found = Metadata.from_email(each, validate=True)
        assert found.license_expression == "Apache-2.0"
        assert str(found.requires_python) == ">=3.11"
        assert found.description_content_type == "text/markdown"
        assert set(found.provides_extra or ()) == {
            "tui", "bench", "dashboard", "loadgen", "analytics", "registry", "mirror", "streams", "spark", "sql",
            "oauth", "gssapi", "all",
        }  # fmt: skip
    message = message_from_bytes(raw)
    versions = [line.rpartition(" ")[2] for line in message.get_all("Classifier", []) if "Python :: 3." in line]
    assert versions == ["3.11", "3.12", "3.13"]
    assert set(points["console_scripts"]) == {
        "broker-analytics", "broker-cy", "broker-bench", "broker-dash", "broker-load", "broker-mirror",
        "broker-registry", "broker-sql", "broker-streams", "broker-tui",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "runtime",
        "tui",
        "bench",
        "http",
        "dashboard",
        "loadgen",
        "analytics",
        "streams",
        "spark",
        "oauth",
        "gssapi",
        "ansible",
        "run",
        "installer",
        "dev",
    ],
)
def test_the_lock_file_has_what_is_required(name: str) -> None:
    """If this fails, `make build` installs other versions than the package requires, or lacks a requirement."""
    locked: dict[str, set[str]] = {}
    # `make build` installs neither packages that must be compiled against a system library nor those for deployment.
    own = ("ansible", "gssapi", "run", "installer")
    lock = f"requirements/{name}.lock" if name in own else "requirements.lock"
    for found, version in LOCKED.findall((ROOT / lock).read_text()):
        locked.setdefault(canonicalize_name(found), set()).add(version)
    for line in (ROOT / "requirements" / f"{name}.in").read_text().splitlines():
        if line and not line.startswith(("#", "-r ")):
            requirement = Requirement(line)
            versions = locked.get(canonicalize_name(requirement.name))
            assert versions, f"{requirement.name} is not in {lock}: run make lock"
            assert all(version in requirement.specifier for version in versions), requirement


@pytest.mark.parametrize("name", ["run", "installer", "ansible"])
def test_the_lock_files_of_one_environment_agree(name: str) -> None:
    """If this fails, `make run` and `make test` install different versions, and the tested versions are not those that
    run.
    """
    everything = set(LOCKED.findall((ROOT / "requirements.lock").read_text()))
    part = set(LOCKED.findall((ROOT / "requirements" / f"{name}.lock").read_text()))
    if name == "ansible":
        # This file extends the others.
        names = {found for found, _ in everything}
        part = {(found, version) for found, version in part if found in names}
    assert part
    assert part <= everything


def test_the_build_requirements_are_those_of_the_lock_file() -> None:
    """If this fails, a wheel that pip builds in an isolated environment is compiled by a tool version that no test has
    run with.
    """
    locked = dict(LOCKED.findall((ROOT / "requirements.lock").read_text()))
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]:
        requirement = Requirement(text)
        assert locked[requirement.name] in requirement.specifier
