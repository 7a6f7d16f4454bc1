"""Restarts of the demo's clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.processes import Process
from demo.supervision import RESTART_S, Crashes
from demo.topics import CRASHING


class Client(Process):
    """A client without a process."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name, [], directory)
        self.starts = 0
        self.start()

    def start(self) -> None:
        self.starts += 1
        self.is_running = True

    def kill(self) -> None:
        self.is_running = False

    @property
    def pid(self) -> int:
        return self.starts

    @property
    def has_ended(self) -> bool:
        return not self.is_running


def test_clients_are_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the demo runs on without a client that ended, or its crashes last too long or too short."""
    monkeypatch.setattr("demo.supervision.time.monotonic", lambda: 1_000.0)
    clients = {name: Client(name, tmp_path) for name in ("orders", CRASHING)}
    crashes = Crashes(dict(clients), 45.0, 15.0)
    crashes.look(1_044.9)
    clients["orders"].kill()
    for at_s in (1_045.0, 1_045.0 + RESTART_S - 0.1):
        crashes.look(at_s)
    assert [client.is_running for client in clients.values()] == [False, False]
    crashes.look(1_045.0 + RESTART_S)
    assert [client.starts for client in clients.values()] == [2, 1]
    crashes.look(1_059.9)
    assert not clients[CRASHING].is_running
    crashes.look(1_060.0)
    assert [client.starts for client in clients.values()] == [2, 2]
    said = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert said == [
        f"{CRASHING} crashed (kill -9)",
        f"orders ended unexpectedly: {tmp_path}/orders.log",
        "",
        "orders was restarted",
        f"{CRASHING} was restarted",
    ]
