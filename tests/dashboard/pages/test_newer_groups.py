"""The pages of consumer, share and streams groups."""

from __future__ import annotations

import pytest

from tests.dashboard.pages.group_kit import drive, layout_of
from tests.dashboard.support import ADMIN, VIEWER, Desk
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import FakeGroups


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    found = FakeGroups()
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


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
        assert {key: (row["lag"], row["owner"]) for key, row in rows.items()} == {"orders-0": ("12", "2 members")}
        assert set(await desk.rows("group-share-members", group="checkout")) == {"s-0", "s-1"}

    drive("127.0.0.1:1", job, ADMIN)


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
        ("share", {"group-share-members", "group-share-lag"}),
        ("streams", {"group-streams-members", "group-tasks", "group-topology", "group-lag"}),
        ("", {"group-consumer-members", "group-lag"}),
    ],
)
def test_a_page_has_the_panels_of_its_type(groups: FakeGroups, kind: str, panels: set[str]) -> None:
    """If this fails, a page has empty panels of another type, or lacks one of its own."""

    async def job(desk: Desk) -> None:
        shown = str(layout_of(desk, "group", group="new", type=kind))
        every = {
            "group-members", "group-consumer-members", "group-share-members", "group-streams-members", "group-tasks",
            "group-topology", "group-lag", "group-share-lag",
        }  # fmt: skip
        assert {name for name in every if f"'{name}'" in shown or f'"{name}"' in shown} == panels

    drive("127.0.0.1:1", job, VIEWER)
