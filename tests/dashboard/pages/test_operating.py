"""Operating several brokers: cordon, drain, balance, reassignments with progress, elections, voters, and access to
these acts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError
from broker_cy.core.uuid import to_text
from broker_cy.wire import messages
from tests.dashboard.pages.group_kit import drive, layout_of, seeing, until
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.fake_cluster import BROKER, FakeCluster, FakePool, Part

LARGE = 1 << 40
KEYS = [TopicPartition("orders", number) for number in range(3)]
PACE = {"concurrent": "2", "throttle": "10M"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Three brokers, the third without replicas; the existing replicas would take forever to copy."""
    found = FakeCluster({1: "a", 2: "b", 3: "c"}, step_bytes=1 << 20)
    found.parts = {key: Part((1, 2), LARGE) for key in KEYS}
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


def operate(job: Callable[[Desk], Awaitable[None]], identity: Any = ADMIN, **options: Any) -> None:
    drive("127.0.0.1:1", job, identity, **options)


async def facts_of(desk: Desk, channel: str, wanted: Callable[[dict[str, str]], bool] = bool) -> dict[str, str]:
    def named(state: Any) -> dict[str, str]:
        return {name: value for name, value, _ in state["facts"]}

    return named(await desk.state(channel, lambda state: wanted(named(state))))


def test_a_broker_is_cordoned_and_uncordoned(cluster: FakeCluster) -> None:
    """If this fails, new replicas are placed on a broker that an operator wants to remove."""

    async def job(desk: Desk) -> None:
        plan = (await desk.open("cordon-broker", broker="2"))["plan"]
        assert plan["changes"] == ["cordoned directories: (none) -> every directory"]
        assert "brokers cordon 2 --yes" in plan["command"]
        assert "takes no new replicas" in (await desk.execute(plan))["said"]
        rows = await desk.rows("brokers", lambda state: "cordoned" in str(state))
        assert {row["id"]: row["state"] for row in rows.values()} == {"1": "controller", "2": "cordoned", "3": "broker"}
        plan = (await desk.open("uncordon-broker", broker="2"))["plan"]
        await desk.execute(plan)
        assert not cluster.configs[BROKER, "2"]
        for bad, said in (("", "'broker' is missing"), ("x", "a number from 0"), ("9", "it has 1, 2, 3")):
            with pytest.raises(ClientError, match=said):
                await desk.open("cordon-broker", broker=bad)

    operate(job)


def test_a_drain_runs_in_the_background_and_is_stopped(cluster: FakeCluster) -> None:
    """If this fails, a drain ends with the tab that started it, cannot be watched, or does not remove its throttle."""

    async def job(desk: Desk) -> None:
        form = (await desk.open("drain-broker", broker="1"))["form"]
        assert [field["name"] for field in form["fields"]] == ["concurrent", "throttle"]
        bad = await desk.plan("drain-broker", {"concurrent": "0", "throttle": "fast"}, broker="1")
        assert sorted(bad["problems"]) == ["concurrent", "throttle"]
        plan = (await desk.plan("drain-broker", PACE, broker="1"))["plan"]
        assert "brokers drain 1 --concurrent 2 --throttle 10485760 --yes" in plan["command"]
        said = await desk.execute(plan)
        assert (said["problem"], said["said"].partition(":")[0]) == ("", "started")
        await until(lambda: sum(part.target is not None for part in cluster.parts.values()) == 2, "two moves")
        facts = await facts_of(desk, "reassignments", lambda facts: facts["partitions"] == "2" and facts["rate"] != "-")
        assert facts["copied"].endswith("of 2.0 TiB")
        assert facts["throttle"].startswith("10.0 MiB/s on brokers 1, 2, 3")
        assert facts["time left"] != "-"
        rows = await desk.rows("moving-partitions")
        assert {name: (row["before"], row["after"], row["adding"]) for name, row in rows.items()} == {
            "orders-0": ("2,1", "3,2", "3"),
            "orders-1": ("2,1", "3,2", "3"),
        }
        state = await desk.state("move-runs", lambda state: "0 of 3 moves" in str(state["rows"]))
        assert state["rows"][0]["cells"][1:3] == ["Drain broker 1", "ada"]
        # Another plan would rely on replicas that this one moves.
        with pytest.raises(ClientError, match="2 reassignments under way"):
            await desk.plan("balance-brokers", PACE)
        stop = (await desk.open("stop-moves"))["plan"]
        assert "Drain broker 1" in stop["title"]
        assert (await desk.execute(stop))["said"] == "stopped: Drain broker 1"
        assert [part.target for part in cluster.parts.values()] == [None] * 3
        assert not any("throttled" in str(each) for each in cluster.configs.values())
        (run,) = (
            await desk.rows("move-runs", lambda state: "stopped: completed reassignments stay" in str(state))
        ).values()
        assert run["ended"].startswith("@")
        with pytest.raises(ClientError, match="no run of this dashboard"):
            await desk.open("stop-moves")
        results = [each["result"] for each in desk.security.audit.entries if each["act"] == "drain-broker"]
        assert [each.partition(":")[0] for each in results] == ["started", "stopped"]

    operate(job)


