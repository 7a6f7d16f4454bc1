"""Applications whose state is on disk, against a broker: what a start restores, and what it refuses."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.client.streams_member import Role
from broker_streams import FailureReason, KeyQuery, StateQueryRequest, StreamsBuilder, StreamsError, TimeWindows
from broker_streams.dsl.materialized import Materialized
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.embedded.restoring import Restorer
from broker_streams.hosts.settings import HostSettings
from broker_streams.state.snapshots import Snapshots
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.test_embedded import (
    PARTITIONS,
    WAIT_S,
    counts,
    create,
    running,
    settings,
    until,
    write,
)
from tests.broker_streams.hosts.test_kills import APPLICATION, survives
from tests.broker_streams.hosts.test_kills import SETTINGS as KILL_SETTINGS
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("state-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def restored(host: EmbeddedHost) -> int:
    return sum(each.restorer.restored for each in host.tasks.running.values())


def followed(host: EmbeddedHost) -> set[int]:
    """The partitions of standbys with a store."""
    tasks = host.tasks.running.items()
    return {number for (_, number), each in tasks if each.state is not None and each.role is Role.STANDBY}


def follows(*hosts: EmbeddedHost) -> bool:
    """Whether standbys have all that active tasks have committed."""
    tasks = [each for host in hosts for each in host.tasks.running.values() if each.state is not None]
    active = {key: at for each in tasks if each.is_active for key, at in each.restorer.positions.items()}
    standby = {key: at for each in tasks if each.role is Role.STANDBY for key, at in each.restorer.positions.items()}
    return len(active) == len(standby) == PARTITIONS and all(standby[key] >= at for key, at in active.items())


def on_disk(name: str, directory: Path, **changed: Any) -> HostSettings:
    return settings(name, state_dir=str(directory), **changed)


async def copied(client: AdminClient, name: str, directory: Path) -> None:
    """Wait for snapshots of all that is committed. The last offset of a changelog is the marker of its transaction."""
    changelog = next(each for each in await client.topics.names() if each.endswith("-changelog") and name in each)
    keys = [TopicPartition(changelog, number) for number in range(PARTITIONS)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    snapshots = Snapshots(directory, name, 1)

    def place(key: TopicPartition) -> int:
        newest = snapshots.of(f"1_{key.partition}")[:1]
        return sum(place.offset for each in newest for place in each.stamp.places.values())

    await condition(lambda: all(place(key) >= ends[key] - 1 for key in keys))


async def condition(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.02)


def run(broker: BrokerProcess, job: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await job(client)

    asyncio.run(connected())


def test_a_restart_restores_only_the_rest(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, each start reads all changelogs, or goes on with old rows."""

    async def job(client: AdminClient) -> None:
        name = "rest"
        await create(client, f"{name}-in", f"{name}-out")
        await write(client, f"{name}-in", "a", "b", "a")
        async with running(client, counts(name), on_disk(name, tmp_path / "one")):
            await until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1)])
        shutil.copytree(tmp_path / "one", tmp_path / "old")
        await write(client, f"{name}-in", "a")
        async with running(client, counts(name), on_disk(name, tmp_path / "one")) as host:
            await until(client, f"{name}-out", [("a", 1), ("a", 2), ("a", 3), ("b", 1)])
            assert restored(host) == 0
        # The files of before the last count.
        await write(client, f"{name}-in", "a")
        async with running(client, counts(name), on_disk(name, tmp_path / "old")) as host:
            await until(client, f"{name}-out", [*(("a", count) for count in range(1, 5)), ("b", 1)])
            assert restored(host) == 1

    run(broker, job)


