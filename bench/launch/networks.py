"""Separate hosts for the nodes of a cluster on one machine: network namespaces on one bridge.

A connection between two of them can be cut in one direction or in both, and no packet reports it to either side: the
sender keeps its connections and gets no answers. This needs root and iproute2; `missing` says what is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Final

from broker_cy.launch.processes import ProcessError, run

# A network that no machine should use: TEST-NET-2 is for documentation (RFC 5737).
PREFIX: Final = "198.51.100"
HOSTS_MAX: Final = 9
COMMAND_S: Final = 20.0
# The burst size of a limited link, and the time that a packet is queued for it before others are dropped.
BURST: Final = "256k"
QUEUE: Final = "20ms"
# An unused address on the bridge: packets to it are lost.
NOBODY: Final = "02:00:00:00:00:fe"


def missing() -> str | None:
    """Return a sentence about missing requirements for separate hosts; None if nothing is missing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need ip (Debian: apt-get install iproute2)"
    try:
        with made(1):
            return None
    except ProcessError as error:
        return f"network namespaces cannot be made here: {str(error)[:200]}"


def _ip(*words: str) -> None:
    run(["ip", *words], timeout_s=COMMAND_S)


class Network:
    """Hosts 0 to `count` - 1, and this machine, which reaches all of them. `link_bits_per_s` limits the link of each
    host in each direction.
    """

    def __init__(self, count: int, link_bits_per_s: int = 0) -> None:
        # Linux allows 15 characters for the name of an interface.
        self._name = f"bb{os.getpid() % 10**7}"
        self.hosts = [f"{PREFIX}.{number}" for number in range(1, count + 1)]
        self.link_bits_per_s = link_bits_per_s

    def _space(self, number: int) -> str:
        return f"{self._name}-{number}"

    def wrapper(self, number: int) -> Sequence[str]:
        """Return the prefix of a command line that runs it on the host."""
        # `ip netns exec` would also create a mount namespace.
        return ["nsenter", f"--net=/run/netns/{self._space(number)}", "--"]

    def make(self) -> None:
        """Create bridge and hosts. Raises ProcessError."""
        _ip("link", "add", self._name, "type", "bridge")
        _ip("addr", "add", f"{PREFIX}.254/24", "dev", self._name)
        _ip("link", "set", self._name, "up")
        for number, host in enumerate(self.hosts):
            space, outside = self._space(number), f"{self._name}v{number}"
            _ip("netns", "add", space)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outside, "master", self._name, "up")
            _ip("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            if self.link_bits_per_s:
                limit = f"root tbf rate {self.link_bits_per_s}bit burst {BURST} latency {QUEUE}".split()
                run(["tc", "qdisc", "add", "dev", outside, *limit], timeout_s=COMMAND_S)
                run([*self.wrapper(number), "tc", "qdisc", "add", "dev", "eth0", *limit], timeout_s=COMMAND_S)

    def remove(self) -> None:
        """Remove everything that was created."""
        for number in range(len(self.hosts)):
            run(["ip", "netns", "del", self._space(number)], timeout_s=COMMAND_S, check=False)
        run(["ip", "link", "del", self._name], timeout_s=COMMAND_S, check=False)

    def cut(self, sender: int, receiver: int) -> None:
        """Drop all packets from host `sender` to host `receiver`; the other direction still works."""
        neighbour = ("neigh", "replace", self.hosts[receiver], "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")
        _ip("-n", self._space(sender), *neighbour)

    def heal(self, sender: int, receiver: int) -> None:
        """End a `cut`."""
        _ip("-n", self._space(sender), "neigh", "del", self.hosts[receiver], "dev", "eth0")


@contextlib.contextmanager
def made(count: int, link_bits_per_s: int = 0) -> Iterator[Network]:
    """Create a network of `count` hosts, and remove it at the end. Raises ProcessError."""
    if not 0 < count <= HOSTS_MAX:
        raise ValueError(f"{count} hosts (allowed: 1 to {HOSTS_MAX})")
    network = Network(count, link_bits_per_s)
    try:
        network.make()
        yield network
    finally:
        network.remove()
