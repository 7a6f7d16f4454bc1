"""The page of one topic: partitions, traffic and writes over time, consumers, counts, acts."""

from __future__ import annotations

import time

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError
from broker_cy.wire.records import Record
from dashboard.pages import topic_charts, topic_count
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.pages.record_kit import add, make, numbered
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.read_group import BEGIN_MS, with_group


def test_partitions_and_facts(broker: Target, topic: str) -> None:
    """If this fails, offsets, sizes or leaders of partitions are wrong, or link to other records."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, numbered(5), 2)
        (await client.topics.delete_records({TopicPartition(topic, 0): 1})).whole()
        state = await desk.state("topic-partitions", lambda state: state["found"] == 2, topic=topic)
        first = state["rows"][0]["cells"][0]
        assert first == {"t": "0", "href": f"/c/test/records?topic={topic}&partitions=0"}
        rows = await desk.rows("topic-partitions", topic=topic)
        assert {key: rows["0"][key] for key in ("leader", "start", "end", "span", "state", "replicas", "in-sync")} == {
            "leader": "1", "start": "1", "end": "3", "span": "2", "state": "ok", "replicas": "1", "in-sync": "1",
        }  # fmt: skip
        assert rows["1"]["directory"] == str(broker.data_dir)
        facts = dict(each[:2] for each in (await desk.state("topic-facts", topic=topic))["facts"])
        assert (facts["partitions"], facts["offsets"]) == ("2", "4")
        assert topic in await desk.look("topic-partitions", topic=f"{topic}-absent").failed()

    drive(broker.bootstrap, work)


def test_consumers_with_their_lag_in_this_topic(broker: Target, topic: str) -> None:
    """If this fails, a group's lag in other topics counts here, or a hidden group is shown."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        other = f"{topic}-other"
        await with_group(client, other, topic)
        await with_group(client, f"{topic}-third", f"{topic}-third")
        rows = await desk.rows("topic-consumers", lambda state: state["found"] == 1, topic=topic)
        assert {key: rows[topic][key] for key in ("partitions", "lag")} == {"partitions": "2", "lag": "90"}
        desk.identity = seeing(VIEWER, groups=("else*",))
        assert (await desk.state("topic-consumers", topic=topic))["total"] == 0

    drive(broker.bootstrap, work)


def test_writes_by_partition_over_time(broker: Target, topic: str) -> None:
    """If this fails, the heat map shows writes at another time, or in another partition, or forgets deleted ones."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, [], 2)
        # 60 records in the first minute of partition 0, and 30 in the second one of partition 1.
        minute = 60_000
        start = BEGIN_MS // minute * minute
        await client.records.producer().send(
            topic, [Record(timestamp=start + at * 1_000, value=b"") for at in range(60)], partition=0
        )
        await client.records.producer().send(
            topic, [Record(timestamp=start + minute + at * 2_000, value=b"") for at in range(30)], partition=1
        )
        over = f"{start - minute}-{start + 59 * minute}"
        state = await desk.state("topic-heat", topic=topic, range=over)
        assert state["unit"] == "/s"
        assert [each["name"] for each in state["series"]] == ["partition 0", "partition 1"]
        assert state["t"][:3] == [start - minute, start, start + minute]
        assert [values[:4] for values in state["v"]] == [[0, 1.0, 0, 0], [0, 0, 0.5, 0]]
        assert sum(state["v"][0]) == 1.0

    drive(broker.bootstrap, work)


@pytest.mark.parametrize(
    ("length_ms", "step_ms"),
    [(600_000, 10_000), (3_600_000, 60_000), (604_800_000, 10_800_000), (34_560_000_000, 604_800_000)],
)
def test_columns_are_round_times(length_ms: int, step_ms: int) -> None:
    """If this fails, a heat map asks for thousands of offsets, or its columns begin at odd times."""
    assert topic_charts.step_of(length_ms) == step_ms


def test_traffic_of_a_topic(broker: Target, topic: str) -> None:
    """If this fails, a topic that is not among the busiest has no chart, or shows the traffic of others."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, [], 1)
        await make(client, f"{topic}-idle", [])
        await add(client, topic, [Record(timestamp=BEGIN_MS, value=b"x" * 10_000)])
        busy = await desk.state(
            "topic-traffic",
            lambda state: any(max(filter(None, values), default=0) > 5_000 for values in state["v"]),
            topic=topic,
        )
        assert [each["name"] for each in busy["series"] if not each["role"]] == ["in", "out"]
        assert busy["unit"] == "B/s"
        idle = await desk.state("topic-traffic", lambda state: state["t"], topic=f"{topic}-idle")
        assert all(not value for values in idle["v"] for value in values)
        # This range is read from the samples.
        now = int(time.time() * 1000)
        over = f"{now - 3_600_000}-{now + 60_000}"
        read = await desk.state("topic-traffic", lambda state: state["t"], topic=f"{topic}-idle", range=over)
        assert [each["name"] for each in read["series"]] == ["in", "out"]
        desk.identity = seeing(VIEWER, topics=("else*",))
        for channel in ("topic-traffic", "topic-heat", "topic-facts", "topic-partitions", "topic-consumers"):
            with pytest.raises(ClientError, match="may not see topic"):
                desk.look(channel, topic=topic)
        with pytest.raises(ClientError, match="may not see topic"):
            layout_of(desk, "topic", topic=topic)

    drive(broker.bootstrap, work)


