"""The screens for partitions that lack replicas and for the quorum: elections, and adding and removing voters."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire import messages
from tests.admin_tui.conftest import Terminal, drive
from tests.support.fake_cluster import FakeCluster, FakePool, Part

SIZE = (160, 50)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster({1: "a", 2: "b", 3: "c"})
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


def test_partitions_that_lack_replicas_and_their_leaders(cluster: FakeCluster) -> None:
    """If this fails, an operator does not see which partitions refuse writes, or elects a leader that loses records
    without a prompt for the topic's name.
    """
    cluster.min_isr = 2
    keys = [TopicPartition("orders", number) for number in range(3)]
    cluster.parts = {
        keys[0]: Part((1, 2, 3), 10, leader=2, isr=(1, 2, 3)),
        keys[1]: Part((1, 2, 3), 10, isr=(1,)),
        keys[2]: Part((1, 2, 3), 10, isr=(2,)),
    }
    cluster.parts[keys[2]].leader = -1

    async def job(terminal: Terminal) -> None:
        await terminal.command("replication")
        await terminal.shows("orders-1", "below min ISR", "orders-2", "offline", "2,3")
        assert terminal.text().index("orders-2") < terminal.text().index("orders-1")
        await terminal.press("p")
        await terminal.shows("orders-0: leader 2 -> leader 1", "leaders elect --preferred --yes")
        await terminal.press("right", "enter")
        await terminal.until(lambda: cluster.parts[keys[0]].leader == 1, "the election")
        await terminal.press("U")
        await terminal.fill(topic="orders")
        await terminal.shows("acknowledged records may be lost for good", "Type orders to confirm")
        await terminal.press(*"order", "enter")
        await terminal.shows("'order' is not 'orders': nothing was changed")
        assert cluster.parts[keys[2]].leader == -1
        await terminal.press("s", "enter")
        await terminal.until(lambda: cluster.parts[keys[2]].leader == 1, "the unclean election")

    drive("127.0.0.1:1", job, size=SIZE)


def test_voters_are_added_and_removed(cluster: FakeCluster) -> None:
    """If this fails, a quorum cannot be repaired from the console, or a voter is removed by mistake."""
    cluster.voters = [(each, UUID(int=100 + each)) for each in (1, 2)]
    cluster.observers = [(3, UUID(int=103))]

    async def job(terminal: Terminal) -> None:
        await terminal.command("quorum")
        await terminal.shows("observer", "voters")
        await terminal.press("end", "a")
        await terminal.fill(endpoints="10.0.0.3:9093")
        await terminal.shows("LISTENER://HOST:PORT is expected")
        await terminal.fill(endpoints="CONTROLLER://10.0.0.3:9093")
        await terminal.shows("node 3: observer -> voter", "2 -> 3 voters")
        await terminal.press("right", "enter")
        await terminal.until(lambda: cluster.kinds(messages.AddRaftVoterRequest), "the request")
        assert [each.voter_id for each in cluster.kinds(messages.AddRaftVoterRequest)] == [3]
        await terminal.until(lambda: terminal.app.screen.query("#replicas"), "the screen")
        await terminal.press("home", "down", "r")
        await terminal.fill()
        await terminal.shows("Type 2 to confirm")
        await terminal.press("2", "enter")
        await terminal.until(lambda: cluster.kinds(messages.RemoveRaftVoterRequest), "the request")
        assert [each.voter_id for each in cluster.kinds(messages.RemoveRaftVoterRequest)] == [2]
        await terminal.press("U")
        await terminal.shows("the voters are in the log already")

    drive("127.0.0.1:1", job, size=SIZE)


def test_read_only_refuses_them(cluster: FakeCluster) -> None:
    """If this fails, --readonly protects topics, but not the cluster."""

    async def job(terminal: Terminal) -> None:
        for view, keys in (("replication", "pU"), ("quorum", "arU"), ("brokers", "fb")):
            await terminal.command(view)
            await terminal.goes_to(view)
            for key in keys:
                await terminal.press(key)
                assert view == terminal.app.screen.NAME  # type: ignore[attr-defined]

    drive("127.0.0.1:1", job, size=SIZE, is_readonly=True)
