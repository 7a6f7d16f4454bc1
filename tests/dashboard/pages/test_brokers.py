"""Brokers: their replicas, brokers that are down, partitions out of sync, and the quorum."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from broker_cy.admin.cluster import BrokerInfo, ClusterDescription, FeatureRange
from broker_cy.admin.quorum import QuorumDescription, QuorumEndpoint, QuorumReplica
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.uuid import to_text
from dashboard.collector.holdings import holdings_of
from dashboard.collector.ordering import CHUNK_ROWS, window_of
from dashboard.pages.broker_list import Brokers
from dashboard.security.roles import Scope
from tests.dashboard.pages.cluster_kit import cluster_of, log_dirs_of, plant, topic_of
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import VIEWER, Desk
from tests.support.broker import Target

# Broker 3 has replicas and is not in the cluster; broker 2 is fenced and out of sync.
THREE = (
    topic_of("orders", (1, (1, 2, 3), (1,)), (-1, (3,), (3,)), (1, (1,), (1,))),
    topic_of("secret", (1, (1, 2), (1, 2))),
)
# The directory of a voter that a configuration file lists.
STATIC = to_text(UUID(int=0))
SIZES = {1: {("orders", 0): 100, ("orders", 2): 30, ("secret", 0): 7}, 2: {("orders", 0): 60, ("secret", 0): 7}}


def three_brokers(desk: Desk) -> None:
    plant(desk, "cluster", cluster_of(1, 2, fenced=[2]))
    plant(desk, "topics", THREE)
    plant(desk, "log_dirs", log_dirs_of(SIZES))


def test_each_broker_with_what_it_holds_and_uses(broker: Target, topic: str) -> None:
    """If this fails, the page does not show which replicas a broker has, or leaves out the figures of its process."""

    async def job(desk: Desk) -> None:
        (await desk.hub.session.client.topics.create([NewTopic(topic, 3)])).whole()

        def is_known(state: Any) -> bool:
            cells = state["rows"][0]["cells"]
            return "-" not in (cells[4], cells[8], cells[11])

        rows = await desk.rows("brokers", is_known)
        (row,) = rows.values()
        assert row["address"] == broker.bootstrap
        assert int(row["leads"].replace(",", "")) >= 3
        assert (row["behind"], row["leads"]) == ("0", row["in-sync"])
        assert row["memory"].endswith("MiB")
        assert row["cpu"].endswith("%")
        chart = await desk.state("broker-cpu", lambda state: state["t"])
        assert [each["name"] for each in chart["series"] if not each["role"]] == ["CPU"]
        assert max(value for value in chart["v"][0] if value is not None) > 0

    drive(broker.bootstrap, job)


def test_shards_of_a_host_are_one_row_that_opens(broker: Target) -> None:
    """If this fails, a cluster of sharded hosts is a long list of processes, or a host's row shows one shard only."""
    infos = (
        BrokerInfo(1, "host-a", 9092, None, False),
        BrokerInfo(1001, "host-a", 9093, None, True),
        BrokerInfo(2, "host-b", 9092, None, False),
    )
    topics = (topic_of("orders", (1, (1, 2), (1, 2)), (2, (1001, 2), (2,)), (2, (2,), (2,))),)

    async def job(desk: Desk) -> None:
        plant(desk, "cluster", ClusterDescription("id", 1, infos))
        plant(desk, "topics", topics)
        plant(desk, "log_dirs", log_dirs_of({1: {("orders", 0): 100}, 1001: {("orders", 1): 30}}))
        rows = await desk.rows("brokers", lambda state: state["rows"] and state["rows"][0]["cells"][8] != "-")
        assert [(row["id"], row["address"], row["state"]) for row in rows.values()] == [
            ("1 +1", "host-a:9092-9093", "1 fenced"),
            ("2", "host-b:9092", "broker"),
        ]
        assert [(row["leads"], row["replicas"], row["behind"]) for row in rows.values()] == [
            ("1", "2", "1"),
            ("2", "3", "0"),
        ]
        assert (rows["1"]["logs"], rows["1"]["settings"]) == ("130 B", "")
        for asked in ("1", "1001"):
            shards = await desk.rows("brokers", lambda state: state["rows"][0]["cells"][8] != "-", host=asked)
            assert [(row["id"], row["state"], row["logs"]) for row in shards.values()] == [
                ("1", "controller", "100 B"),
                ("1001", "fenced", "30 B"),
            ]
        for wrong in ("x", "-1", "1" * 11):
            with pytest.raises(ClientError, match="the id of a broker is expected"):
                Brokers.check({"host": wrong})

    drive(broker.bootstrap, job)


