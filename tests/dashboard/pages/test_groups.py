"""The list of groups: lag in records and time, members, order, acts, and the view of users with a limited scope."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.wire.records import Record
from tests.dashboard.pages.group_kit import committed, drive, layout_of, seeing
from tests.dashboard.support import OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.confluent import assigned, close_consumer, new_consumer
from tests.support.read_group import with_group


def test_lag_in_records_and_time_of_every_group(broker: Target, topic: str) -> None:
    """If this fails, the list shows a wrong lag, or does not show how old the unread records are."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 1)])).whole()
        now = int(time.time() * 1000)
        await client.records.producer().send(topic, [Record(timestamp=now - 3_600_000, value=b"x") for _ in range(10)])
        await client.group_offsets.alter(topic, {TopicPartition(topic, 0): 4})
        rows = await desk.rows(
            "groups",
            lambda state: any(each["id"] == topic and "h" in str(each["cells"][6]) for each in state["rows"]),
            filter=topic,
        )
        row = rows[topic]
        assert (row["state"], row["members"], row["partitions"], row["lag"]) == ("Empty", "0", "1", "6")
        # Exact, because it comes from the broker's commit event.
        assert row["time"].startswith("= 1 h")
        judged = await desk.rows(
            "groups",
            lambda state: any(each["id"] == topic and "STOPPED" in str(each["cells"][9]) for each in state["rows"]),
            filter=topic,
        )
        assert judged[topic]["verdict"] == "STOPPED"

    drive(broker.bootstrap, job)


def test_members_are_counted_for_groups_that_are_shown(broker: Target, topic: str) -> None:
    """If this fails, the list does not show whether a group has members, or describes 15,000 groups to show it."""

    async def job(desk: Desk) -> None:
        await with_group(desk.hub.session.client, topic)
        consumer = new_consumer(broker.bootstrap, topic)
        try:
            consumer.subscribe([topic])
            await assigned([consumer])
            looker = desk.look("groups", filter=topic)
            state = await looker.until(lambda state: state["rows"] and state["rows"][0]["cells"][3] == "1")
            assert state["rows"][0]["id"] == topic
            assert "Stable" in str(state["rows"][0]["cells"][1])
            # Other groups are not described.
            hidden = desk.look("groups", filter=topic, **{"from": "100"})
            assert (await hidden.until(lambda state: state["found"] == 1))["rows"] == []
        finally:
            await asyncio.to_thread(close_consumer, consumer)

    drive(broker.bootstrap, job)


