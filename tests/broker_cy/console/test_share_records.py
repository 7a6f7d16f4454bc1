"""Plans of operators' changes of records in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_records import EVERY_OFFSET, by_partition
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.plan import Command, execute
from broker_cy.console.acts.share_records import (
    parse_records,
    plan_copy,
    plan_redrive,
    plan_share_records,
    records_text,
    redrive_form,
)
from broker_cy.wire.share_operations import OperatorAction
from tests.support.fake_cluster import FakePool
from tests.support.fake_groups import CHECKOUT, ORDERS, FakeGroups

ORDERS_0, ORDERS_1 = TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1)
RELEASE, REJECT, REDRIVE = OperatorAction.RELEASE, OperatorAction.REJECT, OperatorAction.REDRIVE


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    found = FakeGroups()
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found


def drive(job: Callable[[AdminClient, Command], Awaitable[None]]) -> None:
    async def work() -> None:
        client = AdminClient("a:1")
        try:
            await job(client, Command(ClusterEntry("", client.caller.metadata.bootstrap), False))
        finally:
            await client.close()

    asyncio.run(work())


def test_a_release_warns_of_last_deliveries(groups: FakeGroups) -> None:
    """If this fails, an operator releases records and does not know that some of them will not be delivered again."""

    async def job(client: AdminClient, command: Command) -> None:
        wanted = {ORDERS_0: ((40, 41), (44, 44)), ORDERS_1: EVERY_OFFSET}
        plan = await plan_share_records(client, command, CHECKOUT, RELEASE, wanted, "s-0")
        assert plan.affected == (
            "6 records: available again immediately, for any member of the group, but 2 archived, because it was the "
            "last delivery of the record"
        )
        assert list(map(str, plan.changes)) == [
            "orders-0, offsets 40 to 41, 44: 4 records; 1 of them archived, after the last delivery",
            "orders-1: 2 records; 1 of them archived, after the last delivery",
        ]
        assert plan.command == (
            "broker-cy groups release checkout --records orders:0:40-41,44 --records orders:1 --member s-0 --yes "
            "--bootstrap a:1"
        )
        assert groups.changed == []
        report = await execute(client, plan)
        assert report.said == "released 6 records of group checkout"
        assert groups.changed == [
            (RELEASE, 0, [(40, 41), (44, 44)], "s-0"),
            (RELEASE, 1, [EVERY_OFFSET[0]], "s-0"),
        ]

    drive(job)


def test_brokers_that_cannot_change_records_are_named(groups: FakeGroups) -> None:
    """If this fails, an operator of Apache Kafka gets an error about a share session that it does not have."""
    groups.changes_records = False

    async def job(client: AdminClient, command: Command) -> None:
        plan = await plan_share_records(client, command, CHECKOUT, REJECT, {ORDERS_0: ((1, 2),)})
        assert "the broker cannot change records in flight" in plan.problem
        with pytest.raises(ClientError, match="cannot change records in flight"):
            await execute(client, plan)

    drive(job)


def test_a_redrive_has_a_form_for_records_before_the_start_offset(groups: FakeGroups) -> None:
    """If this fails, records that the group is done with cannot be delivered again."""
    form = redrive_form(CHECKOUT, {ORDERS_0: ((40, 41),), ORDERS_1: ((7, 7),)})
    checked = form.checked({})
    assert not checked.problems
    assert checked.values == {"records": {ORDERS_0: ((40, 41),), ORDERS_1: ((7, 7),)}, "topic": ""}
    assert set(form.checked({"records": "orders", "topic": "a b"}).problems) == {"records", "topic"}
    assert set(form.checked({"records": " "}).problems) == {"records"}

    async def job(client: AdminClient, command: Command) -> None:
        plan = await plan_redrive(client, command, CHECKOUT, checked.values)
        assert plan.affected == "4 records: delivered to the group again, at least once"
        assert not plan.is_destructive
        with pytest.raises(ClientError, match="a copy needs the offsets"):
            await plan_copy(client, command, CHECKOUT, {ORDERS_0: EVERY_OFFSET}, ORDERS)
        with pytest.raises(ClientError, match="at most 10,000 are copied at once"):
            await plan_copy(client, command, CHECKOUT, {ORDERS_0: ((0, 10_000),)}, ORDERS)
        with pytest.raises(ClientError, match="no records are selected"):
            await plan_share_records(client, command, CHECKOUT, REJECT, {})

    drive(job)


@pytest.mark.parametrize("text", ["orders:0", "orders:0:40", "orders:0:40-41,57", "a.b-c_d:12:0-3,5-9,11"])
def test_records_are_written_as_they_are_read(text: str) -> None:
    """If this fails, the command that a console shows is about other records."""
    assert records_text(*parse_records(text)) == text


def test_neighboring_ranges_become_one() -> None:
    """If this fails, marked neighbors are sent one by one, or some of them are lost."""
    assert by_partition([(ORDERS_0, 5, 6), (ORDERS_0, 1, 2), (ORDERS_0, 3, 4), (ORDERS_1, 0, 0)]) == {
        ORDERS_0: ((1, 6),),
        ORDERS_1: ((0, 0),),
    }