def test_brokers_that_are_away_or_fenced_and_their_partitions(broker: Target) -> None:
    """If this fails, a broker that is down disappears from the page, and with it the reason why partitions are
    offline.
    """

    async def job(desk: Desk) -> None:
        three_brokers(desk)
        rows = await desk.rows("brokers", lambda state: len(state["rows"]) == 3 and state["rows"][0]["cells"][8] != "-")
        assert [row["state"] for row in rows.values()] == ["controller", "fenced", "away"]
        assert [row["leads"] for row in rows.values()] == ["3", "0", "0"]
        assert [row["replicas"] for row in rows.values()] == ["3", "2", "2"]
        assert [row["behind"] for row in rows.values()] == ["0", "1", "1"]
        assert [row["logs"] for row in rows.values()] == ["137 B", "67 B", "-"]
        troubled = await desk.rows("troubled-partitions")
        assert {name: row["state"] for name, row in troubled.items()} == {
            "orders-1": "offline",
            "orders-0": "under-replicated",
        }
        assert troubled["orders-0"]["missing"] == "2,3"
        facts = {name: value for name, value, _ in (await desk.state("replication"))["facts"]}
        assert (facts["partitions"], facts["offline"], facts["under-replicated"]) == ("4", "1", "1")
        assert list(await desk.rows("troubled-partitions", filter="offline")) == ["orders-1"]

    drive(broker.bootstrap, job)


def test_counts_and_names_of_other_topics_are_hidden(broker: Target) -> None:
    """If this fails, a viewer of some topics learns the number, sizes or names of other topics."""

    async def job(desk: Desk) -> None:
        three_brokers(desk)
        rows = await desk.rows("brokers", lambda state: len(state["rows"]) == 2 and state["rows"][0]["cells"][8] != "-")
        assert [(row["leads"], row["replicas"], row["logs"]) for row in rows.values()] == [
            ("1", "1", "7 B"),
            ("0", "1", "7 B"),
        ]
        facts = {name: value for name, value, _ in (await desk.state("replication"))["facts"]}
        assert (facts["topics"], facts["partitions"], facts["offline"]) == ("1", "1", "0")
        assert await desk.rows("troubled-partitions") == {}
        assert list(await desk.rows("broker-replicas", broker="1")) == ["secret-0"]
        assert (await desk.state("broker-replicas", broker="1"))["total"] == 1

    drive(broker.bootstrap, job, seeing(VIEWER, topics=("secret",)))


def test_replicas_of_one_broker_are_found_by_name_and_role(broker: Target) -> None:
    """If this fails, the replicas of a broker cannot be found, or their sizes are those of another broker
    (kafbat#1253).
    """

    async def job(desk: Desk) -> None:
        three_brokers(desk)
        rows = await desk.rows("broker-replicas", lambda state: state["rows"][0]["cells"][6] != "-", broker="2")
        assert {name: (row["role"], row["size"]) for name, row in rows.items()} == {
            "orders-0": ("out of sync", "60 B"),
            "secret-0": ("in sync", "7 B"),
        }
        assert rows["orders-0"]["directory"] == "/data-2"
        assert list(await desk.rows("broker-replicas", broker="2", filter="orders-0")) == ["orders-0"]
        assert list(await desk.rows("broker-replicas", broker="2", filter="out of")) == ["orders-0"]
        by_size = await desk.rows(
            "broker-replicas", lambda state: state["rows"][0]["cells"][6] == "100 B", broker="1", sort="size", desc="1"
        )
        assert list(by_size) == ["orders-0", "orders-2", "secret-0"]
        facts = {name: value for name, value, _ in (await desk.state("broker-facts", broker="3"))["facts"]}
        assert facts["state"] == "not in the cluster now, which has 1, 2"

    drive(broker.bootstrap, job)


