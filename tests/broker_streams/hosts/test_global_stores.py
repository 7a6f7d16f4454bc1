"""Global stores of the embedded host: what a start reads, and which rows it goes on with."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.wire.records import Record
from broker_streams import STRING, Processor, Store, StoreKind, StreamsBuilder
from broker_streams.dsl.materialized import Materialized
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.test_embedded import WAIT_S, create, running, settings
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("globals-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def run(broker: BrokerProcess, job: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await job(client)

    asyncio.run(connected())


def on_disk(name: str, directory: Path) -> HostSettings:
    return settings(name, state_dir=str(directory))


async def put(client: AdminClient, topic: str, rows: dict[str, str | None]) -> None:
    made = [
        Record(timestamp=1, key=key.encode(), value=None if value is None else value.encode())
        for key, value in rows.items()
    ]
    await client.records.producer().send(topic, made)


def names(name: str, **options: Any) -> Any:
    builder = StreamsBuilder()
    builder.global_table(f"{name}-names", materialized=Materialized("names", **options))
    builder.stream(f"{name}-in").to(f"{name}-out")
    return builder.build()


def rows_of(host: EmbeddedHost) -> dict[str, str]:
    store = host.queries.parts("names")[0] if "names" in host._globals.stores else None
    return {} if store is None else {key: getattr(found, "value", found) for key, found in store.all()}


async def shows(host: EmbeddedHost, expected: dict[str, str]) -> None:
    async with asyncio.timeout(WAIT_S):
        while rows_of(host) != expected:
            await asyncio.sleep(0.02)


def test_a_start_reads_on_from_the_file(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, each start of an instance reads whole topics, or its tasks join with old rows."""

    async def job(client: AdminClient) -> None:
        name = "kept"
        topic = f"{name}-names"
        await create(client, topic, f"{name}-in", f"{name}-out")
        await put(client, topic, {f"k{at}": "1" for at in range(50)})
        expected = {f"k{at}": "1" for at in range(50)}
        async with running(client, names(name), on_disk(name, tmp_path / "one")) as host:
            await shows(host, expected)
            assert host._globals.read == 50
            # Records that arrive while the application runs are in the file, too.
            await put(client, topic, {"k0": None, "k1": "2"})
            expected = {key: value for key, value in expected.items() if key != "k0"} | {"k1": "2"}
            await shows(host, expected)
            # A process that is gone now leaves these files.
            shutil.copytree(tmp_path / "one", tmp_path / "killed")
        assert (tmp_path / "one" / name / "global" / "data.mdb").exists()
        await put(client, topic, {"k2": "3"})
        expected |= {"k2": "3"}
        for state, read in (("one", 1), ("killed", 3)):
            async with running(client, names(name), on_disk(name, tmp_path / state)) as host:
                await shows(host, expected)
                assert host._globals.read == read
        # Without a change, nothing is read.
        async with running(client, names(name), on_disk(name, tmp_path / "one")) as host:
            await shows(host, expected)
            assert host._globals.read == 0

    run(broker, job)


def test_a_store_in_memory_reads_all(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, a store that is not persistent begins without its rows."""

    async def job(client: AdminClient) -> None:
        name = "memory"
        await create(client, f"{name}-names", f"{name}-in", f"{name}-out")
        await put(client, f"{name}-names", {"a": "1"})
        for _ in range(2):
            async with running(client, names(name, in_memory=True), on_disk(name, tmp_path)) as host:
                await shows(host, {"a": "1"})
                assert host._globals.read == 1
        assert not (tmp_path / name / "global").exists()

    run(broker, job)


def test_rows_of_another_life_of_a_topic_are_dropped(
    broker: BrokerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, tasks join with rows of a topic that was deleted."""

    async def job(client: AdminClient) -> None:
        name = "again"
        topic = f"{name}-names"
        await create(client, topic, f"{name}-in", f"{name}-out")
        await put(client, topic, {"a": "1", "b": "1"})
        async with running(client, names(name), on_disk(name, tmp_path)) as host:
            await shows(host, {"a": "1", "b": "1"})
        (await client.topics.delete([topic])).whole()
        await create(client, topic)
        await put(client, topic, {"b": "2", "c": "2", "d": "2", "e": "2"})
        async with running(client, names(name), on_disk(name, tmp_path)) as host:
            await shows(host, {"b": "2", "c": "2", "d": "2", "e": "2"})
            assert host._globals.read == 4
        assert "rows of store names" in caplog.text
        assert "was deleted and made again" in caplog.text

    run(broker, job)


class Counting(Processor):
    """Counts the records of each key."""

    def process(self, record: Any) -> None:
        store: Any = self.context.state_store("names")
        store.put(record.key, str(int(store.get(record.key) or "0") + 1))


def test_a_processor_of_a_global_store_sees_each_record_once(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, a start counts records again that the file has already."""

    async def job(client: AdminClient) -> None:
        name = "counted"
        topic = f"{name}-names"

        def counted() -> Any:
            builder = StreamsBuilder()
            store = Store("names", StoreKind.KEY_VALUE, STRING, STRING)
            builder.add_global_store(store, topic, Counting)
            builder.stream(f"{name}-in").to(f"{name}-out")
            return builder.build()

        await create(client, topic, f"{name}-in", f"{name}-out")
        await put(client, topic, {"a": "x", "b": "x"})
        async with running(client, counted(), on_disk(name, tmp_path)) as host:
            await shows(host, {"a": "1", "b": "1"})
        await put(client, topic, {"a": "x"})
        async with running(client, counted(), on_disk(name, tmp_path)) as host:
            await shows(host, {"a": "2", "b": "1"})

    run(broker, job)
