"""The screen of log directories: a failed disk, moves with their progress, and the acts."""

from __future__ import annotations

import pytest

from broker_cy.admin.metadata import TopicPartition
from tests.admin_tui.conftest import Terminal, drive
from tests.support.fake_cluster import FakeCluster, FakePool, Part


def test_disks_and_moves_are_shown_and_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator does not see a dead disk or a move, or cannot end it."""
    cluster = FakeCluster({1: "a", 2: "b"}, step_bytes=0)
    keys = [TopicPartition("orders", number) for number in range(2)]
    cluster.parts = {key: Part((1,), 300) for key in keys}
    cluster.paths = ["/data", "/disk2"]
    cluster.offline_paths.add((2, "/disk2"))
    cluster.futures[1, keys[0]] = ("/disk2", 150)
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(cluster))

    async def job(terminal: Terminal) -> None:
        await terminal.command("log-dirs")
        await terminal.shows("offline", "/disk2", "orders-0", "50%", "150 B")
        await terminal.press("X")
        await terminal.shows("each replica stays in its directory", "log-dirs cancel")
        await terminal.press("right", "enter")
        await terminal.until(lambda: not cluster.futures, "the move is cancelled")
        await terminal.shows("cancelled 1 move")
        await terminal.press("b")
        await terminal.shows("Balance the directories of broker 1", "Even out")

    drive("127.0.0.1:1", job, size=(160, 50))
