"""Source distribution, wheel and fresh environments, built from a copy of the working tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from broker_cy.launch.processes import run
from tests.support import needs

ROOT = Path(__file__).resolve().parents[2]
NAME = "broker-cy"
_BACKEND = "import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
BUILD_TIMEOUT_S = 280.0
# Without it, setup.py translates every module again.
SHARED_SOURCE = Path("broker_cy/core/cython_shared.c")
SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")


def tree_files() -> list[Path]:
    """The files of the repository, including untracked ones, relative to it."""
    needs.require(needs.git_checkout)
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted(Path(name) for name in names if name and (ROOT / name).is_file())


def compiled_files() -> list[Path]:
    """C files and object files of `make build`, relative to the repository. They save the test minutes."""
    sources = [SHARED_SOURCE, *(path.with_suffix(".c") for path in tree_files() if path.suffix == ".pyx")]
    built = [path.relative_to(ROOT) for kind in ("lib.*", "temp.*") for path in (ROOT / "build").glob(f"{kind}/**/*")]
    return [path for path in sources + built if (ROOT / path).is_file()]


def copy_files(files: Iterable[Path], directory: Path) -> None:
    """Copy files of the repository with their modification times, by which the build decides what is up to date."""
    for file in files:
        target = directory / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target)


def make_sdist(directory: Path) -> Path:
    """Build the source distribution of the tree."""
    source, out = directory / "tree", directory / "dist"
    copy_files([*tree_files(), *compiled_files()], source)
    return _built("build_sdist", source, out)


def make_wheel(sdist: Path, directory: Path) -> Path:
    """Build a wheel from the source distribution; compiled files are compiled again only if they are out of date."""
    with tarfile.open(sdist) as archive:
        archive.extractall(directory, filter="data")
    source = directory / sdist.name.removesuffix(".tar.gz")
    copy_files(compiled_files(), source)
    return _built("build_wheel", source, directory / "dist")


def _built(hook: str, source: Path, out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    known = set(out.iterdir())
    argv = [sys.executable, "-c", _BACKEND.format(hook=hook), str(out)]
    run(argv, cwd=source, timeout_s=BUILD_TIMEOUT_S, env={"PYTHONPATH": ""})
    (made,) = set(out.iterdir()) - known
    return made


def requirements_of(name: str, extras: Iterable[str] = ()) -> set[str]:
    """The distributions that `name` and its extras need, directly and indirectly, as installed in this environment."""
    found: set[str] = set()
    waiting = [(canonicalize_name(name), frozenset(extras))]
    done = set()
    while waiting:
        entry = waiting.pop()
        if entry in done:
            continue
        done.add(entry)
        for text in metadata.requires(entry[0]) or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *entry[1])):
                needed = canonicalize_name(requirement.name)
                found.add(needed)
                waiting.append((needed, frozenset(requirement.extras)))
    return found


class Environment:
    """A fresh virtual environment with a wheel, and links to distributions of this one: like an installation, without a
    network.
    """

    def __init__(self, directory: Path, wheel: Path) -> None:
        self.directory = directory
        venv.create(directory, with_pip=False)
        self.pip("install", "--no-deps", "--no-index", "--no-compile", wheel)

    def pip(self, *arguments: str | Path) -> str:
        argv: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            self.program("python"),
        ]
        return run([*argv, *arguments], cwd=self.directory).stdout.decode()

    def program(self, name: str) -> Path:
        return self.directory / "bin" / name

    @property
    def site(self) -> Path:
        return self.directory / SITE

    def link(self, names: Iterable[str]) -> None:
        """Make distributions of this environment importable in the new one."""
        for name in names:
            for source in _top_level(name):
                target = self.site / source.name
                if not target.exists():
                    os.symlink(source, target)

    def unlink(self, name: str) -> None:
        """Remove the links to a distribution."""
        for source in _top_level(name):
            (self.site / source.name).unlink()


def _top_level(name: str) -> list[Path]:
    """The directories and files of site-packages that a distribution consists of."""
    files = metadata.files(name)
    assert files, f"{name} has no list of its files"
    tops = {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
    return [Path(str(metadata.distribution(name).locate_file(top))) for top in sorted(tops)]
