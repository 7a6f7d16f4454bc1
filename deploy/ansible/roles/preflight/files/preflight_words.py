"""Shared parts of the checks on the control node: the findings, and the hosts as the tasks describe them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GIB = 1 << 30
MIB = 1 << 20

# The groups of the inventory that playbooks use.
GROUPS = ("brokers", "dashboards", "registries", "mirrors", "streams", "analytics", "load_workers", "monitoring")
# The names of the checks for `preflight_skip`.
CHECKS = (
    "addresses",
    "answers",
    "architecture",
    "clock_difference",
    "clock_synchronised",
    "disk_space",
    "disks",
    "groups",
    "identity",
    "log_directories",
    "memory",
    "names",
    "node_ids",
    "os",
    "ports",
    "python",
    "racks",
    "reach",
    "root",
    "settings",
    "systemd",
    "types",
    "variables",
    "voters",
    "wheelhouse",
)


@dataclass(slots=True)
class Host:
    """A host of the inventory: its variables, and its answers if it is one of this play."""

    name: str
    groups: list[str]
    variables: dict[str, Any]
    # Variables with other prefixes than the roles'; only their names are known here.
    others: list[str] = field(default_factory=list)
    # The role's request: addresses, ports and directories with their defaults. None for hosts outside of the play.
    options: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    # The reason of a missing answer.
    error: str = ""
    tried: list[dict[str, Any]] = field(default_factory=list)
    resolved: dict[str, dict[str, Any]] = field(default_factory=dict)
    # The times at which the control node began to ask and had all answers, on its own clock.
    asked_between: tuple[float, float] = (0.0, 0.0)

    @property
    def broker(self) -> bool:
        return "brokers" in self.groups

    @property
    def used(self) -> bool:
        """Whether a release is installed there."""
        return any(group in GROUPS for group in self.groups)

    @property
    def voter(self) -> bool:
        return self.broker and truth(self.variables.get("broker_controller", True))

    @property
    def address(self) -> str:
        return str(self.variables.get("broker_address") or self.variables.get("ansible_host") or self.name)


@dataclass(slots=True)
class Findings:
    """The findings, in order, with their hosts. A check in `skip` only warns."""

    skip: frozenset[str] = frozenset()
    _failures: dict[str, list[str]] = field(default_factory=dict)
    _warnings: dict[str, list[str]] = field(default_factory=dict)

    def fail(self, check: str, message: str, *hosts: str) -> None:
        assert check in CHECKS, check
        if check in self.skip:
            self._warnings.setdefault(f"[{check}, skipped] {{}}{message}", []).extend(hosts)
        else:
            self._failures.setdefault(f"[{check}] {{}}{message}", []).extend(hosts)

    def warn(self, check: str, message: str, *hosts: str) -> None:
        assert check in CHECKS, check
        self._warnings.setdefault(f"[{check}] {{}}{message}", []).extend(hosts)

    @property
    def failures(self) -> list[str]:
        return _lines(self._failures)

    @property
    def warnings(self) -> list[str]:
        return _lines(self._warnings)


def _lines(found: dict[str, list[str]]) -> list[str]:
    """One line for a finding that is the same on several hosts."""
    return [
        text.replace("{}", f"{listed(list(dict.fromkeys(hosts)))}: " if hosts else "", 1)
        for text, hosts in found.items()
    ]


def truth(value: object) -> bool:
    """A variable as read by Ansible's `bool` filter: an inventory in the INI format has only texts."""
    return value is True or str(value).strip().lower() in ("true", "yes", "on", "1", "y", "t", "1.0")


def size(count: float) -> str:
    """A readable number of bytes: 512 MiB, 3.9 GiB."""
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
