"""Applications in one process, against a broker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import LONG, STRING, StreamsBuilder, StreamsError
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from broker_streams.plan.topology import TopologyError
from tests.broker_streams.brokers import SETTINGS
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer

PARTITIONS = 2
# Members hear of new tasks soon.
WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("streams-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def settings(name: str, **changed: Any) -> HostSettings:
    given = {
        "application.id": name,
        "commit.interval.ms": 20,
        # Each count is passed on, not only the last one before a commit.
        "statestore.cache.max.bytes": 0,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
    }
    return HostSettings.of(given | {key.replace("_", "."): value for key, value in changed.items()})


def counts(name: str) -> Any:
    """The number of records of each value."""
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value)
    grouped.count().to_stream().to(f"{name}-out", value=LONG)
    return builder.build()


@asynccontextmanager
async def running(client: AdminClient, topology: Any, of: HostSettings) -> AsyncIterator[EmbeddedHost]:
    host = EmbeddedHost(client, topology, of)
    task = asyncio.create_task(host.run())
    try:
        yield host
        host.stop()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def create(client: AdminClient, *names: str) -> None:
    (await client.topics.create([NewTopic(each, PARTITIONS, 1) for each in names])).whole()


async def write(client: AdminClient, topic: str, *values: str) -> None:
    made = [Record(timestamp=at, key=b"k%d" % at, value=value.encode()) for at, value in enumerate(values)]
    await client.records.producer().send(topic, made)


async def committed(client: AdminClient, topic: str) -> list[tuple[str, int]]:
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found = []
    starts = dict.fromkeys(keys, 0)
    async with client.records.reader(starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            for each in chunk.records:
                found.append(((each.key or b"").decode(), LONG.deserialize(topic, each.value) or 0))
    return sorted(found)


async def until(client: AdminClient, topic: str, expected: list[tuple[str, int]]) -> None:
    """Wait for exactly these committed records."""
    found: list[tuple[str, int]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < len(expected):
            found = await committed(client, topic)
            await asyncio.sleep(0.05)
    assert found == sorted(expected)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_an_application_goes_on_where_it_stopped(broker: BrokerProcess, guarantee: str) -> None:
    """If this fails, an application that starts again loses its counts, or counts records twice."""

    async def job() -> None:
        name = f"again-{guarantee}"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a", "b", "a")
            of = settings(name, processing_guarantee=guarantee)
            async with running(client, counts(name), of):
                await until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1)])
            await write(client, f"{name}-in", "a")
            async with running(client, counts(name), of):
                await until(client, f"{name}-out", [("a", 1), ("a", 2), ("a", 3), ("b", 1)])

    asyncio.run(job())


@pytest.mark.full
def test_an_application_runs_on_kafka(live_kafka: KafkaPeer) -> None:
    """If this fails, applications run on brokers of this project only."""

    async def job() -> None:
        name = "on-kafka"
        async with AdminClient(live_kafka.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a", "b", "a")
            for expected in (3, 4):
                async with running(client, counts(name), settings(name)):
                    written = [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
                    await until(client, f"{name}-out", written if expected == 4 else [*written[:2], written[3]])
                await write(client, f"{name}-in", "a")

    asyncio.run(job())


def test_two_instances_share_the_tasks(broker: BrokerProcess) -> None:
    """If this fails, a second instance has nothing to do, or both process a task."""

    async def job() -> None:
        name = "shared"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            async with running(client, counts(name), settings(name)) as one:
                async with running(client, counts(name), settings(name)) as other:
                    async with asyncio.timeout(WAIT_S):
                        while not (len(one.tasks.active) == 2 and len(other.tasks.active) == 2):
                            await asyncio.sleep(0.05)
                    await write(client, f"{name}-in", *("x" for _ in range(5)))
                    await until(client, f"{name}-out", [("x", count) for count in range(1, 6)])
                await write(client, f"{name}-in", "x")
                await until(client, f"{name}-out", [("x", count) for count in range(1, 7)])

    asyncio.run(job())


def test_a_commit_that_has_begun_is_carried_out_before_a_stop(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an application that is stopped during a commit commits offsets without their results."""

    async def job() -> None:
        name = "stopped"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a", "b", "a")
            host = EmbeddedHost(client, counts(name), settings(name))
            right, begun = host._writer.commit, asyncio.Event()

            async def commit(results: Any, *others: Any) -> None:
                if any(topic == f"{name}-out" for topic, _ in results.batches()):
                    begun.set()
                    # The stop has its turn.
                    for _ in range(10):
                        await asyncio.sleep(0)
                await right(results, *others)

            monkeypatch.setattr(host._writer, "commit", commit)
            async with asyncio.timeout(WAIT_S):
                task = asyncio.create_task(host.run())
                await begun.wait()
                host.stop()
                await task
            async with running(client, counts(name), settings(name)):
                await until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1)])

    asyncio.run(job())


