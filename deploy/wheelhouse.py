"""Builds the wheelhouse: a directory from which hosts without a package index install the broker and its dependencies.

    .venv/bin/python deploy/wheelhouse.py [--extras dashboard,loadgen] [--out deploy/ansible/wheelhouse]
    .venv/bin/python deploy/wheelhouse.py --version 0.1.1 --from-wheel deploy/ansible/wheelhouse/broker_cy-0.1.0-*.whl

It needs `make build` first, because it uses the compiled files. An OpenSSL is built once and linked. The wheels are
those of requirements.lock, whose checksums pip compares, for the current version of Python and kind of machine; hosts
need the same. The directory also contains

- SHA256SUMS, which `sha256sum --check` reads;
- wheelhouse.json: the versions of the project, the version of Python and the kind of machine;
- requirements-EXTRA.txt for each extra, and requirements.txt for the broker alone: the packages to install, with
  checksums, for `pip install --no-index --require-hashes --no-deps --find-links`.

With --version the wheel gets that version without being compiled again, and is added to the wheels of other versions,
to try an upgrade or to distinguish builds of one version. --from-wheel takes a wheel instead of building one.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
NAME = "broker-cy"
# The parts of the tree that a wheel is built from, with object files, so that the build need not compile anything.
SOURCES = (
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "requirements",
    "build",
    "broker_cy",
    "broker_mirror",
    "broker_registry",
    "broker_sql",
    "broker_streams",
    "bench",
    "admin_tui",
    "dashboard",
    "loadgen",
    "spark_analytics",
)
BUILD_S = 900.0
_HOOK = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
# An entry of the lock file: a requirement, its marker, and checksums on lines that follow.
_ENTRY = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\]+)( ;[^\\\n]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)
# One date for all files, so that one wheel has one checksum.
_DATE = (2020, 1, 1, 0, 0, 0)


class WheelhouseError(Exception):
    """The wheelhouse cannot be built; the text says why."""


def run(argv: Sequence[str | Path], cwd: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end. Raises WheelhouseError with the end of its output."""
    words = [str(part) for part in argv]
    try:
        done = subprocess.run(
            words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise WheelhouseError(f"{' '.join(words)[:200]}: still running after {BUILD_S:g} s") from None
    if done.returncode != 0:
        raise WheelhouseError(f"{' '.join(words)[:200]}: exit code {done.returncode}: {done.stderr[-3000:]}")


def build_wheel(directory: Path) -> Path:
    """Build the wheel of the tree in a copy of it, so that it contains nothing of an earlier build.

    It contains an OpenSSL, so that the hosts need no compatible one, and because it is faster (docs/performance.md).
    BROKER_CY_OPENSSL=system links with that of the system instead.
    """
    environment = {"BROKER_CY_OPENSSL": "vendored", **os.environ}
    # Its output is shown, because it says why the library of the system is used instead.
    if subprocess.run(["sh", ROOT / "tools" / "openssl.sh"], cwd=ROOT, env=environment, check=False).returncode != 0:
        raise WheelhouseError("OpenSSL cannot be built: tools/openssl.sh said why")
    tree = directory / "tree"
    tree.mkdir()
    # Files that an earlier build copied may have been removed since; only compiled files are compared with their
    # sources.
    ignored = shutil.ignore_patterns("__pycache__", "openssl", "bdist.*", "*.py", "*.egg-info")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, tree / name, ignore=ignored if name == "build" else shutil.ignore_patterns("__pycache__")
            )
        elif source.exists():
            shutil.copy2(source, tree / name)
    openssl = ROOT / "build" / "openssl"
    if openssl.exists():
        # Not copied, because it is large and only needed for linking.
        (tree / "build").mkdir(exist_ok=True)
        (tree / "build" / "openssl").symlink_to(openssl)
    _count_as_built(tree)
    out = directory / "made"
    out.mkdir()
    run([sys.executable, "-c", _HOOK, out], tree, environment)
    (made,) = out.glob("*.whl")
    return made


