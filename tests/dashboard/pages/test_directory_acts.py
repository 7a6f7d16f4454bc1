"""Acts of the dashboard on the directories (disks) of brokers."""

from __future__ import annotations

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError
from tests.dashboard.pages.group_kit import drive, layout_of, seeing, until
from tests.dashboard.support import ADMIN, OPERATOR, Desk
from tests.support.fake_cluster import BROKER, FakeCluster, FakePool, Part

KEYS = [TopicPartition("orders", number) for number in range(4)]
PACE = {"concurrent": "2", "throttle": "10M"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Two brokers with two disks; everything is in the first of broker 1, and copies take forever."""
    found = FakeCluster({1: "a", 2: "b"}, step_bytes=0)
    found.parts = {key: Part((1,), 300) for key in KEYS}
    found.paths = ["/data", "/disk2"]
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


def test_marked_replicas_move_and_are_cancelled(cluster: FakeCluster) -> None:
    """If this fails, a full disk cannot be relieved from a browser, or the move cannot be watched and ended."""

    async def job(desk: Desk) -> None:
        rows = ["orders-0 1 /data", "orders-2 1 /data"]
        form = (await desk.open("move-to-directory", rows=rows))["form"]
        assert [field["name"] for field in form["fields"]] == ["directory", "concurrent", "throttle"]
        plan = (await desk.plan("move-to-directory", {**PACE, "directory": "/disk2"}, rows=rows))["plan"]
        assert "log-dirs move orders:0,2 --broker 1 --to /disk2 --wait" in plan["command"]
        assert plan["changes"][0].startswith("/data of broker 1: 4 replicas, 1.2 KiB")
        await desk.execute(plan)
        await until(lambda: len(cluster.futures) == 2, "two moves")
        moving = await desk.rows("directory-moves", lambda state: len(state["rows"]) == 2)
        assert moving["orders-0 1"]["target"] == "/disk2"
        stop = (await desk.open("stop-moves"))["plan"]
        await desk.execute(stop)
        assert (cluster.futures, cluster.configs[BROKER, "1"]) == ({}, {})
        cluster.futures[1, KEYS[1]] = ("/disk2", 0)
        await desk.execute((await desk.open("cancel-directory-moves", rows=["orders-1 1"]))["plan"])
        assert not cluster.futures
        with pytest.raises(ClientError, match="replicas of one broker"):
            await desk.open("move-to-directory", rows=["orders-0 1 /data", "orders-0 2 /data"])

    drive("127.0.0.1:1", job, ADMIN)


def test_directories_are_balanced_and_drained(cluster: FakeCluster) -> None:
    """If this fails, the page offers acts that do something else."""

    async def job(desk: Desk) -> None:
        plan = (await desk.plan("balance-directories", {**PACE, "by": "space"}, broker="1"))["plan"]
        assert "log-dirs balance --broker 1 --by space" in plan["command"]
        assert "moves 2 replicas on broker 1" in plan["affected"]
        plan = (await desk.plan("drain-directory", {**PACE, "directory": "/data"}, broker="1"))["plan"]
        assert "log-dirs drain /data --broker 1" in plan["command"]
        assert plan["changes"][0] == "/data: cordoned: takes no new replicas"
        assert "balance-directories" in str(layout_of(desk, "storage"))

    drive("127.0.0.1:1", job, ADMIN)


def test_acts_need_access_to_the_topics(cluster: FakeCluster) -> None:
    """If this fails, a user of some topics moves the replicas of all others."""

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError):
            await desk.open("balance-directories", broker="1")
        with pytest.raises(ClientError):
            await desk.open("move-to-directory", rows=["secret-0 1 /data"])

    drive("127.0.0.1:1", job, seeing(ADMIN, topics=("orders",)))
    drive("127.0.0.1:1", job, OPERATOR)
