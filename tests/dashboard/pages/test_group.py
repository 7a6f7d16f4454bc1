"""The page of one group: facts, lag by partition, members, lag over time, and resetting and deleting its offsets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_cy.admin.group_lag import PartitionLag
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.console.session import now_ms
from tests.dashboard.pages.group_kit import committed, drive, layout_of, seeing, until
from tests.dashboard.support import OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.confluent import assigned, close_consumer, new_consumer
from tests.support.read_group import BEGIN_MS, RESETS, with_group


def facts(state: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value, _ in state["facts"]}


def test_facts_and_lag_of_each_partition(broker: Target, topic: str) -> None:
    """If this fails, users cannot tell which partition is behind, by how much, and since when."""

    async def job(desk: Desk) -> None:
        await with_group(desk.hub.session.client, topic)
        shown = facts(await desk.state("group-facts", group=topic))
        assert (shown["state"], shown["lag"], shown["members"], shown["partitions"]) == ("Empty", "90", "0", "2")
        looker = desk.look("group-lag", group=topic)
        # The commit event, and with it the exact time lag, follows within a second.
        state = await looker.until(lambda state: len(state["rows"]) == 2 and "=" in str(state["rows"][0]["cells"][4]))
        first = state["rows"][0]["cells"]
        assert first[0] == f"{topic}-0"
        assert first[1] == {"t": "50", "href": f"/c/test/records?topic={topic}&from=50&partitions=0"}
        assert (first[2], first[3]) == ("100", "50")
        # Years, because the records are from 2023.
        assert first[4].startswith("= ")
        assert " d" in first[4]
        by_lag = await desk.state("group-lag", group=topic, sort="lag")
        assert [row["id"] for row in by_lag["rows"]] == [f"{topic}-1", f"{topic}-0"]

    drive(broker.bootstrap, job)


def test_members_with_their_assignment(broker: Target, topic: str) -> None:
    """If this fails, users cannot tell which consumer has a partition."""

    async def job(desk: Desk) -> None:
        await with_group(desk.hub.session.client, topic)
        consumer = new_consumer(broker.bootstrap, topic, **{"client.id": "worker-7"})
        try:
            consumer.subscribe([topic])
            await assigned([consumer])
            (row,) = (await desk.rows("group-members", lambda state: state["rows"], group=topic)).values()
            assert (row["client"], row["partitions"], row["assigned"]) == ("worker-7", "2", f"{topic} 0-1")
            lag = await desk.rows("group-lag", lambda state: state["rows"], group=topic)
            assert {each["owner"] for each in lag.values()} == {"worker-7"}
            # An active group is not changed: its members would continue at other offsets.
            with pytest.raises(ClientError, match="worker-7"):
                await desk.plan("reset-group", {"rule": "earliest"}, group=topic)
            plan = (await desk.open("delete-groups", group=topic))["plan"]
            assert plan["problem"] == f"{topic} has 1 member; stop them first"
            with pytest.raises(ClientError, match="stop them first"):
                await desk.execute(plan, topic)
            desk.identity = seeing(VIEWER, topics=("elsewhere",))
            limited = await desk.rows("group-members", lambda state: state["rows"], group=topic)
            assert [each["assigned"] for each in limited.values()] == ["-"]
        finally:
            await asyncio.to_thread(close_consumer, consumer)

    drive(broker.bootstrap, job)


@pytest.mark.parametrize(
    "channel", ["group-facts", "group-lag", "group-members", "group-lag-records", "group-lag-time"]
)
def test_a_group_that_may_not_be_seen_is_refused(broker: Target, topic: str, channel: str) -> None:
    """If this fails, a link shows the group of another team."""

    async def job(desk: Desk) -> None:
        desk.identity = seeing(VIEWER, groups=("mine",))
        with pytest.raises(ClientError, match=f"may not see group {topic}"):
            desk.look(channel, group=topic)
        with pytest.raises(ClientError, match="'group' is missing"):
            desk.look(channel)

    drive(broker.bootstrap, job)


def test_a_viewer_of_one_topic_sees_nothing_of_the_others(broker: Target, topic: str) -> None:
    """If this fails, offsets and names of topics are sent to accounts that may not see them."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        (await client.topics.create([NewTopic(f"{topic}-secret", 1)])).whole()
        await client.group_offsets.alter(topic, {TopicPartition(f"{topic}-secret", 0): 0})
        await until_lines(desk, topic, 3)
        desk.identity = seeing(VIEWER, topics=(topic,))
        names = ("group-facts", "group-lag", "group-lag-records", "group-lag-time")
        lookers = [desk.look(name, group=topic) for name in names]
        shown = facts(await lookers[0].until(lambda state: state["facts"]))
        assert (shown["partitions"], shown["lag"]) == ("2", "90")
        assert len((await lookers[1].until(lambda state: state["rows"]))["rows"]) == 2
        for looker in lookers[2:]:
            await looker.until(lambda state: len(state["series"]) == 2)
        assert "secret" not in str([looker.states for looker in lookers])

    drive(broker.bootstrap, job)


