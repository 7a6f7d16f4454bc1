"""Shared helpers of the tests of the preflight: three sound brokers on this machine, a wheelhouse, and the judge."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import socket
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker_cy.launch.processes import run
from tests.deploy.lab import REPOSITORY

COLLECTION = REPOSITORY / "deploy" / "ansible"
ROLES = COLLECTION / "roles"
VERSION = "1.2.3"
PORTS = ("client", "internal", "controller", "metrics")
# Checks of the machine itself: the one that runs the tests is not a server.
OF_THE_MACHINE = ["os", "root", "systemd", "memory", "disk_space", "clock_synchronised", "log_directories", "python"]
PLAY_S = 120.0


def judge() -> Any:
    """The role's module `judge`, which the control node runs as a program."""
    directory = str(ROLES / "preflight" / "files")
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return importlib.import_module("preflight_judge")


def wheel(directory: Path, name: str, requires_python: str = ">=3.11") -> Path:
    """A wheel that is read and never installed; a wheel of the broker contains its tables of settings."""
    path = directory / name
    distribution = "-".join(name.split("-")[:2])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{distribution}.dist-info/METADATA", f"Name: broker-cy\nRequires-Python: {requires_python}\n")
        for table in ("broker_configs.tsv", "own_configs.tsv") if distribution.startswith("broker_cy-") else ():
            archive.write(REPOSITORY / "broker_cy" / "config" / table, f"broker_cy/config/{table}")
    return path


def wheelhouse(directory: Path, python: tuple[int, int] = sys.version_info[:2], version: str = VERSION) -> Path:
    """A wheelhouse with the broker for one version of Python, and one dependency for all versions."""
    directory.mkdir(exist_ok=True)
    tag = f"cp{python[0]}{python[1]}"
    wheel(directory, f"broker_cy-{version}-{tag}-{tag}-linux_{platform.machine()}.whl")
    wheel(directory, "needed-1.0-py3-none-any.whl")
    write_sums(directory)
    return directory


def write_sums(directory: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(directory.glob("*.whl"))
    ]
    (directory / "SHA256SUMS").write_text("".join(lines))


def free_ports(count: int) -> list[int]:
    """Free ports."""
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def local_inventory(directory: Path) -> dict[str, Any]:
    """Three brokers without faults, all on this machine with different addresses and ports."""
    ports = free_ports(3 * len(PORTS))
    hosts = {
        f"n{number}": {
            "broker_node_id": number,
            "broker_address": f"127.0.0.{number + 1}",
            **{f"broker_{what}_port": ports.pop() for what in PORTS},
        }
        for number in (1, 2, 3)
    }
    everywhere = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "preflight_python": sys.executable,
        "preflight_skip": [*OF_THE_MACHINE],
        "broker_python": sys.executable,
        "broker_version": VERSION,
        "broker_wheelhouse": str(wheelhouse(directory / "wheelhouse")),
        "broker_log_dirs": [str(directory / "logs")],
    }
    return {"all": {"vars": everywhere, "children": {"brokers": {"hosts": hosts}}}}


def brokers(inventory: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The brokers' variables, to be changed."""
    hosts: dict[str, dict[str, Any]] = inventory["all"]["children"]["brokers"]["hosts"]
    return hosts


@dataclass(frozen=True)
class Played:
    """The output and exit code of ansible-playbook, and whether the play after the preflight changed the hosts."""

    code: int
    output: str
    changed: bool

    def says(self, *parts: str) -> bool:
        """Whether one line of the report contains all of these texts."""
        return any(all(part in line for part in parts) for line in self.output.splitlines())


def play_here(directory: Path, inventory: Mapping[str, Any], *arguments: str) -> Played:
    """Run the preflight and, as site.yml does, a play after it that changes hosts."""
    marker = directory / "changed"
    (directory / "hosts.json").write_text(json.dumps(inventory))
    after = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.copy": {"dest": str(marker), "content": "x", "mode": "0600"}}],
    }
    first = {"ansible.builtin.import_playbook": str(COLLECTION / "playbooks" / "preflight.yml")}
    (directory / "site.yml").write_text(json.dumps([first, after]))
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(COLLECTION / "ansible.cfg"),
        "ANSIBLE_HOME": str(directory / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    argv: list[str | Path] = ["ansible-playbook", "-i", directory / "hosts.json", directory / "site.yml", *arguments]
    done = run(argv, timeout_s=PLAY_S, check=False, env=environment, cwd=directory)
    return Played(done.returncode, (done.stdout + done.stderr).decode(errors="replace"), marker.exists())