def test_a_run_that_is_done_and_one_that_ends_with_the_dashboard(cluster: FakeCluster) -> None:
    """If this fails, users do not see that everything was moved, or reassignments continue with a throttle that is
    never removed.
    """
    for key in KEYS:
        cluster.parts[key].size = 10

    async def job(desk: Desk) -> None:
        plan = (await desk.plan("fill-broker", {"concurrent": "5", "throttle": ""}, broker="3"))["plan"]
        await desk.execute(plan)
        rows = await desk.rows("move-runs", lambda state: "moved" in str(state["rows"]))
        assert all(row["progress"].startswith("moved") for row in rows.values())
        assert any(3 in part.replicas for part in cluster.parts.values())
        for key in KEYS:
            cluster.parts[key] = Part((1, 2), LARGE)
        await desk.execute((await desk.plan("decommission-broker", PACE, broker="1"))["plan"])
        await until(lambda: any(part.target for part in cluster.parts.values()), "a move")
        assert any("throttled" in str(each) for each in cluster.configs.values())

    operate(job)
    assert not any(part.target for part in cluster.parts.values())
    assert not any("throttled" in str(each) for each in cluster.configs.values())


def test_moves_of_others_are_cancelled(cluster: FakeCluster) -> None:
    """If this fails, a reassignment that another program started cannot be cancelled here, or the wrong one is."""
    for key in KEYS[:2]:
        cluster._move(key, [1, 3])
    cluster.configs[BROKER, "1"] = {"leader.replication.throttled.rate": "1048576"}

    async def job(desk: Desk) -> None:
        plan = (await desk.open("cancel-moves", rows=["orders-0"]))["plan"]
        assert "reassign cancel --topic orders:0 --yes" in plan["command"]
        await desk.execute(plan)
        assert [cluster.parts[key].target is None for key in KEYS[:2]] == [True, False]
        assert cluster.configs[BROKER, "1"]
        await desk.execute((await desk.open("cancel-moves"))["plan"])
        assert cluster.parts[KEYS[1]].target is None
        assert not cluster.configs[BROKER, "1"]
        plan = (await desk.open("cancel-moves"))["plan"]
        assert plan["problem"] == "no such partition is being moved, and there is no throttle to remove"
        with pytest.raises(ClientError, match="number of a partition"):
            await desk.open("cancel-moves", rows=["x"])

    operate(job)


def test_leaders_are_elected(cluster: FakeCluster) -> None:
    """If this fails, load stays where a restart moved it, or an unclean election loses records without a prompt for the
    topic's name.
    """
    cluster.parts[KEYS[0]].leader = 2
    lost = cluster.parts[KEYS[1]] = Part((1, 2), 10, isr=(2,))
    lost.leader = -1

    async def job(desk: Desk) -> None:
        plan = (await desk.open("elect-preferred", topic="orders"))["plan"]
        assert plan["changes"] == ["orders-0: leader 2 -> leader 1"]
        assert "1 preferred leader not in sync" in plan["affected"]
        await desk.execute(plan)
        assert cluster.parts[KEYS[0]].leader == 1
        assert "form" in await desk.open("elect-unclean")
        assert (await desk.plan("elect-unclean", {"topic": "no topic"}))["problems"]
        plan = (await desk.plan("elect-unclean", {"topic": "orders", "partitions": ""}))["plan"]
        assert plan["typed"] == "orders"
        assert "acknowledged records may be lost for good" in plan["affected"]
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan)
        await desk.execute(plan, "orders")
        assert lost.leader == 1

    operate(job)