def _count_as_built(tree: Path) -> None:
    """Make compiled files newer than their sources if `make build` made them after the last change."""
    sources = [path for kind in ("*.pyx", "*.pxd") for path in tree.rglob(kind)]
    built = [path for path in tree.rglob("*.so") if "build" not in path.relative_to(tree).parts]
    if built and min(path.stat().st_mtime for path in built) > max(path.stat().st_mtime for path in sources):
        # A copy or a checkout may have changed the order of their times.
        for kind in ("*.c", "*.o", "*.so"):
            for path in tree.rglob(kind):
                path.touch()


def metadata(wheel: Path) -> Message:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
        return message_from_bytes(archive.read(name))


def with_version(wheel: Path, version: str, directory: Path) -> Path:
    """Write a wheel with the same content and another version, and return its path."""
    old = str(metadata(wheel)["Version"])
    made = directory / wheel.name.replace(f"-{old}-", f"-{version}-", 1)
    record: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        (info,) = {name.partition("/")[0] for name in source.namelist() if ".dist-info/" in name}
        new_info = info.replace(f"-{old}.", f"-{version}.", 1)
        for entry in source.infolist():
            content = source.read(entry)
            name = entry.filename.replace(f"{info}/", f"{new_info}/", 1)
            if name == f"{new_info}/RECORD":
                continue
            if name == f"{new_info}/METADATA":
                content = content.replace(f"\nVersion: {old}\n".encode(), f"\nVersion: {version}\n".encode(), 1)
            if name == "broker_cy/__init__.py":
                # The output of `broker-cy --version`, which the installation compares.
                content = content.replace(f'__version__ = "{old}"'.encode(), f'__version__ = "{version}"'.encode(), 1)
            _write(target, name, content, entry.external_attr)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append((name, f"sha256={digest}", str(len(content))))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*record, (f"{new_info}/RECORD", "", "")])
        _write(target, f"{new_info}/RECORD", text.getvalue().encode(), 0o644 << 16)
    return made


def _write(archive: zipfile.ZipFile, name: str, content: bytes, attributes: int) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.external_attr, entry.compress_type = attributes, zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def locked() -> dict[str, str]:
    """The entries of requirements.lock whose markers fit this Python, by name, as pip reads them."""
    found = {}
    for name, version, marker, hashes in _ENTRY.findall((ROOT / "requirements.lock").read_text()):
        requirement = Requirement(f"{name}=={version}{marker}")
        if requirement.marker is None or requirement.marker.evaluate():
            found[str(canonicalize_name(name))] = f"{name}=={version}{hashes}"
    return found


def needed(wheel: Path, extra: str, wheels: Path, lock: dict[str, str]) -> list[str]:
    """The names of the project's direct and indirect dependencies with an extra; missing wheels are fetched."""
    found: list[str] = []
    waiting = [(wheel, frozenset({"", extra}))]
    done: set[tuple[Path, frozenset[str]]] = set()
    while waiting:
        todo: list[tuple[str, frozenset[str]]] = []
        for path, extras in waiting:
            if (path, extras) in done:
                continue
            done.add((path, extras))
            for text in metadata(path).get_all("Requires-Dist", []):
                requirement = Requirement(text)
                marker = requirement.marker
                if marker is None or any(marker.evaluate({"extra": each}) for each in extras):
                    todo.append((str(canonicalize_name(requirement.name)), frozenset({"", *requirement.extras})))
        unknown = sorted({name for name, _ in todo if name not in lock})
        if unknown:
            raise WheelhouseError(f"requirements.lock lacks {', '.join(unknown)}: run make lock")
        fetch(sorted({name for name, _ in todo}), wheels, lock)
        here = by_name(wheels)
        waiting = [(here[name], extras) for name, extras in todo]
        found += [name for name, _ in todo if name not in found]
    return sorted(set(found))


def by_name(wheels: Path) -> dict[str, Path]:
    """The wheels of a directory by the names of their distributions."""
    return {str(parse_wheel_filename(path.name)[0]): path for path in wheels.glob("*.whl")}