async def until_lines(desk: Desk, group: str, lines: int) -> dict[str, Any]:
    state: dict[str, Any] = await desk.state(
        "group-lag-records", lambda state: len(state["series"]) == lines, group=group
    )
    return state


def is_reported(desk: Desk, group: str, key: TopicPartition, offset: int) -> bool:
    """Return whether the event of a commit was seen."""
    return desk.hub.session.events.commits.at(group, PartitionLag(key, offset, 0, None)) is not None


def test_lag_over_time_is_live_and_begins_before_the_page_was_opened(broker: Target, topic: str) -> None:
    """If this fails, the chart of a group is empty when it is opened, or does not update."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        first = TopicPartition(topic, 0)
        # A broker reports at most one commit per second: the first one is reported once a later event exists.
        for offset in (55, 70, 90):
            before = len(desk.hub.session.events.commits)
            await client.group_offsets.alter(topic, {first: offset})
            await until(
                lambda offset=offset: is_reported(desk, topic, first, offset),  # type: ignore[misc]
                f"the event of the commit of {offset}, after {before} others",
            )
        looker = desk.look("group-lag-records", group=topic)
        state = await looker.until(lambda state: 45 in state["v"][0] and 10 in state["v"][0])
        assert [each["name"] for each in state["series"]] == [f"{topic}-0", f"{topic}-1"]
        assert state["t"] == sorted(state["t"])
        assert "at the group's commits" in state["note"]
        # Live: the next commit is a sample two seconds later.
        await client.group_offsets.alter(topic, {first: 97})
        state = await looker.until(lambda state: state["v"][0][-1] == 3)
        assert state["connect"] is True
        times = await desk.state("group-lag-time", lambda state: state["v"], group=topic)
        assert times["unit"] == "duration"
        age_ms = now_ms() - (BEGIN_MS + 97_000)
        newest = next(value for value in reversed(times["v"][0]) if value is not None)
        assert abs(newest - age_ms) < 120_000

    drive(broker.bootstrap, job)


def test_a_range_is_read_from_the_commits_once_for_both_charts(broker: Target, topic: str) -> None:
    """If this fails, past lag cannot be seen, or each chart of a page reads the events topic separately."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        key = TopicPartition(topic, 1)
        await until(lambda: is_reported(desk, topic, key, 60), "the event of the commit")
        records = desk.look("group-lag-records", group=topic, range="1h")
        times = desk.look("group-lag-time", group=topic, range="1h")
        assert len(desk.hub.group_readings) == 1
        state = await records.until(lambda state: state["v"])
        assert [max(value for value in line if value is not None) for line in state["v"]] == [50, 40]
        assert 3_500_000 < state["to_ms"] - state["from_ms"] <= 3_600_000
        late = await times.until(lambda state: state["v"])
        # The lag at the commit is the age that the record at offset 60 had then.
        peak = max(value for value in late["v"][1] if value is not None)
        assert abs(peak - (now_ms() - BEGIN_MS - 60_000)) < 120_000
        for live in list(desk.hub.lives.values()):
            await live.close()
        assert len(desk.hub.group_readings) == 0

    drive(broker.bootstrap, job)


def test_a_bad_range_is_refused(broker: Target) -> None:
    """If this fails, a wrong link reads months of events, or shows nothing without a reason."""

    async def job(desk: Desk) -> None:
        for bad in ("2h", "5-4", f"{BEGIN_MS}-{BEGIN_MS - 1}"):
            with pytest.raises(ClientError, match="range"):
                desk.look("group-lag-records", group="g", range=bad)

    drive(broker.bootstrap, job)