class Held:
    """Holds the first commit with results back, until `release`. With `fails`, its epoch is old then."""

    def __init__(self, host: EmbeddedHost, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
        self._right, self._fails = host._writer.commit, fails
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(host._writer, "commit", self._commit)

    async def _commit(self, results: Any, offsets: Any, group: Any) -> None:
        if results and not self.begun.is_set():
            self.begun.set()
            await self.release.wait()
            if self._fails:
                group = group._replace(generation=group.generation - 1)
        await self._right(results, offsets, group)


async def processed(host: EmbeddedHost, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while host.processed < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("fails", [False, True])
def test_tasks_process_while_a_commit_goes_on(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    """If this fails, tasks stand still while results are written, or a commit that fails leaves results behind of what
    was processed meanwhile.
    """

    async def job() -> None:
        name = f"meanwhile-{fails}"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a")
            host = EmbeddedHost(client, counts(name), settings(name))
            held = Held(host, monkeypatch, fails)
            task = asyncio.create_task(host.run())
            async with asyncio.timeout(WAIT_S):
                await held.begun.wait()
            await write(client, f"{name}-in", "a", "a")
            # The first one is held back before the repartition topic of the counts.
            await processed(host, 3)
            assert not host.is_settled
            held.release.set()
            await until(client, f"{name}-out", [("a", 1), ("a", 2), ("a", 3)])
            host.stop()
            await task
        assert ("does not count" in caplog.text) is fails

    asyncio.run(job())


def test_an_idle_application_has_no_lag(broker: BrokerProcess) -> None:
    """If this fails, the group of an idle application keeps a lag of the markers of its own transactions, and alerts of
    stalled groups fire.
    """

    async def job() -> None:
        name = "idle"
        async with asyncio.timeout(WAIT_S), AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a", "b", "c", "d")
            async with running(client, counts(name), settings(name)) as host:
                await until(client, f"{name}-out", [("a", 1), ("b", 1), ("c", 1), ("d", 1)])
                lags: dict[TopicPartition, int] = {}
                while not lags or any(lags.values()):
                    await asyncio.sleep(0.05)
                    keys = [key for each in host.tasks.active for key in each.inputs]
                    at = (await client.group_offsets.fetch([name])).whole()[name]
                    ends = (await client.offsets.latest(keys)).whole()
                    lags = {key: ends[key] - at[key].offset for key in keys if key in at}
                assert any("-repartition" in key.topic for key in lags)
                # The positions were committed, so nothing else is.
                assert not any(each.has_moved for each in host.tasks.active)
            # The next instance begins behind the markers.
            await write(client, f"{name}-in", "a")
            async with running(client, counts(name), settings(name)):
                await until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1), ("c", 1), ("d", 1)])

    asyncio.run(job())


def test_a_settled_commit_has_everything(broker: BrokerProcess) -> None:
    """If this fails, a query of committed rows sees rows that are not committed, or waits forever."""

    async def job() -> None:
        name = "settled"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            async with running(client, counts(name), settings(name)) as host:
                seen: list[bool] = []
                host.after_commit.append(lambda: seen.append(host._committing.has_changes))
                written = 0
                async with asyncio.timeout(WAIT_S):
                    while len(seen) < 3:
                        host.settle()
                        await write(client, f"{name}-in", "a")
                        written += 1
                        await asyncio.sleep(0)
                assert not any(seen)
                await until(client, f"{name}-out", [("a", count + 1) for count in range(written)])

    asyncio.run(job())


def test_an_error_of_a_function_ends_the_application_and_nothing_is_written(broker: BrokerProcess) -> None:
    """If this fails, an application hides the error of its function, or loses the record."""

    def fails(value: str) -> str:
        raise RuntimeError(f"cannot take {value}")

    async def job() -> None:
        name = "fails"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a")
            builder = StreamsBuilder()
            builder.stream(f"{name}-in").map_values(fails).to(f"{name}-out")
            host = EmbeddedHost(client, builder.build(), settings(name))
            with pytest.raises(StreamsError) as failed:
                async with asyncio.timeout(WAIT_S):
                    await host.run()
            assert "cannot take a" in str(failed.value.__cause__)
            assert await committed(client, f"{name}-out") == []

    asyncio.run(job())


def test_an_error_of_the_reader_ends_the_application(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an application whose reader has ended waits for records for ever, without a word."""

    async def job() -> None:
        name = "unread"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a")
            builder = StreamsBuilder()
            builder.stream(f"{name}-in").to(f"{name}-out")
            host = EmbeddedHost(client, builder.build(), settings(name))

            async def load(topic: str, records: object) -> None:
                raise RuntimeError(f"cannot ask about {topic}")

            monkeypatch.setattr(host._ahead, "load", load)
            async with asyncio.timeout(WAIT_S):
                with pytest.raises(RuntimeError, match="cannot ask about unread-in"):
                    await host.run()

    asyncio.run(job())


def test_a_pattern_of_topics_is_refused() -> None:
    """If this fails, an application with a pattern waits for ever without a reason."""
    builder = StreamsBuilder()
    builder.stream(re.compile("orders-.*")).to("out")

    async def job() -> None:
        async with AdminClient("127.0.0.1:1") as client:
            with pytest.raises(TopologyError, match=r"reads topics by the pattern orders-\.\*; name them instead"):
                EmbeddedHost(client, builder.build(), settings("app"))

    asyncio.run(job())
