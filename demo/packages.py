"""The records of the demo: the packages that are installed on this machine, from the indexes of Debian and Python.
Nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

DPKG_STATUS = Path("/var/lib/dpkg/status")
# A machine may have tens of thousands; more do not make the demo livelier.
PACKAGES_MAX = 5_000
_SUMMARY_MAX = 200
_DEPENDENCIES_MAX = 20


@dataclass(frozen=True, slots=True)
class Package:
    """A package in an index. `size_kb` is 0 if the index has none."""

    name: str
    version: str
    source: str
    section: str
    size_kb: int
    summary: str
    homepage: str
    dependencies: tuple[str, ...]

    @property
    def key(self) -> bytes:
        return f"{self.source}/{self.name}".encode()

    def record(self, number: int, **more: object) -> bytes:
        """Return the value of its record as JSON, with a number, because each package is written many times."""
        return json.dumps({**asdict(self), "number": number, **more}, ensure_ascii=False).encode()


def packages(status: Path = DPKG_STATUS) -> list[Package]:
    """Return Debian's packages, if there are any, and those of this Python; sorted by name, each once."""
    found = {each.key: each for each in (*debian(status), *python())}
    return sorted(found.values(), key=lambda each: (each.name, each.source))[:PACKAGES_MAX]


def debian(status: Path) -> Iterator[Package]:
    """Read dpkg's status file: paragraphs of `Name: value` lines; a line that begins with a blank continues one."""
    try:
        text = status.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line[0].isspace():
                fields[name] = value.strip()
        if "Package" in fields:
            size = fields.get("Installed-Size", "")
            yield Package(
                fields["Package"],
                fields.get("Version", ""),
                "debian",
                fields.get("Section", ""),
                int(size) if size.isdecimal() else 0,
                fields.get("Description", "")[:_SUMMARY_MAX],
                fields.get("Homepage", ""),
                _names(fields.get("Depends", "").split(",")),
            )


def python() -> Iterator[Package]:
    """Yield the distributions of this interpreter."""
    for each in metadata.distributions():
        about = each.metadata
        name = about["Name"]
        if name:
            yield Package(
                name,
                about["Version"] or "",
                "python",
                "python",
                0,
                (about["Summary"] or "")[:_SUMMARY_MAX],
                about["Home-page"] or "",
                _names(each.requires or []),
            )


def _names(requirements: list[str]) -> tuple[str, ...]:
    """Return the first word of each requirement."""
    words = (text.replace(";", " ").replace("(", " ").split() for text in requirements[:_DEPENDENCIES_MAX])
    return tuple(each[0] for each in words if each)
