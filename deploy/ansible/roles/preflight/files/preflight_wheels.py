"""The checks of the wheelhouse on the control node: complete, unchanged, and suitable for the hosts."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections import defaultdict
from email.parser import HeaderParser
from pathlib import Path

from preflight_words import Findings, Host, listed

SUMS = "SHA256SUMS"
BUILD = "build it with deploy/wheelhouse.py"
# More faults than these have one cause: another directory, or an incomplete copy.
SHOWN = 3


def check_wheelhouse(directory: Path, version: str, hosts: list[Host], findings: Findings) -> None:
    if not directory.is_dir():
        findings.fail("wheelhouse", f"There is no wheelhouse at {directory}: {BUILD}, or set broker_wheelhouse.")
        return
    wheels = sorted(directory.glob("*.whl"))
    ours = [path for path in wheels if path.name.startswith("broker_cy-")]
    versions = sorted({path.name.split("-")[1] for path in ours})
    mine = [path for path in ours if path.name.split("-")[1] == version.replace("-", "_")]
    if not mine:
        has = f"has only {listed(versions)}" if versions else "has no wheel of broker-cy"
        findings.fail(
            "wheelhouse",
            f"broker_version is {version or 'not set'}, but the wheelhouse {directory} {has}: {BUILD}, or correct "
            "broker_version.",
        )
    check_sums(directory, wheels, findings)
    for path in mine:
        check_python(path, hosts, findings)
    if mine:
        check_tags(mine, wheels, hosts, findings)


def check_sums(directory: Path, wheels: list[Path], findings: Findings) -> None:
    try:
        text = (directory / SUMS).read_text(encoding="utf-8")
    except OSError as error:
        findings.fail(
            "wheelhouse", f"The wheelhouse {directory} has no list of checksums {SUMS} ({error.strerror}): {BUILD}."
        )
        return
    sums = {name.lstrip("*"): digest for digest, _, name in (line.partition(" ") for line in text.splitlines() if line)}
    sums = {name.strip(): digest for name, digest in sums.items()}
    faults = [f"{name} is missing" for name in sums if not (directory / name).is_file()]
    faults += [f"{path.name} is not in {SUMS}" for path in wheels if path.name not in sums]
    for name, digest in sums.items():
        if (directory / name).is_file() and digest_of(directory / name) != digest.lower():
            faults.append(f"{name} does not match its checksum: it was changed, or copied in part")
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        findings.fail(
            "wheelhouse",
            f"The wheelhouse {directory} is not complete: {'; '.join(faults[:SHOWN])}{more}. {BUILD.capitalize()} "
            "again.",
        )


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_python(wheel: Path, hosts: list[Host], findings: Findings) -> None:
    """Requires-Python of the wheel against the Python of each host."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            required = HeaderParser().parsestr(archive.read(name).decode()).get("Requires-Python", "")
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        findings.fail("wheelhouse", f"{wheel} is not a wheel that can be read ({error}): {BUILD} again.")
        return
    lowest = re.search(r">=\s*(\d+)\.(\d+)", required)
    for host in hosts:
        version = python_of(host)
        if lowest and version and version < (int(lowest[1]), int(lowest[2])):
            findings.fail(
                "python",
                f"broker_python is Python {version[0]}.{version[1]}, and {wheel.name} needs {lowest[1]}.{lowest[2]} "
                "or later: install one, "
                "and set broker_python to its path.",
                host.name,
            )


def python_of(host: Host) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", (host.answer or {}).get("python", {}).get("version") or "")
    return (int(found[1]), int(found[2])) if host.used and found else None


def fits(wheel: Path, version: tuple[int, int], architecture: str) -> bool:
    """Whether the tags of a wheel's name are for this Python and this machine (PEP 425)."""
    python, abi, platform = wheel.stem.split("-")[-3:]
    major, minor = version
    tags = python.split(".")
    if abi == "abi3":
        right = any((m := re.fullmatch(r"cp(\d)(\d+)", tag)) and (int(m[1]), int(m[2])) <= version for tag in tags)
    else:
        right = any(tag in (f"cp{major}{minor}", f"py{major}", f"py{major}{minor}") for tag in tags)
    return right and any(tag == "any" or tag.endswith(f"_{architecture}") for tag in platform.split("."))


def check_tags(mine: list[Path], wheels: list[Path], hosts: list[Host], findings: Findings) -> None:
    """Each distribution of the wheelhouse needs a wheel that each host can install."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in wheels:
        if not path.name.startswith("broker_cy-"):
            by_name[path.name.split("-")[0].lower()].append(path)
    lacking: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        version = python_of(host)
        if version is None or host.answer is None:
            continue
        machine = host.answer["architecture"]
        for name, paths in (("broker_cy", mine), *sorted(by_name.items())):
            if not any(fits(path, version, machine) for path in paths):
                lacking[f"Python {version[0]}.{version[1]} on {machine}"].append(f"{name}\0{host.name}")
    for what, pairs in lacking.items():
        names = sorted({pair.split("\0")[0] for pair in pairs})
        on = sorted({pair.split("\0")[1] for pair in pairs})
        # A pure dependency that is only for another Python may be absent on purpose; the broker itself must not.
        report = findings.fail if "broker_cy" in names else findings.warn
        report(
            "wheelhouse",
            f"the wheelhouse has no wheel of {listed(names)} for {what}: {BUILD} for this Python as well.",
            *on,
        )