def test_quorum_with_the_lag_of_each_replica(broker: Target) -> None:
    """If this fails, users cannot see that a voter of the metadata log fell behind."""

    async def job(desk: Desk) -> None:
        place = QuorumEndpoint("CONTROLLER", "10.0.0.1", 9093)
        voters = (QuorumReplica(1, "dir-1", 50, 0, 1, 5, (place,)), QuorumReplica(2, STATIC, 40, 10, 3, None))
        plant(desk, "quorum", QuorumDescription(1, 7, 49, voters, (QuorumReplica(9, "dir-9", 45, 5, 1, 5),)))
        plant(desk, "features", (FeatureRange("metadata.version", 1, 30, 29), FeatureRange("x", 0, 1, None)))
        rows = await desk.rows("quorum-replicas")
        assert {row["id"]: (row["role"], row["behind"], row["caught-up"]) for row in rows.values()} == {
            "1": ("leader", "0", "@5"),
            "2": ("voter", "10", "-"),
            "9": ("observer", "5", "@5"),
        }
        assert [(row["endpoints"], row["fetched"], row["directory"]) for row in rows.values()] == [
            ("CONTROLLER://10.0.0.1:9093", "-", "dir-1"),
            ("-", "@3", "-"),
            ("-", "@1", "dir-9"),
        ]
        facts = {name: value for name, value, _ in (await desk.state("quorum"))["facts"]}
        assert facts == {"leader": "1", "epoch": "7", "high watermark": "49", "voters": "2", "observers": "1"}
        assert {name: row["level"] for name, row in (await desk.rows("features")).items()} == {
            "metadata.version": "29",
            "x": "-",
        }

    drive(broker.bootstrap, job)


def test_a_cluster_without_quorum_says_so_as_no_error(broker: Target) -> None:
    """If this fails, a broker that cannot report its quorum looks as if something had failed."""

    async def job(desk: Desk) -> None:
        plant(desk, "quorum", ClientError(Failure.UNSUPPORTED, "the broker does not support DescribeQuorum"))
        looker = desk.look("quorum")
        assert await looker.failed() == "the broker does not support DescribeQuorum"
        assert looker.is_absent

    drive(broker.bootstrap, job)


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "2147483648", "99999999999", "١"])
def test_a_broker_that_cannot_be_is_refused(broker: Target, value: str) -> None:
    """If this fails, a mistyped address shows an empty page instead of an error."""

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError, match="broker"):
            desk.look("broker-replicas", broker=value)
        with pytest.raises(ClientError, match="broker"):
            layout_of(desk, "broker", broker=value)

    drive(broker.bootstrap, job)


def test_pages_name_their_panels(broker: Target) -> None:
    """If this fails, one of the pages cannot be shown, or lacks its acts."""

    async def job(desk: Desk) -> None:
        assert "troubled-partitions" in layout_of(desk, "brokers", range="1h")
        page = layout_of(desk, "broker", broker="1")
        assert "/broker-settings?broker=1" in page
        assert all(act in page for act in ("cordon-broker", "drain-broker", "decommission-broker"))
        assert "quorum-replicas" in layout_of(desk, "quorum")

    drive(broker.bootstrap, job)


def test_holdings_let_other_tasks_run() -> None:
    """If this fails, 200,000 partitions stop every other panel of the dashboard while they are counted."""

    async def run() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        topics = [topic_of(f"t-{number}", *[(1, (1, 2), (1, 2))] * 40) for number in range(5_000)]
        found = await holdings_of(topics, Scope())
        rows = [(f"{number}", number % 1_000) for number in range(10 * CHUNK_ROWS)]
        await window_of(rows, lambda row: row[1], lambda row: row[0], is_descending=True, first=0, count=100)
        task.cancel()
        assert (found.partitions, found.brokers[2].replicas, found.brokers[1].leads) == (200_000, 200_000, 200_000)
        assert turns > 10

    asyncio.run(run())


@pytest.mark.parametrize("is_descending", [False, True])
def test_windows_are_those_of_the_whole_order(is_descending: bool) -> None:
    """If this fails, a table leaves out rows or shows them twice while a user scrolls."""
    size = 2 * CHUNK_ROWS + 7
    rows = [(f"{(number * 7919) % size:05}", None if number % 5 == 0 else number % 13) for number in range(size)]
    known = sorted((row for row in rows if row[1] is not None), key=lambda row: row[0])
    known.sort(key=lambda row: row[1] or 0, reverse=is_descending)
    expected = known + sorted(row for row in rows if row[1] is None)

    async def run() -> None:
        found = []
        for first in range(0, size, 150):
            found += await window_of(
                rows, lambda row: row[1], lambda row: row[0], is_descending=is_descending, first=first, count=150
            )
        assert found == expected

    asyncio.run(run())
