"""On the control node: one archive of the wheels that a release needs, taken from the wheelhouse.

Reads {"wheelhouse", "version", "extras", "directory", "check"} as JSON on the standard input. The archive has broker-cy
of that version, and its direct and indirect dependencies, with those of the extras, for any interpreter; pip on the
host selects from these. It is written once for the same wheels, and its name contains their digest. Prints its path and
its number of wheels.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

PRODUCT = "broker-cy"
# The number of archives that are kept on the control node.
ARCHIVES = 8


class Wheel:
    """A file of the wheelhouse; its requirements are read only if needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        name, self.version, _, self.tags = parse_wheel_filename(path.name)
        self.name = str(name)

    def requires(self, extras: frozenset[str]) -> Iterator[Requirement]:
        """Return the requirements for any Python; pip later leaves out those for another system."""
        with zipfile.ZipFile(self.path) as archive:
            metadata = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            headers = HeaderParser().parsestr(archive.read(metadata).decode())
        for text in headers.get_all("Requires-Dist") or []:
            requirement = Requirement(text)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra, **system}) for extra in extras | {""} for system in SYSTEMS
            ):
                yield requirement


# The interpreters of Debian and Ubuntu that can run broker-cy.
SYSTEMS = [
    {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": machine,
    }
    for version in ("3.11", "3.12", "3.13", "3.14")
    for machine in ("x86_64", "aarch64")
]


def wheels_of(wheelhouse: Path) -> dict[str, list[Wheel]]:
    found: dict[str, list[Wheel]] = {}
    if not wheelhouse.is_dir():
        raise SystemExit(
            f"broker_wheelhouse={wheelhouse} is no directory on the control node: build it with deploy/wheelhouse.py"
        )
    for path in sorted(wheelhouse.rglob("*.whl")):
        try:
            wheel = Wheel(path)
        except (InvalidWheelFilename, InvalidVersion) as error:
            raise SystemExit(f"{path}: {error}") from None
        found.setdefault(wheel.name, []).append(wheel)
    return found


def closure(wheels: dict[str, list[Wheel]], version: str, extras: frozenset[str], wheelhouse: Path) -> set[Wheel]:
    wanted = Version(version)
    first = [each for each in wheels.get(PRODUCT, []) if each.version == wanted]
    if not first:
        there = ", ".join(sorted({str(each.version) for each in wheels.get(PRODUCT, [])})) or "none"
        raise SystemExit(
            f"broker_version={version}: {wheelhouse} has no wheel of it, but of these: {there}. Build it with "
            "deploy/wheelhouse.py, or name an existing one"
        )
    chosen: set[Wheel] = set()
    ahead: list[tuple[Wheel, frozenset[str]]] = [(each, extras) for each in first]
    done: set[tuple[Wheel, frozenset[str]]] = set()
    while ahead:
        item = ahead.pop()
        if item in done:
            continue
        done.add(item)
        wheel, its_extras = item
        chosen.add(wheel)
        for requirement in wheel.requires(its_extras):
            name = canonicalize_name(requirement.name)
            fitting = [each for each in wheels.get(name, []) if requirement.specifier.contains(each.version, True)]
            # A requirement for another interpreter may be missing; pip reports it if this host needs it.
            ahead += [(each, frozenset(requirement.extras)) for each in fitting]
    return chosen


def remove_old(target: Path) -> None:
    """Remove all but the newest archives; a removed one is built again if needed."""
    found = sorted(target.parent.glob(f"{PRODUCT}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[ARCHIVES:]:
        path.unlink(missing_ok=True)


def main() -> None:
    asked = json.load(sys.stdin)
    wheelhouse = Path(asked["wheelhouse"])
    try:
        chosen = closure(wheels_of(wheelhouse), asked["version"], frozenset(asked["extras"]), wheelhouse)
    except InvalidVersion:
        raise SystemExit(f"broker_version={asked['version']} is no version of a wheel, such as 0.1.0") from None
    ordered = sorted((each.path for each in chosen), key=lambda path: path.name)
    digest = hashlib.sha256()
    for path in ordered:
        found = path.stat()
        digest.update(f"{path.name} {found.st_size} {found.st_mtime_ns}\n".encode())
    target = Path(asked["directory"]) / f"{PRODUCT}-{asked['version']}-{digest.hexdigest()[:16]}.tar"
    if not asked["check"] and not target.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        with tarfile.open(temporary, "w") as archive:
            for path in ordered:
                archive.add(path, arcname=path.name)
        temporary.rename(target)
        remove_old(target)
    print(json.dumps({"archive": str(target), "wheels": len(ordered)}))


main()
