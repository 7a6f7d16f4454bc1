"""Hosts with their own address, disk and clock, and a switch whose ports and cables can fail.

The process that makes a Lab has to be in a separate network namespace: it is also on the switch, as the clients' host.
The networks of bench.launch.networks are the machine's own, and can only drop packets from one host to another: they
have neither a switch with rules and slow links, nor disks, nor clocks.
"""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Final

from broker_cy.launch.processes import Child, run
from tests.lab import clock
from tests.support import small_disk
from tests.support.small_disk import SmallDisk
from tests.support.wait import until

CLIENTS: Final = 0
"""The number of the clients' host; the others are numbered from 1 on."""
# Addresses of the tests' network, which is invisible from outside.
NETWORK: Final = "10.77.0"
DISK_BYTES: Final = 256 << 20
# tbf's burst, at least one frame, and the longest time that a frame waits in its queue before others are dropped.
BURST: Final = "8k"
QUEUE: Final = "400ms"
# Runs a command in network and mount namespaces that end with it.
UNSHARE: Final = ("unshare", "-n", "-m", "--propagation", "private")
TOOLS: Final = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}


def why_not() -> str | None:
    """None if a lab can be made on this machine, else the reason."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            return f"there is no {tool} (Debian package {package})"
    if clock.compiler() is None:
        return "there is no C compiler (Debian package gcc)"
    if (reason := small_disk.why_not()) is not None:
        return reason
    script = (
        "ip link add br0 type bridge && ip link add port1 type veth peer name eth0 && tc qdisc add dev eth0 root tbf "
        f"rate 1mbit burst {BURST} latency {QUEUE} && nft 'add table bridge lab; add chain bridge lab wire "
        "{ type filter hook forward priority 0; }'"
    )
    made = run([*UNSHARE, "sh", "-c", script], check=False)
    return None if made.returncode == 0 else f"this kernel cannot make the network: {made.stderr.decode().strip()}"


def address(number: int) -> str:
    return f"{NETWORK}.{10 + number}"


class Host:
    """One host; processes started with `wrapper` are on it."""

    def __init__(self, directory: Path, number: int, library: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.number = number
        self.address = address(number)
        self.disk = SmallDisk(directory, DISK_BYTES, network=True)
        self.clock = clock.HostClock(library, directory / "clock")
        self.wrapper = [*self.disk.wrapper, *self.clock.wrapper]


class Lab:
    """`count` hosts with the numbers from 1 on, and the switch between them and this process."""

    def __init__(self, directory: Path, count: int) -> None:
        assert "eth0" not in {name for _, name in socket.if_nameindex()}, "not in a network of its own"
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._switch = Child(["unshare", "-n", "sh", "-c", "echo made && exec sleep infinity"], directory, "switch")
        until(lambda: "made" in self._switch.stdout(), "the switch")
        self._on_switch(["ip", "link", "add", "br0", "type", "bridge"])
        self._on_switch(["ip", "link", "set", "br0", "up"])
        self._on_switch(
            ["nft", "add table bridge lab; add chain bridge lab wire { type filter hook forward priority 0; }"]
        )
        library = clock.built(directory)
        run(["ip", "link", "set", "lo", "up"])
        self._connect(CLIENTS, None)
        self.hosts = {number: Host(directory / f"host-{number}", number, library) for number in range(1, count + 1)}
        for host in self.hosts.values():
            run([*host.disk.wrapper, "ip", "link", "set", "lo", "up"])
            self._connect(host.number, host)

    def _on_switch(self, command: list[str]) -> None:
        run(["nsenter", "-t", str(self._switch.pid), "-n", "--", *command])

    def _connect(self, number: int, host: Host | None) -> None:
        """Connect a port of the switch with a cable to a host, or to this process."""
        own = ["netns", str(host.disk.pid)] if host else []
        port = ["netns", str(self._switch.pid)]
        run(["ip", "link", "add", f"port{number}", *port, "type", "veth", "peer", "name", "eth0", *own])
        prefix = host.disk.wrapper if host else []
        run([*prefix, "ip", "address", "add", f"{address(number)}/24", "dev", "eth0"])
        run([*prefix, "ip", "link", "set", "eth0", "up"])
        self._on_switch(["ip", "link", "set", f"port{number}", "master", "br0", "up"])

    def unplug(self, number: int) -> None:
        """Pull the cable of a host out of the switch."""
        self._on_switch(["ip", "link", "set", f"port{number}", "down"])

    def plug(self, number: int) -> None:
        self._on_switch(["ip", "link", "set", f"port{number}", "up"])

    def drop(self, sender: int, receiver: int) -> None:
        """Make the switch drop all frames from one host to another, until `pass_all`."""
        rule = f"add rule bridge lab wire iifname port{sender} oifname port{receiver} drop"
        self._on_switch(["nft", rule])

    def pass_all(self) -> None:
        self._on_switch(["nft", "flush chain bridge lab wire"])

    def slow(self, number: int, kilobits: int) -> None:
        """Limit a host's link in both directions, in kilobits a second. Frames wait up to QUEUE; more are dropped."""
        limit = ["root", "tbf", "rate", f"{kilobits}kbit", "burst", BURST, "latency", QUEUE]
        self._on_switch(["tc", "qdisc", "replace", "dev", f"port{number}", *limit])
        run([*self.hosts[number].disk.wrapper, "tc", "qdisc", "replace", "dev", "eth0", *limit])

    def full_speed(self, number: int) -> None:
        self._on_switch(["tc", "qdisc", "del", "dev", f"port{number}", "root"])
        run([*self.hosts[number].disk.wrapper, "tc", "qdisc", "del", "dev", "eth0", "root"])

    def close(self) -> None:
        for host in self.hosts.values():
            host.disk.close()
        self._switch.kill()
