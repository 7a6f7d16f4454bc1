"""Groups: lag, reset by every rule, forget, delete, rebalances."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import Terminal, drive
from tests.support.broker import BrokerProcess
from tests.support.confluent import assigned, close_consumer, new_consumer
from tests.support.read_group import RESETS, with_group


async def committed(terminal: Terminal, name: str) -> dict[int, int]:
    offsets = (await terminal.client.group_offsets.fetch([name])).whole()[name]
    return {key.partition: each.offset for key, each in offsets.items()}


@pytest.mark.parametrize(
    ("fields", "expected", "option"),
    [*RESETS[:4], *(pytest.param(*each, marks=pytest.mark.full) for each in RESETS[4:])],
)
def test_reset_by_each_rule(
    broker_cy: BrokerProcess, name: str, fields: dict[str, str], expected: dict[int, int], option: str
) -> None:
    """If this fails, a group rereads the wrong records, or the preview is wrong."""

    async def job(terminal: Terminal) -> None:
        await with_group(terminal.client, name)
        await terminal.client.group_offsets.alter(f"{name}-other", {TopicPartition(name, 0): 11})
        before = await committed(terminal, name)
        await terminal.command(f"group {name}")
        await terminal.shows(f"{name}-1", "lag 90")
        await terminal.press("r")
        await terminal.fill(**{field: value.replace("NAME", name) for field, value in fields.items()})
        for partition, offset in expected.items():
            if before[partition] != offset:
                await terminal.shows(f"{name}-{partition}: {before[partition]} -> {offset}")
        await terminal.shows(option.replace("NAME", name))
        assert await committed(terminal, name) == before
        await terminal.press("tab", "enter")
        await terminal.hides("Cancel")
        assert await committed(terminal, name) == expected

    drive(broker_cy.bootstrap, job, size=(160, 50))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rule": "offset"}, "an offset is expected"),
        pytest.param({"rule": "offset", "value": "-1"}, "0 or more", marks=pytest.mark.full),
        ({"rule": "time", "value": "tomorrow"}, "is not a time"),
        pytest.param({"rule": "earliest", "value": "5"}, "earliest takes no value", marks=pytest.mark.full),
        pytest.param({"rule": "listed", "value": "orders=5"}, "topic:partition=offset", marks=pytest.mark.full),
        ({"rule": "backwards"}, "one of earliest, latest"),
        ({"rule": "earliest", "topics": "orders:x"}, "partitions such as"),
    ],
)
def test_a_bad_rule_is_shown_beside_its_field(
    broker_cy: BrokerProcess, name: str, fields: dict[str, str], said: str
) -> None:
    """If this fails, something is sent that the user did not intend."""

    async def job(terminal: Terminal) -> None:
        await with_group(terminal.client, name)
        await terminal.command(f"group {name}")
        await terminal.shows("lag 90")
        await terminal.press("r")
        await terminal.fill(**fields)
        await terminal.shows(said)
        assert await committed(terminal, name) == {0: 50, 1: 60}

    drive(broker_cy.bootstrap, job)


def test_a_group_with_members_is_not_touched(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a reset or deletion of an active group is tried, and its members continue at other offsets."""

    async def job(terminal: Terminal) -> None:
        await with_group(terminal.client, name)
        consumer = new_consumer(broker_cy.bootstrap, name, **{"client.id": "worker-7"})
        try:
            consumer.subscribe([name])
            await assigned([consumer])
            await terminal.command(f"group {name}")
            await terminal.shows("worker-7", f"{name} 0-1", "Stable")
            await terminal.press("r")
            await terminal.fill(rule="earliest")
            await terminal.shows("NON_EMPTY_GROUP", "worker-7")
            await terminal.press("escape", "ctrl+d")
            await terminal.shows("1 member; stop them first")
            await terminal.press("escape")
        finally:
            await asyncio.to_thread(close_consumer, consumer)

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_forget_offsets_and_delete(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, an unused group cannot be deleted, or one key deletes it."""

    async def job(terminal: Terminal) -> None:
        await with_group(terminal.client, name)
        await terminal.command(f"group {name}")
        await terminal.shows(f"{name}-1")
        await terminal.press("space", "x")
        await terminal.shows(f"{name}-0: 50 -> (none)", f"groups delete-offsets {name} --topic {name}:0 --yes")
        await terminal.type(name)
        await terminal.press("enter")
        await terminal.shows("deleted the committed offsets of 1 partition")
        assert await committed(terminal, name) == {1: 60}
        await terminal.press("ctrl+d")
        await terminal.shows("permanently deletes the committed offsets of 1 partition")
        await terminal.type(name)
        await terminal.press("enter")
        await terminal.goes_to("groups")
        assert name not in {group.group_id for group in await terminal.client.groups.listed()}

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_lag_in_records_and_time_and_the_verdict(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, lag is a single number without a unit or a trend."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 1)])).whole()
        now = int(time.time() * 1000)
        records = [Record(timestamp=now - 3_600_000, value=b"x") for _ in range(10)]
        await terminal.client.records.producer().send(name, records)
        await terminal.client.group_offsets.alter(name, {TopicPartition(name, 0): 4})
        await terminal.command("groups")
        await terminal.goes_to("groups")
        terminal.app.screen.filter(name)  # type: ignore[attr-defined]
        await terminal.shows(name, "Empty")
        await terminal.until(lambda: "  6  " in terminal.text(), "a lag of 6")
        await terminal.press("enter")
        # Exactly one hour, either from the broker's commit event or from the record itself.
        await terminal.shows("1 h", "lag 6")
        await terminal.shows("STOPPED")
        # The records that the group has not read, from its committed offset on.
        terminal.app.screen.action_messages()  # type: ignore[attr-defined]
        await terminal.goes_to("messages")
        await terminal.shows(f"{name} · 6")

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_the_rebalance_journal(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, users cannot find out why a group stopped consuming."""

    async def job(terminal: Terminal) -> None:
        await with_group(terminal.client, name)
        first = new_consumer(broker_cy.bootstrap, name, **{"client.id": "first"})
        second = new_consumer(broker_cy.bootstrap, name, **{"client.id": "second"})
        try:
            first.subscribe([name])
            await assigned([first])
            second.subscribe([name])
            await assigned([first, second])
            await terminal.command(f"rebalances {name}")
            await terminal.until(lambda: terminal.app.screen.query_one("Grid").rows, "a rebalance")  # type: ignore[attr-defined]
            await terminal.shows("1 → 2", "join", "moves:", "target")
        finally:
            for consumer in (first, second):
                await asyncio.to_thread(close_consumer, consumer)

    drive(broker_cy.bootstrap, job, size=(160, 50))
