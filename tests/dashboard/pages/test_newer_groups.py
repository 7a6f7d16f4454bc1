"""The pages of consumer, share and streams groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker_cy.admin.share_in_flight import GroupInFlight
from broker_cy.client.errors import ClientError
from dashboard.pages.groups import _seen_in_flight
from dashboard.security.roles import EVERYTHING, Role, Scope
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, VIEWER, Desk
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import FakeGroups, in_flight


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    found = FakeGroups()
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


EVERY = (
    "group-members", "group-consumer-members", "group-share-members", "group-streams-members", "group-tasks",
    "group-topology", "group-lag", "group-share-lag", "group-in-flight",
)  # fmt: skip


def panels_of(desk: Desk, group: str, **query: str) -> set[str]:
    """Return the channels of the panels that depend on the type of a group."""
    shown = layout_of(desk, "group", group=group, **query)
    return {name for name in EVERY if f"'{name}'" in shown or f'"{name}"' in shown}


def test_a_consumer_group_shows_who_waits_for_whom(groups: FakeGroups) -> None:
    """If this fails, a rebalance or a conversion that hangs does not show its cause."""

    async def job(desk: Desk) -> None:
        rows = await desk.rows("groups")
        assert {key: row["type"] for key, row in rows.items()} == {
            "billing": "consumer", "checkout": "share", "enrich": "streams", "reports": "connect",
        }  # fmt: skip
        members = await desk.rows("group-consumer-members", group="billing")
        assert members["m-1"]["difference"] == "waits for orders 2 of worker-0"
        assert (members["m-1"]["subscription"], members["m-1"]["epoch"]) == ("/ord.*/", "7")
        assert [members[key]["protocol"] for key in ("m-0", "m-1", "m-2")] == ["consumer", "consumer", "classic"]
        facts = {name: value for name, value, _ in (await desk.state("group-facts", group="billing"))["facts"]}
        assert facts["conversion"] == "2 of 3 members"

    drive("127.0.0.1:1", job, ADMIN)


def test_a_share_group_shows_its_start_offsets(groups: FakeGroups) -> None:
    """If this fails, the lag of a share group is missing."""

    async def job(desk: Desk) -> None:
        rows = await desk.rows("group-share-lag", group="checkout")
        assert {key: (row["lag"], row["owner"]) for key, row in rows.items()} == {
            "orders-0": ("12", "2 members"),
            # The group has not read it yet.
            "orders-1": ("-", "2 members"),
        }
        assert set(await desk.rows("group-share-members", group="checkout")) == {"s-0", "s-1"}

    drive("127.0.0.1:1", job, ADMIN)


def test_a_share_group_shows_its_records_in_flight(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, it is not shown which member holds records, or a viewer sees those of topics out of its scope."""

    async def report(*_: object) -> GroupInFlight:
        return in_flight()

    monkeypatch.setattr("broker_cy.console.session.in_flight_of", report)

    async def job(desk: Desk) -> None:
        rows = await desk.rows("group-in-flight", group="checkout")
        shown = {key: (row["state"], row["deliveries"], row["holder"], row["lock"]) for key, row in rows.items()}
        assert shown == {
            "orders-0 40-41": ("acquired", "1", "till-0", "21.0 s"),
            "orders-0 42-43": ("archived", "3", "-", "-"),
            "orders-0 44-45": ("available, throttled", "3", "-", "-"),
            "payments-1 7-8": ("acquired, last attempt", "5", "gone", "21.0 s"),
        }
        facts = {name: value for name, value, _ in (await desk.state("group-facts", group="checkout"))["facts"]}
        assert facts["in flight"] == "6"
        assert facts["by deliveries"] == "1: 2, 3: 2, 5: 2"
        assert facts["last attempt"] == "2"
        assert (facts["throttled"], facts["finished out of order"]) == ("2", "2")
        assert facts["archived"] == "3 rejected, 1 at the limit of deliveries"
        assert facts["returned"] == "40 released"
        assert facts["blocked partitions"] == "payments-1"

    drive("127.0.0.1:1", job, ADMIN)


