"""The screens of consumer, share and streams groups."""

from __future__ import annotations

import pytest

from broker_cy.admin.share_in_flight import GroupInFlight
from broker_cy.wire.share_operations import OperatorAction
from tests.admin_tui.conftest import Terminal, drive
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import FakeGroups, in_flight

SIZE = (160, 50)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    found = FakeGroups()
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


def test_a_consumer_group_shows_who_waits_for_whom(groups: FakeGroups) -> None:
    """If this fails, a rebalance or a conversion that hangs does not show its cause."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("groups")
        await terminal.shows("billing", "Reconciling", "checkout", "share", "enrich", "streams")
        await terminal.command("group billing")
        await terminal.shows("gives up orders 2", "waits for orders 2 of worker-0", "/ord.*/", "rack-a")
        await terminal.shows("2 of 3 members", "epoch 7")
        await terminal.hides("Tasks")

    drive("127.0.0.1:1", job, size=SIZE)


def test_planned_changes_are_shown_on_a_small_screen(groups: FakeGroups) -> None:
    """If this fails, the cause of a rebalance that hangs is cut off in a terminal of 80 columns."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("group billing")
        await terminal.shows("worker-1", "waits for orders 2")

    drive("127.0.0.1:1", job, size=(80, 24))


def test_every_fact_is_shown_on_a_small_screen(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the reason why a share group returns records, or the topology of a streams group, is cut off in a
    terminal of 80 columns.
    """

    async def report(*_: object) -> GroupInFlight:
        return in_flight()

    monkeypatch.setattr("broker_cy.console.session.in_flight_of", report)

    async def job(terminal: Terminal) -> None:
        await terminal.command("group enrich")
        await terminal.shows("catch-up", "members 2", "epoch 2, 2 subtopologies", "standbys")
        await terminal.command("group checkout")
        await terminal.shows("catch-up", "members 2", "in flight 6", "40 released", "blocked partitions payments-1")

    drive("127.0.0.1:1", job, size=(80, 24))


def test_a_share_group_shows_its_start_offsets(groups: FakeGroups) -> None:
    """If this fails, the lag of a share group is missing, or one of its members looks like the owner of a partition."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("group checkout")
        await terminal.shows("till-0", "till-1", "Start offset", "40", "12", "2 members")
        await terminal.press("r")
        await terminal.fill(rule="earliest")
        await terminal.shows("NON_EMPTY_GROUP")

    drive("127.0.0.1:1", job, size=SIZE)


def test_a_share_group_shows_its_records_in_flight(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, it is not shown which member holds records that the group does not finish."""

    async def report(*_: object) -> GroupInFlight:
        return in_flight()

    monkeypatch.setattr("broker_cy.console.session.in_flight_of", report)

    async def job(terminal: Terminal) -> None:
        await terminal.command("group checkout")
        await terminal.shows("Records in flight", "acquired, last attempt", "gone", "21.0 s", "Lock left")
        await terminal.shows("throttled 2", "1: 2, 3: 2, 5: 2", "3 rejected", "40 released")
        await terminal.command("group billing")
        await terminal.hides("Records in flight")

    drive("127.0.0.1:1", job, size=SIZE)


def test_records_in_flight_are_released_rejected_and_redriven(
    groups: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an operator sees records that hang, and has to leave the console to free them."""

    async def report(*_: object) -> GroupInFlight:
        return in_flight()

    monkeypatch.setattr("broker_cy.console.session.in_flight_of", report)

    async def job(terminal: Terminal) -> None:
        await terminal.command("group checkout")
        await terminal.shows("Records in flight", "acquired, last attempt")
        terminal.app.screen.query_one("#in-flight").focus()
        await terminal.press("u")
        await terminal.shows("2 records: available again immediately", "groups release checkout", "orders:0:40-41")
        await terminal.press("right", "enter")
        await terminal.shows("released 2 records of group checkout")
        await terminal.press("down", "a")
        await terminal.shows("archived, and not delivered to the group again", "orders:0:42-43")
        await terminal.press("escape")
        await terminal.press("w")
        await terminal.shows("Copy to topic", "orders:0:42-43")
        await terminal.fill(topic="")
        await terminal.shows("delivered to the group again, at least once")
        await terminal.press("escape")
        terminal.app.screen.query_one("#members").focus()
        await terminal.press("u")
        await terminal.shows("--member s-0")
        await terminal.press("escape")
        assert groups.changed == [(OperatorAction.RELEASE, 0, [(40, 41)], "")]
        await terminal.command("group billing")
        await terminal.hides("Redrive")

    drive("127.0.0.1:1", job, size=SIZE)


def test_a_streams_group_shows_its_tasks(groups: FakeGroups) -> None:
    """If this fails, it is not shown where a task runs and where it is to run."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("group enrich")
        await terminal.shows("Tasks", "1_1", "waits for 1_1 of node-a", "process-b", "stateful", "Planned on")
        await terminal.shows("1 of 2 tasks with state", "epoch 2, 2 subtopologies")

    drive("127.0.0.1:1", job, size=SIZE)