def test_records_are_counted(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the only exact number of records is wrong, or many counts at the same time stop the dashboard."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(300), 3)
        for partitions, expected in (("all", "300"), ("0,2", "200")):
            looker = desk.look("record-count", topic=topic, partitions=partitions)
            state = await looker.until(lambda state: dict(each[:2] for each in state["facts"])["state"] == "complete")
            assert dict(each[:2] for each in state["facts"])["records"] == expected
        with pytest.raises(ClientError, match="partitions such as"):
            desk.look("record-count", topic=topic, partitions="x")
        monkeypatch.setattr(topic_count, "COUNTS_MAX", 0)
        assert "0 countings are running" in await desk.look("record-count", topic=topic, partitions="1").failed()

    drive(broker.bootstrap, work)


def test_acts_on_a_topic(broker: Target, topic: str) -> None:
    """If this fails, a topic cannot be grown, cloned or trimmed, or can be by a user without permission."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, numbered(10), 2)
        desk.identity = OPERATOR
        assert "Total (now 2)" in str(await desk.open("add-partitions", topic=topic))
        assert "total" in (await desk.plan("add-partitions", {"total": "2"}, topic=topic))["problems"]
        plan = (await desk.plan("add-partitions", {"total": "3"}, topic=topic))["plan"]
        assert plan["command"].startswith(f"broker-cy topics grow {topic} --to 3")
        assert (await desk.execute(plan))["said"] == f"topic {topic} now has 3 partitions"
        plan = (await desk.plan("clone-topic", {"name": f"{topic}-copy"}, topic=topic))["plan"]
        await desk.execute(plan)
        assert len(await client.records.partitions(f"{topic}-copy")) == 3
        with pytest.raises(ClientError, match="needs the role admin"):
            await desk.open("delete-records", topic=topic)
        with pytest.raises(ClientError, match="needs the role admin"):
            await desk.open("delete-topics", topic=topic)
        desk.identity = seeing(OPERATOR, topics=(topic,))
        with pytest.raises(ClientError, match="may not see topic secret"):
            await desk.plan("clone-topic", {"name": "secret"}, topic=topic)
        desk.identity = ADMIN
        assert (
            "partitions"
            in (await desk.plan("delete-records", {"before": "2", "partitions": "9"}, topic=topic))["problems"]
        )
        plan = (await desk.plan("delete-records", {"before": "2", "partitions": "0"}, topic=topic))["plan"]
        assert (plan["typed"], plan["changes"]) == (topic, ["partition 0: start 0 -> 2"])
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan, "other")
        await desk.execute(plan, topic)
        starts = await client.offsets.earliest([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert sorted(starts.found.values()) == [0, 2]
        await desk.execute((await desk.open("delete-topics", topic=f"{topic}-copy"))["plan"], f"{topic}-copy")
        assert f"{topic}-copy" not in [each.name for each in await client.topics.list_all()]

    drive(broker.bootstrap, work)


def test_the_page(broker: Target, topic: str) -> None:
    """If this fails, a part of the page is missing, or a wrong address fails with a traceback."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [])
        page = layout_of(desk, "topic", topic=topic, range="1h", counted="0,2")
        for channel in (
            "topic-facts",
            "topic-traffic",
            "topic-heat",
            "topic-partitions",
            "topic-consumers",
            "record-count",
        ):
            assert f'"channel": "{channel}"' in page
        for query, reason in (({}, "names no topic"), ({"topic": topic, "range": "x"}, "range 'x'"),
                              ({"topic": topic, "counted": "x"}, "partitions such as")):  # fmt: skip
            with pytest.raises(ClientError, match=reason):
                layout_of(desk, "topic", **query)

    drive(broker.bootstrap, work)
