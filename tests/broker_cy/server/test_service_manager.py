"""Notifications to systemd, without a broker: addresses, the watchdog's rules, and failures that must not matter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.server.service_manager import EXTENSION_S, ServiceManager

DEADLINE_S = 20.0


@pytest.fixture(params=["path", "abstract"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """(NOTIFY_SOCKET, the socket bound to it)"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.settimeout(DEADLINE_S)
        if request.param == "path":
            address = str(tmp_path / "notify")
            found.bind(address)
        else:
            address = f"@broker-cy-test-{os.getpid()}-{id(found)}"
            found.bind("\0" + address[1:])
        yield address, found


def pings(environment: dict[str, str]) -> list[str]:
    """Return the messages that are sent after READY within a few iterations of a loop."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        address = f"@broker-cy-pings-{os.getpid()}-{id(found)}"
        found.bind("\0" + address[1:])
        manager = ServiceManager({"NOTIFY_SOCKET": address, **environment}, MACHINE_CLOCK)

        async def run() -> None:
            manager.ready(asyncio.get_running_loop(), "ready")
            # Longer than the intervals below.
            await asyncio.sleep(0.05)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
        manager.close()
        found.setblocking(False)
        got = []
        with contextlib.suppress(BlockingIOError):
            while True:
                got.append(found.recv(4096).decode())
        assert got.pop(0) == "READY=1\nSTATUS=ready"
        return got


def test_notifications(listening: tuple[str, socket.socket]) -> None:
    address, found = listening
    manager = ServiceManager({"NOTIFY_SOCKET": address}, MACHINE_CLOCK)
    manager.loading(0)
    # Again immediately: too soon.
    manager.loading(1)
    manager.stopping()
    extension = f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1_000_000}"
    assert found.recv(4096).decode() == f"{extension}\nSTATUS=loading logs: 0 so far"
    assert found.recv(4096).decode() == f"STOPPING=1\n{extension}\nSTATUS=stopping"
    manager.close()
    manager.notify("READY=1")
    found.setblocking(False)
    with pytest.raises(BlockingIOError):
        found.recv(4096)


@pytest.mark.parametrize("is_named", [False, True])
def test_watchdog(is_named: bool) -> None:
    """If this fails, systemd restarts a healthy broker."""
    got = pings({"WATCHDOG_USEC": "10000", "WATCHDOG_PID": str(os.getpid()) if is_named else ""})
    assert len(got) >= 2
    assert set(got) == {"WATCHDOG=1"}


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "10000", "WATCHDOG_PID": "1"}],
)
def test_no_watchdog(environment: dict[str, str]) -> None:
    assert pings(environment) == []


def test_a_loop_that_is_stuck_sends_nothing() -> None:
    """The pings are sent by the loop, so that systemd notices if it hangs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        address = f"@broker-cy-stuck-{os.getpid()}"
        found.bind("\0" + address[1:])
        found.setblocking(False)
        manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "2000"}, MACHINE_CLOCK)
        loop = uvloop.new_event_loop()
        try:
            manager.ready(loop, "ready")
            assert [found.recv(4096), found.recv(4096)] == [b"READY=1\nSTATUS=ready", b"WATCHDOG=1"]
            # The loop does not run: nothing is sent, however long it takes.
            with pytest.raises(BlockingIOError):
                found.recv(4096)
            loop.run_until_complete(asyncio.sleep(0.02))
            assert found.recv(4096) == b"WATCHDOG=1"
        finally:
            manager.close()
            loop.close()


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "@broker-cy-nobody-listens", "/nonexistent/notify"])
def test_nobody_listens(address: str) -> None:
    """The broker runs without systemd, and continues if systemd no longer listens."""
    manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000"}, MACHINE_CLOCK)
    assert manager.is_active == (address[:1] in ("/", "@") and address != "")
    loop = uvloop.new_event_loop()
    try:
        manager.loading(1)
        manager.ready(loop, "ready")
        loop.run_until_complete(asyncio.sleep(0.005))
        manager.stopping()
    finally:
        manager.close()
        loop.close()


def test_a_full_socket_is_not_waited_for(listening: tuple[str, socket.socket]) -> None:
    """A service manager that reads nothing must not stop the loop."""
    address, _ = listening
    manager = ServiceManager({"NOTIFY_SOCKET": address}, MACHINE_CLOCK)
    for _ in range(2_000):
        manager.notify("STATUS=" + "x" * 1_000)
    manager.close()