@pytest.mark.parametrize("is_reported", [True, False])
def test_no_records_in_flight_are_told_apart_from_no_report(
    groups: FakeGroups, monkeypatch: pytest.MonkeyPatch, is_reported: bool
) -> None:
    """If this fails, a group without records in flight is shown as one that no broker reports, or the other way."""

    async def report(*_: object) -> GroupInFlight:
        return in_flight(brokers=(1,) if is_reported else ())._replace(runs=())

    monkeypatch.setattr("broker_cy.console.session.in_flight_of", report)

    async def job(desk: Desk) -> None:
        looker = desk.look("group-in-flight", group="checkout")
        state = await looker.until(lambda state: state["rows"] == [])
        assert state["total"] == 0
        assert looker.is_absent is not is_reported

    drive("127.0.0.1:1", job, ADMIN)


def test_records_in_flight_are_released_rejected_and_redriven(groups: FakeGroups) -> None:
    """If this fails, an operator sees records that hang, and has to leave the dashboard to free them."""

    async def job(desk: Desk) -> None:
        rows = ["orders-0 40-41", "orders-0 42-43"]
        plan = (await desk.open("release-share-records", rows=rows, group="checkout"))["plan"]
        assert plan["changes"] == ["orders-0, offsets 40 to 43: 2 records; 1 of them archived, after the last delivery"]
        assert "groups release checkout --records orders:0:40-43" in plan["command"]
        assert (await desk.execute(plan))["said"] == "released 2 records of group checkout"
        plan = (await desk.open("reject-share-records", rows=rows[:1], group="checkout"))["plan"]
        assert plan["destructive"]
        assert (await desk.execute(plan))["said"] == "rejected 2 records of group checkout"
        form = (await desk.open("redrive-share-records", rows=rows[1:], group="checkout"))["form"]
        assert [field["value"] for field in form["fields"]] == ["orders:0:42-43", ""]
        answer = await desk.plan("redrive-share-records", {}, rows=rows[1:], group="checkout")
        assert (await desk.execute(answer["plan"]))["said"] == "redrove 2 records of group checkout"
        plan = (await desk.open("release-member-records", rows=["s-0"], group="checkout"))["plan"]
        await desk.execute(plan)
        assert [(action.name, partition, member) for action, partition, _, member in groups.changed] == [
            ("RELEASE", 0, ""), ("REJECT", 0, ""), ("REDRIVE", 0, ""), ("RELEASE", 0, "s-0"), ("RELEASE", 1, "s-0"),
        ]  # fmt: skip
        with pytest.raises(ClientError, match="2 members are marked"):
            await desk.open("release-member-records", rows=["s-0", "s-1"], group="checkout")
        with pytest.raises(ClientError, match="two offsets are expected"):
            await desk.open("reject-share-records", rows=["orders-0"], group="checkout")

    drive("127.0.0.1:1", job, ADMIN)


def test_records_in_flight_of_others_cannot_be_changed(groups: FakeGroups) -> None:
    """If this fails, a user changes records of topics or groups that it may not see, or without the role."""

    async def refused(desk: Desk) -> None:
        for act in ("release-share-records", "reject-share-records", "redrive-share-records"):
            with pytest.raises(ClientError):
                await desk.open(act, rows=["orders-0 40-41"], group="checkout")
        with pytest.raises(ClientError):
            await desk.open("release-member-records", rows=["s-0"], group="checkout")
        assert groups.changed == []

    async def limited(desk: Desk) -> None:
        values = {"records": "orders:0:1", "topic": "payments"}
        with pytest.raises(ClientError):
            await desk.plan("redrive-share-records", values, group="checkout")
        await refused(desk)

    drive("127.0.0.1:1", refused, VIEWER)
    scope = Scope(topics=("payments",), groups=EVERYTHING)
    drive("127.0.0.1:1", limited, replace(ADMIN, role=Role.OPERATOR, scope=scope))


