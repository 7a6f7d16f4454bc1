"""Instances of an application that are asked over HTTP, against a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.launch.nodes import free_ports
from broker_cy.admin import AdminClient
from broker_cy.admin.streams_applications import list_applications, read_application
from broker_cy.admin.topics import NewTopic
from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError
from broker_cy.client.http_exchange import exchange
from broker_cy.client.streams_status import ask, ask_json
from broker_cy.metrics.events import StreamsInstanceChanged, prefix_of
from broker_cy.metrics.topics import OWN_CLIENT
from broker_cy.wire.records import Record
from broker_streams import STRING, Materialized, StreamsBuilder, StreamsError, TimeWindows
from broker_streams.cli import command
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.measures import State
from broker_streams.hosts.settings import HostSettings
from broker_streams.queries.views import StoreUnavailable
from broker_streams.seen.instance import Instance
from broker_streams.seen.settings import SeenSettings
from tests.broker_streams.brokers import SETTINGS
from tests.support.broker import BrokerProcess

PARTITIONS = 2
WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("seen-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def topology(name: str) -> Any:
    """Counts of each value, and of each value in each window of a second."""
    builder = StreamsBuilder()
    # With a name, both counts read one repartition topic.
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value, name="by-value")
    grouped.count(materialized=Materialized("counts"))
    grouped.windowed_by(TimeWindows.of("1s").grace("1h")).count(materialized=Materialized("windows"))
    return builder.build()


def config(name: str, port: int, **changed: Any) -> dict[str, Any]:
    given = {
        "application.id": name,
        "application.server": f"127.0.0.1:{port}",
        "commit.interval.ms": 20,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
        "metrics.recording.level": "DEBUG",
    }
    return given | {key.replace("_", "."): value for key, value in changed.items()}


@asynccontextmanager
async def running(client: AdminClient, made: Any, of: dict[str, Any]) -> AsyncIterator[EmbeddedHost]:
    host = EmbeddedHost(client, made, HostSettings.of(of))
    async with Instance(host, SeenSettings.of(of)):
        task = asyncio.create_task(host.run())
        try:
            yield host
            host.stop()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def create(client: AdminClient, name: str, *values: str) -> None:
    (await client.topics.create([NewTopic(f"{name}-in", PARTITIONS, 1)])).whole()
    made = [Record(timestamp=at * 600, key=b"k%d" % at, value=value.encode()) for at, value in enumerate(values)]
    await client.records.producer().send(f"{name}-in", made)


async def until(is_done: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await is_done():
            await asyncio.sleep(0.05)


def test_each_instance_answers_for_all(broker: BrokerProcess) -> None:
    """If this fails, an instance shows only its own rows, or the wrong ones, or tasks and lag are not those of the
    group.
    """
    name, values = "answers", ["a", "b", "a", "c", "a", "d"]

    async def job() -> None:
        ports = free_ports(2)
        places = [Address("127.0.0.1", port) for port in ports]
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name, *values)
            async with (
                running(client, topology(name), config(name, ports[0])) as one,
                running(client, topology(name), config(name, ports[1])) as other,
            ):

                async def is_counted() -> bool:
                    found = [len(each.tasks.active) for each in (one, other)]
                    processed = one.processed + other.processed
                    states = {each.life.state for each in (one, other)}
                    knows = all(len(each.member.endpoints) == 2 for each in (one, other))
                    return found == [2, 2] and processed == 12 and states == {State.RUNNING} and knows

                await until(is_counted)
                for place in places:
                    await rows_are_right(place)
                await metadata_is_right(one, places)
                await pages_are_right(places[0], name)
                await status_is_right(client, name, ports)
                await commands_show_the_same(broker.bootstrap, name, places[0])

    asyncio.run(job())


async def get(place: Address, target: str) -> Any:
    return await ask_json(place, target, 10.0)


async def rows_are_right(place: Address) -> None:
    found = await get(place, "/stores/counts?key=a")
    assert [(row["key"], row["value"], row["timestamp"]) for row in found["rows"]] == [("a", 3, 2400)]
    assert found["isolation"] == "committed"
    assert (await get(place, "/stores/counts?key=x"))["rows"] == []
    # Pages of one row go over both instances.
    rows, following = [], "limit=1"
    while following:
        page = await get(place, f"/stores/counts?{following}")
        rows += [(row["key"], row["value"]) for row in page["rows"]]
        following = page["next"] and f"limit=1&next={page['next']}"
    assert sorted(rows) == [("a", 3), ("b", 1), ("c", 1), ("d", 1)]
    assert {row["key"] for row in (await get(place, "/stores/counts?from=b&to=c"))["rows"]} == {"b", "c"}
    assert [row["key"] for row in (await get(place, "/stores/counts?prefix=d"))["rows"]] == ["d"]
    windows = (await get(place, "/stores/windows?key=a"))["rows"]
    assert [(row["start_ms"], row["end_ms"], row["value"]) for row in windows] == [
        (0, 1000, 1),
        (1000, 2000, 1),
        (2000, 3000, 1),
    ]
    assert [row["start_ms"] for row in (await get(place, "/stores/windows?key=a&from=1000&to=1999"))["rows"]] == [1000]
    assert len((await get(place, "/stores/windows"))["rows"]) == 6
    for target, text in (
        ("/stores/other", "has no store other"),
        ("/stores/counts?limit=0", "limit is '0'"),
        ("/stores/counts?wrong=1", "wrong is no parameter"),
        ("/stores/counts?next=x", "next is 'x'"),
        ("/stores/windows?from=now", "from is 'now'"),
    ):
        with pytest.raises(ClientError, match=text):
            await get(place, target)


async def metadata_is_right(one: EmbeddedHost, places: list[Address]) -> None:
    queries = one.queries
    found = queries.query_metadata_for_key("counts", "a")
    assert found.active in {(each.host, each.port) for each in places}
    clients = queries.metadata_for_all_streams_clients()
    assert [each.place for each in clients] == sorted((each.host, each.port) for each in places)
    assert all(each.stores == {"counts", "windows"} for each in clients)
    assert len(queries.streams_metadata_for_store("counts")) == 2
    page = await get(places[0], "/metadata/counts?key=a")
    assert found.active is not None
    assert page["active"] == str(Address(*found.active))
    # The instance without the key says so, and a program reads what it has.
    owner = found.active == (places[0].host, places[0].port)
    view: Any = queries.store("counts")
    assert view.get("a") == (None if not owner else (3, 2400))
    assert await queries.read(view.approximate_num_entries) == len(list(view.all()))
    with pytest.raises(StoreUnavailable, match="partition 7 of store counts is not at this instance"):
        queries.store("counts", partition=7)


async def pages_are_right(place: Address, name: str) -> None:
    text = (await exchange(place, "GET", "/metrics", answer_bytes_max=1 << 20)).body.decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]

    def value(begin: str, *parts: str) -> float:
        found = [line for line in lines if line.startswith(begin + "{") and all(part in line for part in parts)]
        assert len(found) == 1, (begin, found)
        return float(found[0].rsplit(" ", 1)[1])

    state = await ask(place, 10.0)
    assert value("kafka_streams_stream_thread_metrics_process_total") == state.records
    assert value("kafka_streams_stream_metrics_client_state") == 2
    # Tasks of the input and of the repartition topic; the second one has the stores.
    assert sorted(each.task.split("_")[0] for each in state.tasks) == ["0", "1"]
    counted = next(each for each in state.tasks if each.task.startswith("1_"))
    task = f'task_id="{counted.task}"'
    rows = {each.name: each.rows for each in counted.stores}
    assert value("kafka_streams_stream_state_metrics_num_entries", task, 'state_id="counts"') == rows["counts"]
    assert value("kafka_streams_stream_state_metrics_put_total", task, 'state_id="counts"') == counted.records
    assert value("kafka_streams_stream_task_metrics_process_total", task) == counted.records
    assert sum(counted.nodes.values()) >= counted.records
    assert all(each.lag == 0 for each in counted.inputs)
    for page in ("/healthz", "/readyz"):
        assert (await exchange(place, "GET", page, answer_bytes_max=1 << 10)).status == 200
    assert json.loads((await exchange(place, "GET", "/plan", answer_bytes_max=1 << 20)).body)["format"] == 1
    assert {each["name"] for each in (await get(place, "/stores"))["stores"]} == {"counts", "windows"}
    with pytest.raises(ClientError, match="the pages are"):
        await get(place, f"/{name}")


async def status_is_right(client: AdminClient, name: str, ports: list[int]) -> None:
    async def is_settled() -> bool:
        found = await read_application(client, name)
        return found.lag == 0 and len(found.states) == 2

    await until(is_settled)
    found = await read_application(client, name)
    assert found.state == "RUNNING"
    assert found.problems == ()
    assert [(row.task, row.role, row.state) for row in found.tasks] == [
        ("0_0", "active", "running"),
        ("0_1", "active", "running"),
        ("1_0", "active", "running"),
        ("1_1", "active", "running"),
    ]
    assert sorted(row.endpoint or "" for row in found.instances) == sorted(f"127.0.0.1:{port}" for port in ports)
    assert {row.store: row.rows for row in found.stores} == {"counts": 4, "windows": 6}
    assert sum(row.committed or 0 for row in found.inputs if row.topic == f"{name}-in") == 6
    assert name in [each.name for each in await list_applications(client)]


async def commands_show_the_same(bootstrap: str, name: str, place: Address) -> None:
    def invoke(*arguments: str) -> str:
        found = CliRunner().invoke(command, [*arguments, "--bootstrap", bootstrap])
        assert found.exit_code == 0, found.output
        return found.output

    shown = await asyncio.to_thread(invoke, "status", name)
    assert [each for each in ("RUNNING", "1_1", "windows") if each not in shown] == []
    as_json = json.loads(await asyncio.to_thread(invoke, "status", name, "--json"))
    assert (as_json["state"], as_json["lag"], len(as_json["instances"])) == ("RUNNING", 0, 2)
    assert name in await asyncio.to_thread(invoke, "status")
    assert await asyncio.to_thread(invoke, "query", name, "counts", "a") == "a  3  @2400\n"
    rows = json.loads(await asyncio.to_thread(invoke, "query", name, "counts", "--limit", "3", "--json"))
    assert len(rows) == 3
    at = await asyncio.to_thread(invoke, "query", name, "windows", "a", "--from", "1000", "--at", str(place))
    assert at.splitlines() == ["a  1000-2000  1  @1200", "a  2000-3000  1  @2400"]


def test_rows_are_committed_ones(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a query shows a row of a transaction that may still be aborted."""
    name = "isolated"

    async def job() -> None:
        (port,) = free_ports(1)
        place = Address("127.0.0.1", port)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name, "a")
            async with running(client, topology(name), config(name, port)) as host:

                async def is_counted() -> bool:
                    return host.processed == 2 and host.is_settled

                await until(is_counted)
                right, begun, goes_on = host._writer.commit, asyncio.Event(), asyncio.Event()

                async def commit(*arguments: Any) -> None:
                    begun.set()
                    await goes_on.wait()
                    await right(*arguments)

                monkeypatch.setattr(host._writer, "commit", commit)
                await client.records.producer().send(f"{name}-in", [Record(timestamp=5, key=b"k0", value=b"a")])
                async with asyncio.timeout(WAIT_S):
                    await begun.wait()
                asked = asyncio.create_task(get(place, "/stores/counts?key=a"))

                async def is_processed() -> bool:
                    open_rows = (await get(place, "/stores/counts?key=a&isolation=uncommitted"))["rows"]
                    # The commit of the first step is held up, so the second one, of the repartition topic, waits.
                    return bool(host.queries._waiting) and open_rows[0]["value"] == 1

                await until(is_processed)
                assert not asked.done()
                goes_on.set()
                found = await asked
                assert found["rows"][0]["value"] in (1, 2)
                assert host.is_settled or found["isolation"] == "committed"

    asyncio.run(job())