def test_partitions_that_refuse_writes_say_so(cluster: FakeCluster) -> None:
    """If this fails, a partition refuses producers, and the page shows that it only lacks a replica."""
    cluster.parts[KEYS[0]] = Part((1, 2, 3), 10, isr=(1,))
    cluster.min_isr = 2

    async def job(desk: Desk) -> None:
        rows = await desk.rows("troubled-partitions", lambda state: "below min ISR" in str(state["rows"]))
        assert rows["orders-0"]["state"] == "below min ISR, under-replicated"
        assert (rows["orders-0"]["needs"], rows["orders-0"]["may-lead"]) == ("2", "2,3")

    operate(job)


def test_voters_are_added_and_removed(cluster: FakeCluster) -> None:
    """If this fails, a quorum cannot be repaired from the dashboard, or a voter is removed by mistake."""
    cluster.voters = [(each, UUID(int=100 + each)) for each in (1, 2)]
    cluster.observers = [(3, UUID(int=103))]

    async def job(desk: Desk) -> None:
        bad = await desk.plan("add-voter", {"node": "three", "endpoints": "10.0.0.3:9093"})
        assert sorted(bad["problems"]) == ["endpoints", "node"]
        values = {"node": "3", "endpoints": "CONTROLLER://10.0.0.3:9093", "directory": ""}
        plan = (await desk.plan("add-voter", values))["plan"]
        assert plan["changes"][0].startswith("node 3: observer -> voter")
        await desk.execute(plan)
        (request,) = cluster.kinds(messages.AddRaftVoterRequest)
        assert (request.voter_id, request.listeners[0].host) == (3, "10.0.0.3")
        plan = (await desk.plan("remove-voter", {"node": "2"}))["plan"]
        assert plan["typed"] == "2"
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan, "3")
        assert f"--directory {to_text(UUID(int=102))}" in plan["command"]
        await desk.execute(plan, "2")
        assert [each.voter_id for each in cluster.kinds(messages.RemoveRaftVoterRequest)] == [2]
        assert (await desk.open("upgrade-quorum"))["plan"]["problem"] == "the voters are in the log already"
        with pytest.raises(ClientError, match="it is not a voter"):
            await desk.plan("remove-voter", {"node": "9"})

    operate(job)


ACTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("cordon-broker", {"broker": "1"}),
    ("drain-broker", {"broker": "1"}),
    ("balance-brokers", {}),
    ("cancel-moves", {}),
    ("stop-moves", {}),
    ("elect-preferred", {}),
    ("elect-unclean", {}),
    ("add-voter", {}),
    ("remove-voter", {}),
    ("upgrade-quorum", {}),
)


def test_only_administrators_of_everything_operate(cluster: FakeCluster) -> None:
    """If this fails, an account for one topic moves the replicas of all, or learns their names and sizes."""
    cluster._move(KEYS[0], [1, 3])
    cluster.parts[TopicPartition("secret", 0)] = Part((1, 2), LARGE)
    cluster._move(TopicPartition("secret", 0), [1, 3])

    async def job(desk: Desk) -> None:
        desk.identity = OPERATOR
        for act, params in ACTS:
            with pytest.raises(ClientError, match="it needs the role admin"):
                await desk.open(act, **params)
        desk.identity = seeing(ADMIN, topics=("orders", "?"))
        for act in ("drain-broker", "balance-brokers", "cancel-moves", "stop-moves", "elect-preferred"):
            with pytest.raises(ClientError, match="is about every topic"):
                await desk.open(act, broker="1")
        with pytest.raises(ClientError, match="may not see topic secret"):
            await desk.open("cancel-moves", rows=["secret-0"])
        with pytest.raises(ClientError, match="may not see topic secret"):
            await desk.plan("elect-unclean", {"topic": "secret"})
        assert list(await desk.rows("moving-partitions")) == ["orders-0"]
        facts = await facts_of(desk, "reassignments")
        assert (facts["partitions"], facts["rate"]) == ("1", "-")
        assert facts["copied"].endswith("of 1.0 TiB")
        assert "may see only some topics" in await desk.look("move-runs").failed()
        assert "move-runs" not in layout_of(desk, "reassignments")
        desk.identity = VIEWER
        assert "move-runs" in layout_of(desk, "reassignments")

    operate(job)


def test_read_only_refuses_them(cluster: FakeCluster) -> None:
    """If this fails, --readonly protects topics, but not the cluster."""

    async def job(desk: Desk) -> None:
        for act, params in ACTS:
            with pytest.raises(ClientError, match="read-only mode"):
                await desk.open(act, **params)

    operate(job, is_readonly=True)
