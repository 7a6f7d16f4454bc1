"""The screen of partition reassignments, and cordoning a broker."""

from __future__ import annotations

import pytest

from broker_cy.admin.metadata import TopicPartition
from tests.admin_tui.conftest import Terminal, drive
from tests.support.fake_cluster import BROKER, FakeCluster, FakePool, Part


def test_moves_are_shown_and_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator does not see how long a reassignment takes, or cancels one that is not selected."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, step_bytes=1 << 20)
    keys = [TopicPartition("orders", number) for number in range(3)]
    cluster.parts = {key: Part((1, 2), 1 << 40) for key in keys}
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(cluster))
    for key in keys[:2]:
        cluster._move(key, [1, 3])
    cluster.configs[BROKER, "1"] = {"leader.replication.throttled.rate": "1048576"}

    async def job(terminal: Terminal) -> None:
        await terminal.command("reassignments")
        await terminal.shows("orders-0", "orders-1", "1,2", "1,3", "1.0 TiB", "throttle", "1.0 MiB/s on broker 1")
        await terminal.press("x")
        await terminal.shows("old replicas of 1 partition", "reassign cancel --topic orders:0")
        await terminal.press("right", "enter")
        await terminal.hides("orders-0:")
        await terminal.until(lambda: cluster.parts[keys[0]].target is None, "the move is cancelled")
        assert cluster.parts[keys[1]].target is not None
        assert cluster.configs[BROKER, "1"]
        await terminal.shows("cancelled the reassignment of 1 partition")
        await terminal.press("X")
        await terminal.shows("old replicas of 1 partition", "throttle")
        await terminal.press("right", "enter")
        await terminal.until(lambda: not any(cluster.configs.values()), "the throttle is removed")
        assert cluster.parts[keys[1]].target is None

    drive("127.0.0.1:1", job, size=(160, 50))


def test_a_broker_is_cordoned_and_uncordoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, new replicas are placed on a broker that an operator wants to remove."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(cluster))

    async def job(terminal: Terminal) -> None:
        await terminal.command("brokers")
        await terminal.goes_to("brokers")
        await terminal.shows("Rack", "controller")
        await terminal.press("c")
        await terminal.shows("(none) -> every directory", "broker-cy brokers cordon 1 --yes")
        await terminal.press("right", "enter")
        await terminal.until(lambda: cluster.configs.get((BROKER, "1")), "the cordon")
        await terminal.shows("cordoned  ")
        await terminal.press("c")
        await terminal.shows("* -> (none)", "broker-cy brokers uncordon 1 --yes")
        await terminal.press("right", "enter")
        await terminal.until(lambda: not cluster.configs[BROKER, "1"], "the end of the cordon")
        await terminal.shows("controller")

    drive("127.0.0.1:1", job, size=(160, 50))


def test_a_broker_is_drained_with_progress_and_the_drain_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a drain started in the console cannot be watched or cancelled, or leaves partitions half moved."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, step_bytes=1 << 20)
    keys = [TopicPartition("orders", number) for number in range(3)]
    cluster.parts = {key: Part((1, 2), 1 << 40) for key in keys}
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(cluster))

    async def job(terminal: Terminal) -> None:
        await terminal.command("brokers")
        await terminal.goes_to("brokers")
        await terminal.shows("Rack", "controller")
        await terminal.press("D")
        await terminal.shows("Moves at a time", "Bytes per second")
        await terminal.press("enter")
        await terminal.shows("Decommission broker 1", "stop broker 1 now", "brokers decommission 1")
        await terminal.press("escape")
        await terminal.press("d")
        await terminal.shows("Moves at a time", "Bytes per second")
        await terminal.fill(throttle="10M")
        await terminal.shows("moves 3 partitions", "cordoned: takes no new replicas", "broker-cy brokers drain 1")
        await terminal.shows("--concurrent 10 --throttle 10485760")
        await terminal.press("right", "enter")
        await terminal.shows("0 of 3 moves, ")
        await terminal.until(lambda: all(part.target for part in cluster.parts.values()), "the moves")
        await terminal.press("escape")
        await terminal.shows("cancelled: Drain broker 1")
        assert not any(part.target for part in cluster.parts.values())

    drive("127.0.0.1:1", job, size=(160, 50))


def test_a_host_is_opened_into_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator does not see the shards of a host, or changes another broker."""
    cluster = FakeCluster({1: "a", 2: "b", 1001: "a"})
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(cluster))

    async def job(terminal: Terminal) -> None:
        await terminal.command("brokers")
        await terminal.goes_to("brokers")
        await terminal.shows("1 +1", "127.0.0.1:1-1001", "127.0.0.1:2")
        await terminal.press("c")
        await terminal.shows("enter opens it into its shards")
        await terminal.press("enter")
        await terminal.shows("127.0.0.1:1001")
        await terminal.press("down", "down", "c")
        await terminal.shows("broker-cy brokers cordon 1001 --yes")
        await terminal.press("escape")
        await terminal.press("up", "up", "enter")
        await terminal.hides("127.0.0.1:1001  ")

    drive("127.0.0.1:1", job, size=(160, 50))