def fetch(names: Sequence[str], wheels: Path, lock: dict[str, str]) -> None:
    """Provide the wheels of these names, with one call of pip for missing ones; pip's cache is used."""
    here = by_name(wheels)
    missing = [name for name in names if name not in here]
    if missing:
        wanted = wheels / "wanted.txt"
        wanted.write_text("".join(f"{lock[name]}\n" for name in missing))
        argv = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
        run([*argv, "--require-hashes", "-r", wanted, "-w", wheels], wheels)
        wanted.unlink()


def extras_there(out: Path) -> list[str]:
    """The extras that the wheelhouse was built for."""
    return sorted(path.stem.partition("-")[2] for path in out.glob("requirements-*.txt"))


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fill(out: Path, extras: Sequence[str], version: str | None, given: Path | None) -> Path:
    """Build the wheelhouse in a directory, and return the path of the project's wheel there."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheelhouse-") as temporary:
        work = Path(temporary)
        wheel = given or build_wheel(work)
        offered = metadata(wheel).get_all("Provides-Extra", [])
        for extra in extras:
            if extra not in offered:
                raise WheelhouseError(f"--extras {extra}: expected some of {', '.join(sorted(offered))}")
        if version and version != metadata(wheel)["Version"]:
            wheel = with_version(wheel, version, work)
        target = out / wheel.name
        if wheel.resolve() != target.resolve():
            shutil.copyfile(wheel, target)
        own = {path.name for path in out.glob(f"{NAME.replace('-', '_')}-*.whl")}
        wheels = out / "dependencies.part"
        wheels.mkdir(exist_ok=True)
        for path in out.glob("*.whl"):
            if path.name not in own:
                path.rename(wheels / path.name)
        for path in out.glob("requirements*.txt"):
            path.unlink()
        lock = locked()
        kept: set[str] = set()
        for extra in ("", *extras):
            names = needed(target, extra, wheels, lock)
            here = by_name(wheels)
            kept |= {here[name].name for name in names}
            lines = []
            for name in names:
                pinned = lock[name].split(" ", 1)[0]
                lines.append(f"{pinned} --hash=sha256:{checksum(here[name])}\n")
            (out / (f"requirements-{extra}.txt" if extra else "requirements.txt")).write_text("".join(lines))
        for name in kept:
            (wheels / name).rename(out / name)
        # The remaining wheels are those of an earlier lock file; pip could choose them.
        shutil.rmtree(wheels)
    _describe(out)
    return target


def _describe(out: Path) -> None:
    """Write wheelhouse.json and the checksums."""
    own = [parse_wheel_filename(path.name)[1] for path in out.glob(f"{NAME.replace('-', '_')}-*.whl")]
    about = {
        "versions": [str(each) for each in sorted(own)],
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "machine": platform.machine(),
        "extras": extras_there(out),
    }
    (out / "wheelhouse.json").write_text(json.dumps(about, indent=2) + "\n")
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    (out / "SHA256SUMS").write_text("".join(f"{checksum(path)}  {path.name}\n" for path in files))


def main(argv: Sequence[str] | None = None) -> int:
    """Build the wheelhouse that the command line describes; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out = ROOT / "deploy" / "ansible" / "wheelhouse"
    parser.add_argument("--out", type=Path, default=out, help="the directory (default: deploy/ansible/wheelhouse)")
    parser.add_argument(
        "--extras", help="extras of the project, with commas between them (default: those of the last build)"
    )
    parser.add_argument("--version", help="give the wheel this version")
    parser.add_argument("--from-wheel", type=Path, help="a wheel of the project that exists (default: build one)")
    given = parser.parse_args(argv)
    extras = extras_there(given.out) if given.extras is None else [part for part in given.extras.split(",") if part]
    try:
        if given.version:
            # Normalized as in file names.
            given.version = str(Version(given.version))
        if given.from_wheel and not given.from_wheel.is_file():
            raise WheelhouseError(f"--from-wheel {given.from_wheel}: no such file")
        print(fill(given.out, extras, given.version, given.from_wheel))
    except InvalidVersion as error:
        print(f"wheelhouse: --version: {error}", file=sys.stderr)
        return 1
    except WheelhouseError as error:
        print(f"wheelhouse: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