@pytest.mark.parametrize(
    ("values", "expected", "option"),
    RESETS,
)
def test_reset_by_each_rule(
    broker: Target, topic: str, values: dict[str, str], expected: dict[int, int], option: str
) -> None:
    """If this fails, a group rereads the wrong records, or the preview is wrong."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        await client.group_offsets.alter(f"{topic}-other", {TopicPartition(topic, 0): 11})
        before = {0: 50, 1: 60}
        typed = {name: value.replace("NAME", topic) for name, value in values.items()}
        plan = (await desk.plan("reset-group", typed, group=topic))["plan"]
        changes = " ".join(plan["changes"])
        for partition, offset in expected.items():
            if before[partition] != offset:
                assert f"{topic}-{partition}: {before[partition]} -> {offset}" in changes
        assert option.replace("NAME", topic) in f"{changes} {plan['command']}"
        assert await committed(client, topic) == {f"{topic}-{each}": at for each, at in before.items()}
        await desk.execute(plan)
        assert await committed(client, topic) == {f"{topic}-{each}": at for each, at in expected.items()}

    drive(broker.bootstrap, job, OPERATOR)


def test_the_latest_offsets_of_marked_partitions_are_filled_in(broker: Target, topic: str) -> None:
    """If this fails, users have to look up and type every offset to change one (kafbat#1946)."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        rows = [f"{topic}-1", f"{topic}-0"]
        form = (await desk.open("reset-group", rows=rows, group=topic))["form"]
        values = {field["name"]: field["value"] for field in form["fields"]}
        assert values == {"rule": "listed", "value": f"{topic}:0=100,{topic}:1=100", "topics": f"{topic}:0-1"}
        values["value"] = f"{topic}:0=100,{topic}:1=99"
        plan = (await desk.plan("reset-group", values, rows=rows, group=topic))["plan"]
        await desk.execute(plan)
        assert await committed(client, topic) == {f"{topic}-0": 100, f"{topic}-1": 99}

    drive(broker.bootstrap, job)


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"rule": "offset"}, "value", "an offset is expected"),
        ({"rule": "offset", "value": "-1"}, "value", "0 or more"),
        ({"rule": "time", "value": "tomorrow"}, "value", "is not a time"),
        ({"rule": "earliest", "value": "5"}, "value", "earliest takes no value"),
        ({"rule": "listed", "value": "orders=5"}, "value", "topic:partition=offset"),
        ({"rule": "backwards"}, "rule", "one of earliest, latest"),
        ({"rule": "earliest", "topics": "orders:x"}, "topics", "partitions such as"),
    ],
)
def test_a_bad_rule_is_reported_at_its_field(
    broker: Target, topic: str, values: dict[str, str], field: str, said: str
) -> None:
    """If this fails, a plan is made that the user did not intend."""

    async def job(desk: Desk) -> None:
        await with_group(desk.hub.session.client, topic)
        answer = await desk.plan("reset-group", values, group=topic)
        assert said in answer["problems"][field]
        assert await committed(desk.hub.session.client, topic) == {f"{topic}-0": 50, f"{topic}-1": 60}

    drive(broker.bootstrap, job)


def test_a_reset_stays_within_the_scope(broker: Target, topic: str) -> None:
    """If this fails, an account changes or reads offsets of topics and groups that it may not see."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        (await client.topics.create([NewTopic(f"{topic}-secret", 1)])).whole()
        await client.group_offsets.alter(topic, {TopicPartition(f"{topic}-secret", 0): 0})
        desk.identity = VIEWER
        with pytest.raises(ClientError, match="operator"):
            await desk.open("reset-group", group=topic)
        desk.identity = seeing(OPERATOR, topics=(topic,), groups=(topic,))
        form = (await desk.open("reset-group", group=topic))["form"]
        assert f"{topic}-secret" not in str(form)
        refused = [
            ({"rule": "earliest"}, "enter the topics"),
            ({"rule": "earliest", "topics": f"{topic}-secret"}, "may not see topic"),
            ({"rule": "listed", "value": f"{topic}-secret:0=1"}, "may not see topic"),
            ({"rule": "as group", "value": f"{topic}-other"}, "may not see group"),
        ]
        for values, said in refused:
            with pytest.raises(ClientError, match=said):
                await desk.plan("reset-group", values, group=topic)
        with pytest.raises(ClientError, match="may not see topic"):
            await desk.open("delete-group-offsets", rows=[f"{topic}-secret-0"], group=topic)
        with pytest.raises(ClientError, match="a topic, - and the number"):
            await desk.open("delete-group-offsets", rows=["nonsense"], group=topic)
        plan = (await desk.plan("reset-group", {"rule": "earliest", "topics": topic}, group=topic))["plan"]
        await desk.execute(plan)
        assert await committed(client, topic) == {f"{topic}-0": 0, f"{topic}-1": 0, f"{topic}-secret-0": 0}

    drive(broker.bootstrap, job)


def test_offsets_of_marked_partitions_are_deleted(broker: Target, topic: str) -> None:
    """If this fails, an unused offset cannot be deleted, or is deleted without a prompt for its name."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        with pytest.raises(ClientError, match="no partition is selected"):
            await desk.open("delete-group-offsets", group=topic)
        plan = (await desk.open("delete-group-offsets", rows=[f"{topic}-0"], group=topic))["plan"]
        assert plan["changes"] == [f"{topic}-0: 50 -> (none)"]
        assert f"groups delete-offsets {topic} --topic {topic}:0 --yes" in plan["command"]
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan)
        await desk.execute(plan, topic)
        assert await committed(client, topic) == {f"{topic}-1": 60}

    drive(broker.bootstrap, job, OPERATOR)


def test_the_page_is_built_with_its_links(broker: Target) -> None:
    """If this fails, the page of a group shows an error, or does not link to its rebalances."""

    async def job(desk: Desk) -> None:
        built = layout_of(desk, "group", group="g/1 <b>", range="1h", **{"lag-by-partition-filter": "x"})
        assert "/c/test/rebalances?group=g%2F1+%3Cb%3E&range=1h" in built
        with pytest.raises(ClientError, match="'group' is missing"):
            layout_of(desk, "group")

    drive(broker.bootstrap, job)
