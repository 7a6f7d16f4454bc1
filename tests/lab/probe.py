"""Each fault of the lab, seen from the hosts: `python -m tests.lab.probe DIRECTORY`, in a separate network namespace.

Raises AssertionError for a fault that has no effect, or that persists after it has been healed.
"""

from __future__ import annotations

import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker_cy.launch.processes import Child, run
from tests.lab.hosts import CLIENTS, Host, Lab, address
from tests.support.wait import until

PORT: Final = 7
WAIT_S: Final = 30.0
# Echoes datagrams over UDP.
ECHO: Final = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as own:
    own.bind((sys.argv[1], int(sys.argv[2])))
    print("bound", flush=True)
    while True:
        data, sender = own.recvfrom(2048)
        print(len(data), sender[0], flush=True)
        own.sendto(data, sender)
"""
# Sends one datagram and prints the reply that arrives within a second.
SEND: Final = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as own:
    own.settimeout(1)
    own.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
    try:
        print(own.recvfrom(2048)[0].decode())
    except TimeoutError:
        print("nothing")
"""


class Probe:
    """Two hosts that answer datagrams."""

    def __init__(self, directory: Path) -> None:
        self.lab = Lab(directory, 2)
        self.echoes = {number: self._echo(directory, host) for number, host in self.lab.hosts.items()}

    def _echo(self, directory: Path, host: Host) -> Child:
        command = [*host.disk.wrapper, sys.executable, "-c", ECHO, host.address, str(PORT)]
        child = Child(command, directory, f"echo-{host.number}")
        until(lambda: "bound" in child.stdout(), "the echo", WAIT_S)
        return child

    def answers(self, sender: int, receiver: int) -> bool:
        """Whether a datagram gets a reply."""
        wrapper = self.lab.hosts[sender].disk.wrapper if sender != CLIENTS else []
        done = run([*wrapper, sys.executable, "-c", SEND, address(receiver), str(PORT)], timeout_s=WAIT_S, check=False)
        return done.stdout == b"x\n"

    def arrived(self, sender: int, receiver: int) -> int:
        """The number of datagrams from one host that have arrived at another."""
        return self.echoes[receiver].stdout().count(address(sender))

    def all_answer(self) -> None:
        until(lambda: all(self.answers(*pair) for pair in ((CLIENTS, 1), (1, 2), (2, 1))), "all answers", WAIT_S)

    def network(self) -> None:
        lab = self.lab
        self.all_answer()
        lab.drop(1, 2)
        before = self.arrived(2, 1)
        assert not self.answers(1, 2)
        assert not self.answers(2, 1)
        # Datagrams from host 2 still arrive: only one direction is cut.
        assert self.arrived(2, 1) > before
        assert self.answers(CLIENTS, 1)
        lab.pass_all()
        self.all_answer()
        lab.unplug(1)
        assert not self.answers(CLIENTS, 1)
        assert self.answers(CLIENTS, 2)
        lab.plug(1)
        self.all_answer()

    def speed(self) -> None:
        """Time 32 datagrams of 1,000 bytes there and back: 4 s at 64 kbit/s, less the burst."""
        self.lab.slow(1, 64)
        slow_s = self._echoed()
        self.lab.full_speed(1)
        assert slow_s > 1.0, slow_s
        until(lambda: self._echoed() < slow_s / 2, "a quick link", WAIT_S)

    def _echoed(self) -> float:
        with socket.socket(type=socket.SOCK_DGRAM) as own:
            own.settimeout(WAIT_S)
            since_s = time.monotonic()
            for _ in range(32):
                own.sendto(bytes(1000), (address(1), PORT))
                own.recvfrom(2048)
        return time.monotonic() - since_s

    def disk(self) -> None:
        disk = self.lab.hosts[1].disk
        disk.fill()
        with suppress(OSError):
            (disk.view / "one").write_bytes(bytes(1))
            raise AssertionError("the disk is not full")
        disk.make_room()
        (disk.view / "one").write_bytes(bytes(1))

    def clock(self) -> None:
        """A process that prints its times follows the jumps of its host's clock, except for the monotonic one."""
        host = self.lab.hosts[1]
        loop = "import time\nwhile True: print(int(time.time()), int(time.monotonic()), flush=True); time.sleep(.01)"
        child = Child([*host.wrapper, sys.executable, "-c", loop], self.lab.directory, "clock")

        def ahead_s() -> tuple[int, int]:
            lines = child.stdout().splitlines()[:-1]
            wall, monotonic = map(int, lines[-1].split()) if lines else (0, 0)
            return round((wall - time.time()) / 100), round((monotonic - time.monotonic()) / 100)

        for offset_s in (0, 3600, -7200, 0):
            host.clock.shift(offset_s)
            until(lambda due=(offset_s // 100, 0): ahead_s() == due, f"a jump to {offset_s} s", WAIT_S)  # type: ignore[misc]
        child.kill()

    def close(self) -> None:
        for echo in self.echoes.values():
            echo.kill()
        self.lab.close()


def main() -> None:
    probe = Probe(Path(sys.argv[1]))
    try:
        probe.network()
        probe.speed()
        probe.disk()
        probe.clock()
    finally:
        probe.close()
    print("all faults act")


if __name__ == "__main__":
    main()