def test_rows_need_the_token(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, rows are shown without the token, or instances cannot ask each other with it."""
    name = "secret"
    (tmp_path / "token").write_text("0123456789abcdef")

    async def job() -> None:
        ports = free_ports(2)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name, "a", "b", "c", "d")
            more = {"brokercy_streams_token_file": str(tmp_path / "token")}
            async with (
                running(client, topology(name), config(name, ports[0], **more)) as one,
                running(client, topology(name), config(name, ports[1], **more)) as other,
            ):

                async def is_counted() -> bool:
                    knows = all(len(each.member.endpoints) == 2 for each in (one, other))
                    return one.processed + other.processed == 8 and knows and len(one.tasks.active) == 2

                await until(is_counted)
                place = Address("127.0.0.1", ports[0])
                with pytest.raises(ClientError, match="rows need Authorization"):
                    await get(place, "/stores/counts")
                with pytest.raises(ClientError, match="rows need Authorization"):
                    await ask_json(place, "/stores/counts", 10.0, headers=[("Authorization", "Bearer wrong")])
                right = [("Authorization", "Bearer 0123456789abcdef")]
                found = await ask_json(place, "/stores/counts", 10.0, headers=right)
                assert {row["key"] for row in found["rows"]} == {"a", "b", "c", "d"}
                # Figures are no data of the application.
                assert (await ask(place, 10.0)).state == "RUNNING"

    asyncio.run(job())


def test_events_tell_the_life_of_an_instance(broker: BrokerProcess) -> None:
    """If this fails, the events of the cluster say nothing of an application that failed."""
    name = "told"

    def fails(value: str) -> str:
        raise RuntimeError(f"cannot take {value}")

    async def job() -> list[StreamsInstanceChanged]:
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, name, "a")
            builder = StreamsBuilder()
            builder.stream(f"{name}-in").map_values(fails).foreach(lambda key, value: None)
            (port,) = free_ports(1)
            of = config(name, port)
            host = EmbeddedHost(client, builder.build(), HostSettings.of(of))
            with pytest.raises(StreamsError):
                async with (
                    Instance(
                        host,
                        SeenSettings.of(of),
                        events=lambda: AdminClient(broker.bootstrap, client_id=OWN_CLIENT),
                    ),
                    asyncio.timeout(WAIT_S),
                ):
                    await host.run()
            ends = (await client.offsets.latest([client.events.partition])).whole()
            found: list[Any] = []
            async for entries in client.events.read(0, *ends.values(), only=prefix_of(StreamsInstanceChanged)):
                found += [each.item.event for each in entries if each.item is not None]
            return [each for each in found if each.group == name]

    events = asyncio.run(job())
    assert [each.change for each in events][:1] == ["started"]
    assert events[-1].change == "failed"
    assert "cannot take a" in events[-1].reason or "KSTREAM-MAPVALUES" in events[-1].reason
