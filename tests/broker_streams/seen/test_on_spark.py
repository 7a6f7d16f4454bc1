"""An application on Spark from outside: its pages, its metrics and its state, without Spark, against a broker."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from bench.launch.nodes import free_ports
from broker_cy.admin import AdminClient
from broker_cy.admin.streams_applications import StreamsApplication, list_applications, read_application
from broker_cy.admin.streams_drivers import DriverRecord, drivers
from broker_cy.admin.topics import NewTopic
from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError
from broker_cy.client.http_exchange import exchange
from broker_cy.client.streams_status import ask, ask_json
from broker_cy.wire.records import Record
from broker_streams import STRING, Materialized, StreamsBuilder, StreamsError
from broker_streams.cli import command
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.spark.application import SparkApplication
from broker_streams.hosts.spark.query import Superseded
from broker_streams.seen.instance import Surroundings
from broker_streams.seen.settings import SeenSettings
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.spark.without_spark import Driver
from tests.support.broker import BrokerProcess

PARTITIONS = 2
WAIT_S = 60.0
VALUES = ("a", "b", "a", "c", "a", "d")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("seen-spark-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def topology(name: str) -> Any:
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value, name="by-value")
    grouped.count(materialized=Materialized("counts"))
    return builder.build().plan


def config(broker: BrokerProcess, name: str, port: int | None) -> dict[str, Any]:
    return {
        "application.id": name,
        "bootstrap.servers": broker.bootstrap,
        "commit.interval.ms": 20,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
        "metrics.recording.level": "DEBUG",
        **({} if port is None else {"application.server": f"127.0.0.1:{port}"}),
    }


@asynccontextmanager
async def on_spark(client: AdminClient, of: dict[str, Any]) -> AsyncIterator[tuple[SparkApplication, Driver]]:
    """An application whose batches run when the test says so."""
    name = of["application.id"]
    application = SparkApplication(topology(name), of)
    async with Surroundings(application, SeenSettings.of(of)) as instance:
        made = Driver(client, application.topology, of, random.Random(1), application.queries)
        try:
            await application.prepared()
            await made.begin()
            for query in application.queries:
                application.runs(query, once=False)
            yield application, made
            instance.watch.look(asyncio.get_running_loop().time())
        finally:
            await made.close()
            application.ends()
            await application.announce_end()
            await application.client.close()


async def create(client: AdminClient, name: str) -> None:
    (await client.topics.create([NewTopic(f"{name}-in", PARTITIONS, 1)])).whole()
    made = [Record(timestamp=at * 600, key=b"k%d" % at, value=value.encode()) for at, value in enumerate(VALUES)]
    await client.records.producer().send(f"{name}-in", made)


def test_a_driver_shows_tasks_stores_and_batches(broker: BrokerProcess) -> None:
    """If this fails, an application on Spark is not seen, or with other figures than its workers have."""
    name = "seen-on-spark"

    async def job() -> None:
        (port,) = free_ports(1)
        place = Address("127.0.0.1", port)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name)
            async with on_spark(client, config(broker, name, port)) as (application, driver):
                assert (await read_application(client, name)).state == "RUNNING"
                await driver.drain()
                state = await ask(place, 10.0)
                assert (state.host, state.records, state.commits) == (
                    "spark",
                    12,
                    sum(q.batches for q in state.batches),
                )
                assert [each.subtopology for each in state.batches] == ["0", "1"]
                first = state.batches[0]
                assert (first.records, first.last_number, first.runs) == (6, 0, 1)
                assert first.last_ms is not None
                assert first.last_ms > 0
                await pages_are_right(place, application)
                found = await read_application(client, name)
                rows_are_right(found)
                assert name in [each.name for each in await list_applications(client)]
                await command_shows_the_same(broker.bootstrap, name)
            found = await read_application(client, name)
            assert (found.state, found.instances, found.problems) == ("NOT RUNNING", (), ())
            assert found.lag == rows_lag(found)

    asyncio.run(job())


async def pages_are_right(place: Address, application: SparkApplication) -> None:
    text = (await exchange(place, "GET", "/metrics", answer_bytes_max=1 << 20)).body.decode()

    def total(begin: str, *parts: str) -> float:
        lines = [line for line in text.splitlines() if line.startswith(begin + "{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(part in line for part in parts))

    assert total("kafka_streams_stream_thread_metrics_process_total") == 12
    assert total("kafka_streams_stream_task_metrics_process_total", 'task_id="1_') == 6
    assert total("kafka_streams_stream_state_metrics_num_entries", 'state_id="counts"') == 4
    assert total("kafka_streams_stream_state_metrics_put_total", 'state_id="counts"') == 6
    assert (
        total("kafka_streams_stream_topic_metrics_records_consumed_total", f'topic_name="{application.name}-in"') == 6
    )
    assert total("kafka_streams_stream_batch_metrics_batch_total", 'subtopology_id="0"') == 1
    assert total("kafka_streams_stream_batch_metrics_records_total") == 12
    assert total("kafka_streams_stream_input_metrics_records_lag") == 0
    assert (await exchange(place, "GET", "/readyz", answer_bytes_max=1 << 10)).status == 200
    assert (await ask_json(place, "/plan", 10.0))["format"] == 1
    for page in ("/stores", "/stores/counts", "/metadata"):
        with pytest.raises(ClientError, match="with its workers"):
            await ask_json(place, page, 10.0)


def rows_are_right(found: StreamsApplication) -> None:
    assert (found.state, found.host, found.lag, found.problems) == ("RUNNING", "spark", 0, ())
    assert [(row.task, row.role, row.state) for row in found.tasks] == [
        ("0_0", "active", "running"),
        ("0_1", "active", "running"),
        ("1_0", "active", "running"),
        ("1_1", "active", "running"),
    ]
    assert {row.store: row.rows for row in found.stores} == {"counts": 4}
    assert [(row.subtopology, row.runs) for row in found.batches] == [("0", 1), ("1", 1)]
    assert sum(row.committed or 0 for row in found.inputs if row.topic.endswith("-in")) == 6


def rows_lag(found: StreamsApplication) -> int:
    """The lag that brokers alone can tell: behind the last records are the markers of their transactions."""
    return sum((row.end or 0) - (row.committed or 0) for row in found.inputs if row.committed is not None)


async def command_shows_the_same(bootstrap: str, name: str) -> None:
    def invoke(*arguments: str) -> str:
        found = CliRunner().invoke(command, [*arguments, "--bootstrap", bootstrap])
        assert found.exit_code == 0, found.output
        return found.output

    shown = await asyncio.to_thread(invoke, "status", name)
    assert [each for each in ("RUNNING", "Batches", "TRIGGER LAG", "1_1", "counts") if each not in shown] == []
    as_json = json.loads(await asyncio.to_thread(invoke, "status", name, "--json"))
    assert (as_json["host"], as_json["state"], len(as_json["batches"])) == ("spark", "RUNNING", 2)


def test_a_driver_that_failed_or_was_killed_is_told(broker: BrokerProcess) -> None:
    """If this fails, an application on Spark that has ended looks as if it ran."""
    name = "killed-on-spark"

    async def job() -> None:
        (port,) = free_ports(1)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name)
            async with on_spark(client, config(broker, name, port)) as (application, driver):
                await driver.drain()
                application.ends(StreamsError("task 0_1 cannot go on"))
            found = await read_application(client, name)
            assert found.state == "ERROR"
            assert [each.endswith(": task 0_1 cannot go on") for each in found.problems] == [True]
            # One that was killed still says that it runs.
            await application_that_died(broker, name, port)
            found = await read_application(client, name)
            assert found.state == "no answer"
            assert found.problems == (f"127.0.0.1:{port}: connection refused: no process listens there",)
            await application_that_died(broker, name, None)
            found = await read_application(client, name)
            assert found.state == "unknown"
            assert found.problems == ("the driver has no application.server, so its state is not known",)

    asyncio.run(job())


async def application_that_died(broker: BrokerProcess, name: str, port: int | None) -> None:
    died = SparkApplication(topology(name), config(broker, name, port))
    await died.prepared()
    await died.client.close()


def test_a_driver_that_was_replaced_says_nothing_more(broker: BrokerProcess) -> None:
    """If this fails, the end of a former driver hides the one that runs."""
    name = "replaced-on-spark"

    async def job() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name)
            former = SparkApplication(topology(name), config(broker, name, None))
            await former.prepared()
            later = SparkApplication(topology(name), config(broker, name, None))
            await later.prepared()
            former.ends(Superseded("another driver runs the application now"))
            await former.announce_end()
            found = (await drivers(client))[name]
            assert (found.process, found.state) == (later.process, "runs")
            for each in (former, later):
                await each.client.close()

    asyncio.run(job())


def test_an_application_that_went_to_the_embedded_host_is_shown_there(broker: BrokerProcess) -> None:
    """If this fails, a record of a former driver hides the instances of an application."""
    name = "moved-from-spark"

    async def job() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name)
            of = config(broker, name, None)
            async with on_spark(client, of) as (_, driver):
                await driver.drain()
            host = EmbeddedHost(client, topology(name), HostSettings.of(of))
            running = asyncio.create_task(host.run())
            try:
                async with asyncio.timeout(WAIT_S):
                    while (found := await read_application(client, name)).state != "RUNNING":
                        await asyncio.sleep(0.05)
                assert (found.host, found.driver, len(found.instances)) == ("", None, 1)
            finally:
                host.stop()
                await running

    asyncio.run(job())


def test_records_that_are_none_of_a_driver_are_passed_over() -> None:
    """If this fails, one bad record hides all applications on Spark."""
    made = DriverRecord("app", "p", "runs", 5, 4)
    assert DriverRecord.of(made.record().value or b"") == made
    for data in (b"", b"[]", b'{"application": "app"}', b'{"parts": [1]}'):
        with pytest.raises(ValueError, match="none of a driver"):
            DriverRecord.of(data)
