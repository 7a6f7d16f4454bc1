"""Test hosts on this machine, as root: servers with systemd and sshd, a network and disks of their own.

    python -m tests.deploy.lab --name NAME up 3        makes and starts n1 to n3; prints the inventory
    python -m tests.deploy.lab --name NAME ssh n1 CMD  runs a command there as the user deploy, who may use sudo
    python -m tests.deploy.lab --name NAME ctl CMD     runs a command of this machine on the lab's network
    ... ls | inventory [GROUP=n1,n2 ...] | stop n1 | kill n1 | start n1 | wipe n1 | freeze n1 | thaw n1 | unplug n1
    ... plug n1 | cut n1 n2 [--oneway] | heal | destroy

Hosts have the addresses 10.66.0.11 (n1) and on, and reach each other and the control node (10.66.0.1), nothing else.
Each lab has its own switch, so that labs with different names do not see each other. `kill` is a power cut but for the
page cache, which the machine keeps; `wipe` is the loss of a machine with its disks, and the next `start` or `up` makes
a new one in its place; `freeze` is a machine that hangs. Settings of the kernel outside of the network are those of
this machine.

Files are below $BROKER_CY_LAB_DIRECTORY (/var/tmp/lab-deploy): the bases, which all labs share, and a directory for
each lab.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.deploy.base import LabError, base, do, key, locked, missing
from tests.deploy.host import CONTROL, Host, Shape, allow_watches, names_file, number, restore_watches

REPOSITORY = Path(__file__).resolve().parents[2]
UP_S, COMMAND_S, POLL_S = 60.0, 600.0, 0.1
ONE_HOST = ("start", "stop", "kill", "wipe", "freeze", "thaw", "unplug", "plug")


class Lab:
    """The hosts with one name, whether they run or not."""

    def __init__(self, name: str, root: Path | None = None) -> None:
        if not name.isalnum() or not 1 <= len(name) <= 20:
            # Interfaces, namespaces and control groups contain this name.
            raise LabError(f"{name!r}: the name of a lab has 1 to 20 letters and digits")
        self.name = name
        self.root = root or Path(os.environ.get("BROKER_CY_LAB_DIRECTORY", "/var/tmp/lab-deploy"))
        self.directory = self.root / f"lab-{name}"
        self.switch = f"lab-{name}"

    def host(self, name: str) -> Host:
        """A host by its name; it may not exist yet."""
        return Host(self.root, self.directory, self.name, name)

    @property
    def hosts(self) -> list[Host]:
        """The existing hosts, by their numbers."""
        found = [path.name for path in self.directory.glob("n[0-9]*") if path.is_dir()]
        return [self.host(name) for name in sorted(found, key=number)]

    @property
    def shape(self) -> Shape:
        """The sizes and packages of new hosts."""
        file = self.directory / "shape.json"
        if not file.exists():
            return Shape()
        known: dict[str, Any] = json.loads(file.read_text())
        return Shape(**{**known, "packages": tuple(known["packages"])})

    def up(self, count: int, shape: Shape | None = None) -> None:
        """Create and start n1 to n`count`, and wait until each accepts logins."""
        self._prepare(shape or self.shape)
        names = [f"n{each}" for each in range(1, count + 1)]
        for name in names:
            self._switch_on(self.host(name))
        self.wait(names)
        if not self.inventory.exists():
            self.write_inventory()

    def start(self, name: str) -> None:
        """Start a host, or create a new one in place of a wiped one; waits until it accepts logins."""
        self._prepare(self.shape)
        self._switch_on(self.host(name))
        self.wait([name])

    def _prepare(self, shape: Shape) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "shape.json").write_text(json.dumps(asdict(shape)))
        allow_watches(self.root)
        with locked(self.directory / "lock"):
            if Path("/run/netns", self.switch).exists():
                return
            do("ip", "netns", "add", self.switch)
            for words in (
                "link set lo up",
                "link add br0 address 02:00:00:66:00:fe type bridge",
                f"addr add {CONTROL}/24 dev br0",
                "link set br0 up",
            ):
                do("ip", "-n", self.switch, *words.split())
            do(
                *self.ctl(
                    "nft", "add table bridge lab; add chain bridge lab wire { type filter hook forward priority 0; }"
                )
            )
            # `ip netns exec` mounts these files over those of /etc.
            names = Path("/etc/netns", self.switch)
            names.mkdir(parents=True, exist_ok=True)
            (names / "hosts").write_text(names_file("control"))

    def _switch_on(self, host: Host) -> None:
        if not host.exists:
            host.create(self.shape)
        self._forget(host)
        host.power_on(base(self.root, self.shape.suite, self.shape.packages))

    def wait(self, names: Sequence[str]) -> None:
        """Wait until these hosts accept logins and all their units have been started."""
        for name in names:
            deadline = time.monotonic() + UP_S
            while self.ssh(name, "systemctl is-system-running --wait", check=False).returncode not in (0, 1):
                if time.monotonic() > deadline:
                    console = self.host(name).directory / "console.log"
                    raise LabError(
                        f"{name} lets nobody in after {UP_S:g} s: {console.read_text(errors='replace')[-1500:]}"
                    )
                time.sleep(POLL_S)

    def ctl(self, *words: str | Path) -> list[str]:
        """The command line that runs a command of this machine on the lab's network."""
        return ["ip", "netns", "exec", self.switch, *map(str, words)]

    def _ssh_options(self) -> list[str]:
        # Recreated hosts have the same addresses but other keys.
        wanted = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": "3",
            "ServerAliveInterval": "3",
            "ServerAliveCountMax": "3",
        }
        return [part for name, value in wanted.items() for part in ("-o", f"{name}={value}")]

    def ssh_argv(self, name: str, *words: str) -> list[str]:
        """The command line that runs a command on a host."""
        login = f"deploy@{self.host(name).address}"
        return self.ctl("ssh", "-n", "-i", key(self.root), *self._ssh_options(), login, *words)

    def ssh(
        self, name: str, command: str, *, check: bool = True, timeout_s: float = COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host to its end. Raises LabError with its output if it fails and `check` is set."""
        argv = self.ssh_argv(name, command)
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"{name}: {command[:200]}: still running after {timeout_s:g} s") from None
        if check and done.returncode != 0:
            raise LabError(
                f"{name}: {command[:200]}: exit code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done

    def stop(self, name: str) -> None:
        """Shut a host down cleanly."""
        self.host(name).stop()
        self._forget(self.host(name))

    def kill(self, name: str) -> None:
        """Cut the power of a host."""
        self.host(name).kill()
        self._forget(self.host(name))

    def wipe(self, name: str) -> None:
        """Lose a host with its disks."""
        self.host(name).remove()
        self._forget(self.host(name))

    def cut(self, one: str, other: str, *, oneway: bool = False) -> None:
        """Drop all packets from one host to the other, and back unless `oneway` is set."""
        for source, target in ((one, other), (other, one))[: 1 if oneway else 2]:
            rule = f"iifname {self.host(source).port} oifname {self.host(target).port} drop"
            do(*self.ctl("nft", f"add rule bridge lab wire {rule}"))

    def heal(self) -> None:
        """Undo each `cut`."""
        do(*self.ctl("nft", "flush chain bridge lab wire"))

    def destroy(self) -> None:
        """Kill the hosts, and remove the network and the files of this lab. The bases stay."""
        for host in self.hosts:
            host.remove()
        for socket in self._sockets().glob("*"):
            self._leave(socket)
        if Path("/run/netns", self.switch).exists():
            do("ip", "netns", "del", self.switch)
        shutil.rmtree(Path("/etc/netns", self.switch), ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        restore_watches(self.root)

    # Ansible needs these variables.

    @property
    def wheelhouse(self) -> Path:
        """The directory of this tree's wheels; wheels.py builds them."""
        return self.root / f"wheelhouse-{hashlib.sha256(str(REPOSITORY).encode()).hexdigest()[:8]}"

    @property
    def inventory(self) -> Path:
        """The inventory file; playbooks generate secrets into the same directory."""
        return self.directory / "inventory" / "hosts.yml"

    def _sockets(self) -> Path:
        return self.directory / "cp"

    def _forget(self, host: Host) -> None:
        """Close the connection that Ansible keeps open: the next host with this address does not know it."""
        socket = self._sockets() / host.address
        if socket.exists():
            self._leave(socket)

    def _leave(self, socket: Path) -> None:
        argv = self.ctl("ssh", "-O", "exit", "-o", f"ControlPath={socket}", "deploy@lab")
        subprocess.run(argv, capture_output=True, timeout=20, check=False)
        socket.unlink(missing_ok=True)

    def write_inventory(
        self,
        groups: Mapping[str, Sequence[str]] | None = None,
        variables: Mapping[str, Any] | None = None,
        host_variables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Path:
        """Write the inventory and return its path: groups with their hosts (by default, all hosts are brokers),
        variables of all hosts, and of single ones. A broker's node id is its number, and each broker has its own rack.
        """
        known = [host.name for host in self.hosts]
        groups = dict(groups or {"brokers": known})
        self._sockets().mkdir(exist_ok=True)
        everywhere = {
            "ansible_user": "deploy",
            "ansible_ssh_private_key_file": str(key(self.root)),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_common_args": " ".join(self._ssh_options()),
            # Not the default, because labs have the same addresses.
            "ansible_control_path": f"{self._sockets()}/%%h",
            "broker_wheelhouse": str(self.wheelhouse),
            # A lab's disks are small.
            "preflight_min_free_mb": 512,
            # Outside of the network, the settings of the kernel are the machine's own.
            "os_tuning_memory": False,
            "os_tuning_huge_pages": False,
            "os_tuning_read_ahead": False,
            **(variables or {}),
        }
        children: dict[str, Any] = {}
        for group, names in groups.items():
            children[group] = {"hosts": {name: {} for name in names}}
        hosts: dict[str, Any] = {}
        for name in sorted({name for names in groups.values() for name in names}, key=number):
            hosts[name] = {"ansible_host": self.host(name).address}
            if name in groups.get("brokers", ()):
                hosts[name] |= {"broker_node_id": number(name), "broker_rack": f"rack-{number(name)}"}
            hosts[name] |= dict((host_variables or {}).get(name, {}))
        self.inventory.parent.mkdir(exist_ok=True)
        # JSON is YAML.
        whole = {"all": {"vars": everywhere, "hosts": hosts, "children": children}}
        self.inventory.write_text("---\n" + json.dumps(whole, indent=2) + "\n")
        return self.inventory

    def environment(self) -> dict[str, str]:
        """Environment variables for a command of the control node: this environment's programs come first in PATH."""
        return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "ANSIBLE_FORKS": "10"}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.deploy.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", default="lab", help="which lab; several run side by side (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="make and start n1 to nCOUNT")
    up.add_argument("count", type=int, nargs="?", default=3)
    up.add_argument("--suite", help="a release of Debian (default: bookworm)")
    up.add_argument("--disk", help="the size of each new data disk (default: 2G)")
    up.add_argument("--blank", help="the size of a second disk /dev/vdb without a file system (default: none)")
    up.add_argument("--blanks", type=int, help="how many such disks: /dev/vdb, /dev/vdc and on (default: 1)")
    up.add_argument("--packages", help="further packages of the base, with commas between them")
    for name in ONE_HOST:
        commands.add_parser(name).add_argument("host")
    cut = commands.add_parser("cut", help="let nothing through between two hosts")
    cut.add_argument("host")
    cut.add_argument("other")
    cut.add_argument("--oneway", action="store_true")
    for name in ("ssh", "ctl"):
        command = commands.add_parser(name)
        if name == "ssh":
            command.add_argument("host")
        command.add_argument("words", nargs=argparse.REMAINDER)
    inventory = commands.add_parser("inventory", help="print the path of the inventory; with groups, write it first")
    inventory.add_argument("groups", nargs="*", metavar="GROUP=HOST,HOST")
    for name in ("ls", "heal", "destroy", "base"):
        commands.add_parser(name)
    return parser.parse_args(argv)


def _run(lab: Lab, given: argparse.Namespace) -> int:
    command: str = given.command
    if command == "up":
        wanted = {name: getattr(given, name) for name in ("suite", "disk", "blank", "blanks") if getattr(given, name)}
        if given.packages:
            wanted["packages"] = tuple(given.packages.split(","))
        lab.up(given.count, replace(lab.shape, **wanted))
        print(lab.inventory)
    elif command in ("start", "stop", "kill", "wipe"):
        getattr(lab, command)(given.host)
    elif command in ("freeze", "thaw"):
        lab.host(given.host).freeze(command == "freeze")
    elif command in ("unplug", "plug"):
        lab.host(given.host).plug(command == "plug")
    elif command == "cut":
        lab.cut(given.host, given.other, oneway=given.oneway)
    elif command in ("heal", "destroy"):
        getattr(lab, command)()
    elif command == "base":
        print(base(lab.root, lab.shape.suite, lab.shape.packages))
    elif command == "inventory":
        if given.groups:
            parted = (each.partition("=") for each in given.groups)
            lab.write_inventory({group: names.split(",") for group, _, names in parted})
        print(lab.inventory)
    elif command == "ls":
        for host in lab.hosts:
            print(host.name, host.address, "runs" if host.running else "is off")
    else:
        argv = lab.ssh_argv(given.host, *given.words) if command == "ssh" else lab.ctl(*given.words)
        os.execvpe(argv[0], argv, lab.environment())
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    given = _arguments(argv)
    try:
        reason = missing()
        if reason:
            raise LabError(reason)
        return _run(Lab(given.name), given)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
