"""A real broker process under a service manager, which a datagram socket simulates."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess, target_is_kafka
from tests.support.shards import ShardedNode
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="Kafka does not notify systemd")
DEADLINE_S = 30.0


@pytest.fixture
def notifications(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        address = f"@broker-cy-e2e-{os.getpid()}"
        found.bind("\0" + address[1:])
        found.settimeout(DEADLINE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield found


def next_of(notifications: socket.socket, name: str) -> dict[str, str]:
    """Return the next notification with this variable."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        fields = dict(line.split("=", 1) for line in notifications.recv(4096).decode().splitlines())
        if name in fields:
            return fields
    raise TimeoutError(f"no notification with {name}")


def drain(notifications: socket.socket) -> None:
    """Read all queued notifications: a socket holds ten datagrams, and further ones are dropped."""
    notifications.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            notifications.recv(4096)
    notifications.settimeout(DEADLINE_S)


def is_stopped(pid: int) -> bool:
    """Return whether every thread of a process is stopped: the signal takes effect a moment after it was sent."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    # The state follows the name, which may contain parentheses.
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}


def test_from_start_to_stop(notifications: socket.socket, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        ready = next_of(notifications, "READY")
        assert ready["STATUS"] == f"ready on {broker.bootstrap}"
        for _ in range(3):
            assert next_of(notifications, "WATCHDOG") == {"WATCHDOG": "1"}
        # A process that does not run sends nothing.
        os.kill(broker.pid, signal.SIGSTOP)
        until(lambda: is_stopped(broker.pid), "every thread is stopped")
        drain(notifications)
        notifications.settimeout(0.6)
        with pytest.raises(TimeoutError):
            notifications.recv(4096)
        os.kill(broker.pid, signal.SIGCONT)
        notifications.settimeout(DEADLINE_S)
        next_of(notifications, "WATCHDOG")
        assert broker.stop() == 0
        assert "EXTEND_TIMEOUT_USEC" in next_of(notifications, "STOPPING")
    finally:
        broker.close()


def test_shards_are_one_service(notifications: socket.socket, tmp_path: Path) -> None:
    """If this fails, systemd takes one shard for the service, or kills a parent that runs."""
    node = ShardedNode(tmp_path).start()
    try:
        ready = next_of(notifications, "READY")
        assert ready["STATUS"] == f"ready on 127.0.0.1:{node.port}, 127.0.0.1:{node.port + 1}"
        for _ in range(3):
            assert next_of(notifications, "WATCHDOG") == {"WATCHDOG": "1"}
        # The parent sends the pings, and handles a frozen shard itself.
        os.kill(node.shard_pid(1), signal.SIGSTOP)
        for _ in range(3):
            assert next_of(notifications, "WATCHDOG") == {"WATCHDOG": "1"}
        until(lambda: node.sample('broker_cy_shard_starts_total{shard="1"}') == 2, "another start", DEADLINE_S)
        until(lambda: node.sample('broker_cy_shard_up{shard="1"}') == 1, "shard 1 serves", DEADLINE_S)
        drain(notifications)
        assert node.stop() == 0
        assert "EXTEND_TIMEOUT_USEC" in next_of(notifications, "STOPPING")
    finally:
        node.close()


def test_a_recovery_extends_the_start_timeout(notifications: socket.socket, tmp_path: Path) -> None:
    """If this fails, systemd repeatedly kills a broker that recovers."""
    broker = BrokerProcess(tmp_path).start()
    try:
        broker.kill()
        drain(notifications)
        broker.restart()
        loading = next_of(notifications, "EXTEND_TIMEOUT_USEC")
        # The log of the metadata is loaded by then.
        assert loading["STATUS"] == "loading logs: 1 so far"
        next_of(notifications, "READY")
    finally:
        broker.close()