def test_records_in_flight_of_hidden_topics_are_hidden() -> None:
    """If this fails, a viewer sees records of topics out of its scope."""
    scope = Scope(topics=("orders",), groups=EVERYTHING)
    seen = _seen_in_flight(in_flight(), scope)
    assert {run.partition.topic for run in seen.runs} == {"orders"}
    assert (seen.blocked, seen.archived, seen.returned) == ((), {}, {})


def test_a_streams_group_shows_tasks_and_topology(groups: FakeGroups) -> None:
    """If this fails, it is not shown where a task runs and where it is to run."""

    async def job(desk: Desk) -> None:
        tasks = await desk.rows("group-tasks", group="enrich")
        assert (tasks["1_1"]["owner"], tasks["1_1"]["planned"]) == ("node-a", "node-b")
        assert tasks["1_0"]["standbys"] == "node-b"
        topology = await desk.rows("group-topology", group="enrich")
        assert topology["1"]["changelogs"] == "enrich-count-changelog"
        members = await desk.rows("group-streams-members", group="enrich")
        assert members["t-1"]["difference"] == "waits for 1_1 of node-a"

    drive("127.0.0.1:1", job, ADMIN)


@pytest.mark.parametrize(
    ("kind", "panels"),
    [
        ("classic", {"group-members", "group-lag"}),
        ("consumer", {"group-consumer-members", "group-lag"}),
        ("share", {"group-share-members", "group-share-lag", "group-in-flight"}),
        ("streams", {"group-streams-members", "group-tasks", "group-topology", "group-lag"}),
        ("", set()),
        ("other", set()),
    ],
)
def test_a_page_has_the_panels_of_its_type(groups: FakeGroups, kind: str, panels: set[str]) -> None:
    """If this fails, a page has empty panels of another type, or lacks one of its own."""

    async def job(desk: Desk) -> None:
        assert panels_of(desk, "new", type=kind) == panels

    drive("127.0.0.1:1", job, VIEWER)


@pytest.mark.parametrize("source", ["groups", "topic-consumers", "group-facts"])
@pytest.mark.parametrize("given", ["", "classic", "share"])
def test_the_cluster_decides_the_type_of_a_page(groups: FakeGroups, source: str, given: str) -> None:
    """If this fails, a link without the type of a group, or with an old one, opens the page of another type."""
    of_types = {
        "billing": "group-consumer-members", "checkout": "group-share-members", "enrich": "group-streams-members",
        "reports": "group-members",
    }  # fmt: skip

    async def job(desk: Desk) -> None:
        for group, panel in of_types.items():
            subject: Any = {"groups": {}, "topic-consumers": {"topic": "orders"}, "group-facts": {"group": group}}[
                source
            ]
            await desk.state(source, **subject)
            shown = panels_of(desk, group, type=given)
            assert {name for name in shown if name.endswith("members")} == {panel}

    drive("127.0.0.1:1", job, VIEWER)


def test_an_old_list_does_not_decide_the_type(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the page of a group whose name was that of a deleted group is built for the deleted one."""
    monkeypatch.setattr("broker_cy.console.session.TYPES_AGE_S", -1.0)

    async def job(desk: Desk) -> None:
        await desk.rows("groups")
        assert panels_of(desk, "checkout") == set()
        state = await desk.state("group-facts", group="checkout")
        assert state["query"] == {"type": "share"}

    drive("127.0.0.1:1", job, VIEWER)


def test_the_type_of_a_hidden_group_is_hidden(groups: FakeGroups) -> None:
    """If this fails, the page of a group out of a viewer's scope shows its type."""

    async def job(desk: Desk) -> None:
        await desk.state("groups")
        assert panels_of(desk, "checkout") == set()

    drive("127.0.0.1:1", job, seeing(VIEWER, groups=("billing",)))