def test_groups_are_sorted_by_state_then_lag(broker: Target, topic: str) -> None:
    """If this fails, the group with the largest lag is hidden on a later page."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic, f"{topic}-b")
        await client.group_offsets.alter(f"{topic}-a", {TopicPartition(topic, 0): 99})
        await client.group_offsets.alter(f"{topic}-c", {TopicPartition(topic, 0): 20})

        def known(state: dict[str, object]) -> bool:
            rows: list[dict[str, list[object]]] = state["rows"]  # type: ignore[assignment]
            return len(rows) == 3 and all(row["cells"][5] != "-" for row in rows)

        by_state = await desk.rows("groups", known, filter=topic)
        assert list(by_state) == [f"{topic}-{letter}" for letter in "bca"]
        by_lag = await desk.rows("groups", known, filter=topic, sort="lag")
        assert list(by_lag) == [f"{topic}-{letter}" for letter in "acb"]
        found = await desk.state("groups", known, filter=topic.upper())
        assert (found["found"], found["total"] >= 3) == (3, True)

    drive(broker.bootstrap, job)


def test_a_viewer_of_some_groups_and_topics_sees_only_their_part(broker: Target, topic: str) -> None:
    """If this fails, names, counts or lag of hidden groups and topics are sent to an account."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        (await client.topics.create([NewTopic(f"{topic}-secret", 1)])).whole()
        await client.records.producer().send(f"{topic}-secret", [Record(value=b"x") for _ in range(1_000)])
        await client.group_offsets.alter(topic, {TopicPartition(f"{topic}-secret", 0): 0})
        await client.group_offsets.alter(f"{topic}-other", {TopicPartition(topic, 0): 1})
        looker = desk.look("groups", filter=topic)
        await looker.until(lambda state: any(row["cells"][5] == "1,090" for row in state["rows"]))
        desk.identity = seeing(VIEWER, topics=(topic,), groups=(topic,))
        limited = desk.look("groups")
        state = await limited.until(lambda state: state["rows"] and state["rows"][0]["cells"][5] != "-")
        assert (state["total"], state["found"]) == (1, 1)
        cells = state["rows"][0]["cells"]
        assert (cells[4], cells[5]) == ("2", "90")
        assert "secret" not in str(limited.states)
        assert "other" not in str(limited.states)

    drive(broker.bootstrap, job)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"sort": "members"}, "cannot sort by 'members'"),
        ({"count": "5000"}, "a number from 1 to 200"),
        ({"cluster": "x"}, "unknown parameter 'cluster'"),
    ],
)
def test_bad_parameters_are_refused(broker: Target, params: dict[str, str], said: str) -> None:
    """If this fails, a browser can ask for work without bound, or a wrong link shows an empty page."""

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError, match=said):
            desk.look("groups", **params)

    drive(broker.bootstrap, job)


def test_marked_groups_are_deleted_after_their_name_is_typed(broker: Target, topic: str) -> None:
    """If this fails, unused groups cannot be deleted, or a slip of the hand deletes groups."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic, f"{topic}-1")
        await client.group_offsets.alter(f"{topic}-2", {TopicPartition(topic, 0): 7})
        marked = [f"{topic}-1", f"{topic}-2"]
        desk.identity = VIEWER
        with pytest.raises(ClientError, match="operator"):
            await desk.open("delete-groups", rows=marked)
        desk.identity = seeing(OPERATOR, groups=(f"{topic}-1",))
        with pytest.raises(ClientError, match=f"may not see group {topic}-2"):
            await desk.open("delete-groups", rows=marked)
        # Deleting a group deletes its offsets in hidden topics, which the account may neither delete nor see.
        desk.identity = seeing(OPERATOR, topics=("elsewhere",))
        with pytest.raises(ClientError, match="topics that olga-limited may not see"):
            await desk.open("delete-groups", rows=marked)
        desk.identity = OPERATOR
        plan = (await desk.open("delete-groups", rows=marked))["plan"]
        assert plan["affected"] == "permanently deletes the committed offsets of 3 partitions"
        assert plan["command"].startswith(f"broker-cy groups delete {topic}-1 {topic}-2 --yes --cluster")
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan, topic)
        assert await committed(client, f"{topic}-2") == {f"{topic}-0": 7}
        assert (await desk.execute(plan, plan["typed"]))["said"] == "deleted 2 groups"
        left = {group.group_id for group in await client.groups.listed()}
        assert not left & set(marked)
        assert desk.security.audit.entries[-1]["act"] == "delete-groups"

    drive(broker.bootstrap, job)


def test_a_read_only_dashboard_deletes_nothing(broker: Target, topic: str) -> None:
    """If this fails, --readonly does not protect groups."""

    async def job(desk: Desk) -> None:
        await with_group(desk.hub.session.client, topic)
        with pytest.raises(ClientError, match="read-only"):
            await desk.open("delete-groups", rows=[topic])

    drive(broker.bootstrap, job, is_readonly=True)


def test_the_page_is_built_with_any_query(broker: Target) -> None:
    """If this fails, a shared link with a filter shows an error instead of the groups."""

    async def job(desk: Desk) -> None:
        assert "All groups" in layout_of(desk, "groups", filter="x", sort="lag", desc="1")

    drive(broker.bootstrap, job)