def test_a_table_whose_topic_is_its_changelog_is_read_on(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, each start reads all of the table's topic."""

    async def job(client: AdminClient) -> None:
        name = "table"
        await create(client, f"{name}-in")

        def table() -> Any:
            builder = StreamsBuilder()
            builder.table(f"{name}-in", materialized=Materialized("rows"))
            return builder.build({"topology.optimization": "all"})

        def rows(host: EmbeddedHost) -> dict[str, str]:
            stores = [each.task.stores["rows"] for each in host.tasks.active]
            return {key: found.value for store in stores for key, found in store.all()}

        await write(client, f"{name}-in", "a", "b", "c")
        async with running(client, table(), on_disk(name, tmp_path)) as host:
            await condition(lambda: rows(host) == {"k0": "a", "k1": "b", "k2": "c"})
        await write(client, f"{name}-in", "d")
        async with running(client, table(), on_disk(name, tmp_path)) as host:
            await condition(lambda: rows(host) == {"k0": "d", "k1": "b", "k2": "c"})
            assert restored(host) == 0

    run(broker, job)


def test_files_of_another_life_of_a_topic_are_not_used(
    broker: BrokerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, an application that was reset goes on with the rows of before."""

    async def job(client: AdminClient) -> None:
        name = "reset"
        topics = (f"{name}-in", f"{name}-out")
        await create(client, *topics)
        await write(client, topics[0], "a", "b")
        async with running(client, counts(name), on_disk(name, tmp_path)):
            await until(client, topics[1], [("a", 1), ("b", 1)])
        internal = [each for each in await client.topics.names() if each.startswith(f"{name}-KSTREAM")]
        assert len(internal) == 2
        (await client.topics.delete([*topics, *internal])).whole()
        (await client.groups.delete([name])).whole()
        await create(client, *topics)
        await write(client, topics[0], "a", "a", "a", "b", "b", "b")
        async with running(client, counts(name), on_disk(name, tmp_path)):
            await until(client, topics[1], [(word, count) for word in "ab" for count in (1, 2, 3)])
        assert "the changelog topic was deleted and made again" in caplog.text

    run(broker, job)


def test_a_new_instance_begins_with_a_snapshot(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, snapshots are not taken, or a new instance reads the whole changelog."""

    async def job(client: AdminClient) -> None:
        name = "snapshot"
        options = {
            "brokercy_streams_snapshot_dir": str(tmp_path / "shared"),
            "brokercy_streams_snapshot_interval_ms": 1,
            # Each commit is written.
            "brokercy_streams_state_buffer_bytes": 0,
        }
        await create(client, f"{name}-in", f"{name}-out")
        await write(client, f"{name}-in", *(f"w{at % 5}" for at in range(50)))
        expected = [(f"w{word}", count) for word in range(5) for count in range(1, 11)]
        async with running(client, counts(name), on_disk(name, tmp_path / "one", **options)):
            await until(client, f"{name}-out", expected)
            await copied(client, name, tmp_path / "shared")
        await write(client, f"{name}-in", "w0")
        async with running(client, counts(name), on_disk(name, tmp_path / "other", **options)) as host:
            await until(client, f"{name}-out", [*expected, ("w0", 11)])
            assert restored(host) < 10

    run(broker, job)


def test_tasks_run_while_another_restores(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the restore of one task holds up all others, and an instance that stops waits for it."""

    async def job(client: AdminClient) -> None:
        name = "beside"
        await create(client, f"{name}-in", f"{name}-out")
        catch_up, begun = Restorer.catch_up, asyncio.Event()

        async def slow(self: Restorer, *arguments: Any, **options: Any) -> int:
            if any(key.partition == 0 and key.topic.endswith("-changelog") for key in self.partitions):
                begun.set()
                await asyncio.Event().wait()
            return await catch_up(self, *arguments, **options)

        monkeypatch.setattr(Restorer, "catch_up", slow)
        values = [f"v{number}" for number in range(8)]
        await write(client, f"{name}-in", *values)
        async with running(client, counts(name), on_disk(name, tmp_path)) as host:
            await asyncio.wait_for(begun.wait(), WAIT_S)
            # All tasks but one process, and values of one of two partitions are counted.
            await condition(lambda: len(host.tasks.active) == 3 and host.processed > len(values))
            assert host.tasks.is_restoring

    run(broker, job)


def test_a_store_of_another_kind_ends_the_application(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, a changed topology reads rows that are none of its own, without a word."""

    def counted(windowed: bool) -> Any:
        builder = StreamsBuilder()
        grouped: Any = builder.stream("kind-in").group_by_key()
        if windowed:
            grouped = grouped.windowed_by(TimeWindows.of("1m"))
        grouped.count(materialized=Materialized("counts")).to_stream()
        return builder.build()

    async def job(client: AdminClient) -> None:
        await create(client, "kind-in")
        await write(client, "kind-in", "a")
        async with running(client, counted(False), on_disk("kind", tmp_path)) as host:
            await condition(lambda: host.committed > 0)
        # The group takes another topology only if it is new.
        (await client.groups.delete(["kind"])).whole()
        with pytest.raises(StreamsError, match="store counts was a timestamped-key-value store, and is a time"):
            async with asyncio.timeout(WAIT_S):
                await EmbeddedHost(client, counted(True), on_disk("kind", tmp_path)).run()

    run(broker, job)


async def standbys_answer(one: EmbeddedHost, other: EmbeddedHost) -> None:
    """Standbys answer requests, unless these require active tasks, and say how far they are."""
    (store,) = one.plan.stores
    request = StateQueryRequest.in_store(store.name).with_query(KeyQuery.with_key("w"))
    values, lags = [], []
    for host in (one, other):
        for partition, each in host.queries.query(request).partition_results.items():
            role = next(of.role for key, of in host.tasks.running.items() if key == ("1", partition))
            values.append((role, partition, each.result))
            required = host.queries.query(request.require_active()).partition_results[partition]
            refused = None if role is Role.ACTIVE else FailureReason.NOT_ACTIVE
            assert required.failure_reason is refused, required
            # A standby does not know the positions of inputs.
            assert each.position.is_empty or role is Role.ACTIVE
        lags += [(await host.queries.partition_lags())[store.name]]
    assert sorted(each[1] for each in values) == [0, 0, 1, 1]
    for role in (Role.ACTIVE, Role.STANDBY):
        assert [value for at, _, value in values if at is role and value is not None] == [20]
    assert all(
        each.current_offset_position > 0 or not each.end_offset_position for lag in lags for each in lag.values()
    )


def test_a_standby_keeps_files(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, an instance that takes over from another restores all of it."""

    async def job(client: AdminClient) -> None:
        name = "standby"
        group = ConfigResource(ResourceType.GROUP, name)
        change = ConfigChange("streams.num.standby.replicas", AlterOp.SET, "1")
        (await client.configs.alter({group: [change]})).whole()
        await create(client, f"{name}-in", f"{name}-out")
        await write(client, f"{name}-in", *("w" for _ in range(20)))
        async with (
            running(client, counts(name), on_disk(name, tmp_path)) as one,
            running(client, counts(name), on_disk(name, tmp_path)) as other,
        ):
            await until(client, f"{name}-out", [("w", count) for count in range(1, 21)])
            # Both have all tasks with stores, each in a directory of its own, and standbys are as far as active tasks.
            await condition(lambda: followed(one) | followed(other) == {0, 1} and follows(one, other))
            await standbys_answer(one, other)
        assert len(list(tmp_path.rglob("data.mdb"))) == 4
        async with running(client, counts(name), on_disk(name, tmp_path)) as host:
            await condition(lambda: len(host.tasks.active) == 4)
            assert restored(host) == 0

    run(broker, job)


def test_an_application_with_files_that_is_killed_counts_each_record_once(tmp_path: Path) -> None:
    """If this fails, kill -9 of an application or of its broker leaves files that miss records, or have them twice."""
    options = f'"state.dir": {str(tmp_path / "state")!r}, "brokercy.streams.state.buffer.bytes": 0,'
    program = APPLICATION.replace('"application.id": "counts",', f'"application.id": "counts", {options}')
    assert "state.dir" in program
    broker = BrokerProcess(tmp_path / "broker", KILL_SETTINGS)
    try:
        broker.start()
        asyncio.run(survives(broker, tmp_path, 4, seed=2, program=program))
    finally:
        broker.close()
    assert list((tmp_path / "state" / "counts").rglob("data.mdb"))
