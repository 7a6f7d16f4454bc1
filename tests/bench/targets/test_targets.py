"""Targets that do not start are reported soon, and no process is left."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from bench.launch import nodes
from bench.launch.nodes import Node
from bench.targets import brokers
from bench.targets.brokers import Spawned, TargetError
from bench.wire import protocol
from tests.bench.planned import Clock


class Odd(Node):
    """A program that is not a broker."""

    name = "odd"
    program = ""

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program]


class OddTarget(Spawned):
    name = "odd"

    def __init__(self, directory: Path) -> None:
        super().__init__(Odd(directory / "outputs", data_dir=directory / "data"))


@pytest.mark.parametrize(
    ("program", "timeout_s", "reported"),
    [
        ("import time; time.sleep(60)", 0.5, r"odd was not ready within 0.5 s: no output"),
        # Until it has printed its address, real time passes; then the time of `brokers`, a second for each check.
        ("import time; print('at 127.0.0.1:1', flush=True); time.sleep(60)", 60.0, "odd did not answer within 60 s"),
        (
            "import sys; print('no such disk', file=sys.stderr)",
            30.0,
            "odd ended with exit code 0 before it was ready: no such disk",
        ),
    ],
)
def test_a_target_that_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, timeout_s: float, reported: str
) -> None:
    """A broker that never answers is reported with its last output; its process is ended."""
    monkeypatch.setattr(Odd, "program", program)
    monkeypatch.setattr(brokers, "START_TIMEOUT_S", timeout_s)
    monkeypatch.setattr(brokers, "time", Clock(least_s=1.0))
    target = OddTarget(tmp_path)
    with pytest.raises(TargetError, match=reported), target.running():
        pytest.fail("it never answered")
    assert not target.alive()
    assert not target.directory.exists()


def test_a_port_that_was_taken_meanwhile_is_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker does not start because another program took the port that was free a moment before."""
    free = nodes.free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([[taken.getsockname()[1]], free])
        monkeypatch.setattr(nodes, "free_ports", lambda count: next(ports))
        node = nodes.BrokerCy(tmp_path / "outputs").start()
        try:
            assert [node.port] == free
        finally:
            node.kill()


def test_free_ports_are_not_those_of_outgoing_connections() -> None:
    """If this fails, a connection of another program may take the port of a broker that restarts."""
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < max(first_outgoing, nodes.PORTS_FROM + nodes.PORTS_LEAST) for port in nodes.free_ports(50))


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the port of a broker that restarts is given to another one, of this or of another process."""
    monkeypatch.setattr(nodes._Share, "given", set())
    given: list[int] = []
    for index in (0, 1):
        monkeypatch.setattr(nodes._Share, "index", index)
        monkeypatch.setattr(nodes._Share, "count", 2)
        given += [port for _ in range(5) for port in nodes.free_ports(50)]
    assert len(set(given)) == len(given) == 500
    assert {port % 2 for port in given[:250]} != {port % 2 for port in given[250:]}


def test_a_log_that_is_recovered_has_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A normal start takes less than 30 s; after kill -9 with a large log it may take minutes, which is the measured
    figure.
    """
    monkeypatch.setattr(brokers, "RECOVERY_TIMEOUT_S", 0.7)
    monkeypatch.setattr(Odd, "program", "import time; time.sleep(60)")
    target = OddTarget(tmp_path)
    (target.directory / "t-0").mkdir(parents=True)
    (target.directory / "t-0" / "00000000000000000000.log").touch()
    with pytest.raises(TargetError, match=r"within 0\.7 s"):
        target.start()


def test_a_record_goes_to_the_leader_of_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If this fails, a study of a cluster that elects leaders while it settles ends without figures."""
    old, new = ("127.0.0.1", 1), ("127.0.0.1", 2)
    asked: list[brokers.Address] = []

    class Client:
        def __init__(self, address: brokers.Address) -> None:
            self.address = address

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def produce_when_ready(self, template: protocol.Template, timeout_s: float) -> int:
            asked.append(self.address)
            if self.address == old:
                raise protocol.ProtocolError("error 6")
            return 7 + template.partitions[0]

    class Moving(brokers.Target):
        def leaders(self, topic: str, partitions: int) -> dict[int, brokers.Address]:
            return {0: new, 1: new if old in asked else old}

    monkeypatch.setattr(protocol, "Client", Client)
    assert Moving(tmp_path).probe("t", 2) == {0: 7, 1: 8}
    assert asked == [new, old, new]
