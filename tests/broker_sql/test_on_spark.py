"""Queries of SQL in one driver on Spark: they come, end at a commit, and go on there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_sql import dialect
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import Catalog
from broker_sql.functions import standard
from broker_sql.planner import plan
from broker_streams.plan.topology import Topology
from tests.spark_analytics.conftest import quick_jvms, sigint_as_before
from tests.support import needs
from tests.support.broker import QUICK, BrokerProcess

pytestmark = [pytest.mark.full, pytest.mark.timeout(320)]
WAIT_S = 120.0
STATEMENTS = """
    CREATE STREAM orders (id STRING KEY, item STRING, price DECIMAL(6, 2), quantity INT)
        WITH (kafka_topic = 'orders', value_format = 'JSON', partitions = 2);
    CREATE STREAM large AS SELECT id, UCASE(item) AS item, price * quantity AS total FROM orders
        WHERE quantity > 1 AND item LIKE 't%' EMIT CHANGES;
    CREATE TABLE counts AS SELECT item, COUNT(*) AS orders, SUM(quantity) AS pieces FROM orders
        GROUP BY item EMIT CHANGES;
"""


def topologies() -> dict[str, Topology]:
    """The queries of the statements, by their names."""
    catalog, settings = Catalog(), Settings(standard(), {"ksql.service.id": "on_spark"})
    found = {}
    for statement in dialect.parse(STATEMENTS):
        planned = plan(statement, catalog, settings)
        catalog = catalog.apply_all(planned.changes)
        if planned.topology is not None and planned.sink is not None:
            found[planned.sink.name] = planned.topology.plan
    return found


async def order(client: AdminClient, *orders: tuple[str, str, int]) -> None:
    made = [
        Record(
            timestamp=1, key=key.encode(), value=json.dumps({"ITEM": item, "PRICE": 1.5, "QUANTITY": count}).encode()
        )
        for key, item, count in orders
    ]
    await client.records.producer().send("orders", made, partition=0)


async def values(client: AdminClient, topic: str) -> list[tuple[str, Any]]:
    keys = [TopicPartition(topic, number) for number in range(2)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found = []
    async with client.records.reader(dict.fromkeys(keys, 0), ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            found += [((each.key or b"").decode(), json.loads(each.value or b"null")) for each in chunk.records]
    return found


async def until(client: AdminClient, topic: str, holds: Callable[[list[tuple[str, Any]]], bool]) -> Any:
    async with asyncio.timeout(WAIT_S):
        while not holds(found := await values(client, topic)):
            await asyncio.sleep(0.1)
    return found


async def run_queries(broker: BrokerProcess, config: Mapping[str, Any]) -> None:
    from broker_streams.hosts.spark.application import SparkApplication
    from broker_streams.hosts.spark.host import SparkHost

    made = topologies()
    assert sorted(made) == ["COUNTS", "LARGE"]

    def application(name: str) -> SparkApplication:
        return SparkApplication(made[name], {**config, "application.id": f"query-{name}"})

    host = SparkHost([], master="local[2]", serves=True)
    await asyncio.to_thread(host.start)
    running = asyncio.create_task(host.run())
    async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
        (await client.topics.create([NewTopic(name, 2, 1) for name in ("orders", "LARGE", "COUNTS")])).whole()
        await order(client, ("1", "tea", 3), ("2", "milk", 2), ("3", "tart", 1))
        await host.add(application("LARGE"))
        await host.add(application("COUNTS"))
        with pytest.raises(ValueError, match="application query-LARGE runs already"):
            await host.add(application("LARGE"))
        assert await until(client, "LARGE", bool) == [("1", {"ITEM": "TEA", "TOTAL": 4.5})]
        await until(client, "COUNTS", lambda found: len(found) == 3)
        # LARGE ends, and the other goes on.
        await host.remove("query-LARGE")
        await order(client, ("4", "tea", 5))
        found = await until(client, "COUNTS", lambda found: len(found) == 4)
        assert found[-1] == ("tea", {"ORDERS": 2, "PIECES": 8})
        assert len(await values(client, "LARGE")) == 1
        # It goes on at its last commit.
        await host.add(application("LARGE"))
        found = await until(client, "LARGE", lambda found: len(found) == 2)
        assert found == [("1", {"ITEM": "TEA", "TOTAL": 4.5}), ("4", {"ITEM": "TEA", "TOTAL": 7.5})]
        with pytest.raises(ValueError, match="application other does not run"):
            await host.remove("other")
    host.stop()
    await asyncio.wait_for(running, WAIT_S)


def test_queries_come_and_go_in_one_driver(tmp_path: Path) -> None:
    needs.require(needs.spark())
    broker = BrokerProcess(tmp_path / "broker", {**QUICK, "log.retention.ms": "-1"})
    try:
        config = {
            "bootstrap.servers": broker.start().bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(tmp_path / "state"),
        }
        with quick_jvms(), sigint_as_before():
            asyncio.run(run_queries(broker, config))
    finally:
        broker.close()
