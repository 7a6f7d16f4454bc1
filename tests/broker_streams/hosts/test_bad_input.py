"""Bad input of an application on a broker: each ends with a message that names the thing, or is survived, and nothing
is lost or doubled.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.client.security import security_of
from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_cy.wire.records import Record
from broker_streams import JSON, LONG, STRING, Materialized, StreamsBuilder, StreamsError, log_and_continue
from broker_streams.hosts.embedded import group_news
from broker_streams.hosts.embedded import host as host_module
from broker_streams.hosts.embedded import topics as topics_module
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.embedded.task_timeout import INPUTS
from broker_streams.hosts.embedded.writer import Writer
from broker_streams.hosts.measures import State
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.test_embedded import (
    PARTITIONS,
    WAIT_S,
    committed,
    counts,
    create,
    running,
    settings,
    until,
    write,
)
from tests.support.broker import BrokerProcess
from tests.support.sasl_broker import ALICE, PASSWORD, client_settings
from tests.support.secured_broker import SecuredBroker

ABORT_MS = 200
SMALL = {"max.message.bytes": "2000"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    given = SETTINGS | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(ABORT_MS)}
    made = BrokerProcess(tmp_path_factory.mktemp("bad-input"), given)
    try:
        yield made.start()
    finally:
        made.close()


def run(broker: BrokerProcess, job: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(WAIT_S), AdminClient(broker.bootstrap, timeout_s=10) as client:
            await job(client)

    asyncio.run(whole())


async def ends(client: AdminClient, topology: Any, name: str, **changed: Any) -> str:
    """The text with which an application ends."""
    with pytest.raises((StreamsError, ClientError)) as failed:
        await EmbeddedHost(client, topology, settings(name, **changed)).run()
    return str(failed.value)


async def records_of(client: AdminClient, topic: str) -> list[Any]:
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends_at = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found: list[Any] = []
    reader = client.records.reader(dict.fromkeys(keys, 0), ends=ends_at, isolation=Isolation.READ_COMMITTED)
    async with reader:
        async for chunk in reader:
            found += chunk.records
    return found


def passed_on(name: str, **options: Any) -> Any:
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", **options).to(f"{name}-out")
    return builder.build()


# ---- topics


def test_missing_source_topics_are_named(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an application waits for ever for a topic that its user misspelt."""
    monkeypatch.setattr(group_news, "MISSING_S", 0.3)

    async def job(client: AdminClient) -> None:
        text = await ends(client, counts("unknown"), "unknown")
        assert text == (
            "group unknown cannot run the application: MISSING_SOURCE_TOPICS: Source topics unknown-in are missing."
            " Create them, or change the topology"
        )

    run(broker, job)


def test_a_source_topic_may_come_later(broker: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, an application must start after its topics."""

    async def job(client: AdminClient) -> None:
        with caplog.at_level(logging.WARNING, "broker_streams"):
            async with running(client, counts("later"), settings("later")) as host:
                while not host.statuses:
                    await asyncio.sleep(0.02)
                await create(client, "later-in", "later-out")
                await write(client, "later-in", "a")
                await until(client, "later-out", [("a", 1)])
        assert "group later waits: MISSING_SOURCE_TOPICS: Source topics later-in are missing." in caplog.text

    run(broker, job)


def test_a_source_topic_that_is_deleted_is_named(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an application hangs, or ends without a reason, when its input vanishes."""
    monkeypatch.setattr(group_news, "MISSING_S", 0.3)

    async def job(client: AdminClient) -> None:
        await create(client, "gone-in", "gone-out")
        await write(client, "gone-in", "a")
        host = EmbeddedHost(client, counts("gone"), settings("gone"))
        task = asyncio.create_task(host.run())
        await until(client, "gone-out", [("a", 1)])
        (await client.topics.delete(["gone-in"])).whole()
        with pytest.raises((StreamsError, ClientError), match="gone-in"):
            await task

    run(broker, job)


def test_a_missing_sink_topic_is_named(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an application hangs because a topic of its results is missing, or skips records."""
    monkeypatch.setattr(topics_module, "SINKS_S", 0.5)

    async def job(client: AdminClient) -> None:
        await create(client, "nosink-in")
        await write(client, "nosink-in", "a")
        text = await ends(client.with_timeout(2), passed_on("nosink"), "nosink")
        assert "nosink-out" in text
        assert "does not exist" in text

    run(broker, job)


def test_partitions_that_are_added_are_read(broker: BrokerProcess) -> None:
    """If this fails, records of a new partition wait until the tasks of the application move."""

    async def job(client: AdminClient) -> None:
        await create(client, "grown-in", "grown-out")
        (await client.topics.create([NewTopic("grown-more", 1, 1)])).whole()
        builder = StreamsBuilder()
        builder.stream(["grown-in", "grown-more"]).group_by(lambda key, value: value).count().to_stream().to(
            "grown-out", value=LONG
        )
        async with running(client, builder.build(), settings("grown")):
            await write(client, "grown-in", "a")
            await until(client, "grown-out", [("a", 1)])
            (await client.topics.add_partitions({"grown-more": 2})).whole()
            record = Record(timestamp=0, value=b"b")
            await client.records.producer().send("grown-more", [record], partition=1)
            await until(client, "grown-out", [("a", 1), ("b", 1)])

    run(broker, job)


def test_partitions_that_change_internal_topics_end_the_application(broker: BrokerProcess) -> None:
    """If this fails, records of one key are counted in two tasks."""

    async def job(client: AdminClient) -> None:
        await create(client, "wider-in", "wider-out")
        await write(client, "wider-in", "a")
        host = EmbeddedHost(client, counts("wider"), settings("wider"))
        task = asyncio.create_task(host.run())
        await until(client, "wider-out", [("a", 1)])
        (await client.topics.add_partitions({"wider-in": 3})).whole()
        with pytest.raises(StreamsError) as failed:
            await task
        text = str(failed.value)
        assert text.startswith("group wider cannot run the application: INCORRECTLY_PARTITIONED_TOPICS: ")
        assert "wider-KSTREAM-AGGREGATE-STATE-STORE" in text
        assert "choose another application.id" in text

    run(broker, job)


def test_an_internal_topic_with_other_partitions_is_named(broker: BrokerProcess) -> None:
    """If this fails, an application counts records of a key in tasks that do not have its state."""

    async def job(client: AdminClient) -> None:
        await create(client, "other-in", "other-out")
        builder = StreamsBuilder()
        stream = builder.stream("other-in")
        stream.group_by_key().count(materialized=Materialized("rows")).to_stream().to("other-out", value=LONG)
        (await client.topics.create([NewTopic("other-rows-changelog", 5, 1)])).whole()
        text = await ends(client, builder.build(), "other")
        assert "INCORRECTLY_PARTITIONED_TOPICS" in text
        assert "other-rows-changelog" in text

    run(broker, job)


def test_an_internal_topic_that_is_deleted_is_named(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the coordinator creates a changelog again, and the next start restores a part of the state."""
    monkeypatch.setattr(host_module, "TOPICS_S", 0.2)

    async def job(client: AdminClient) -> None:
        await create(client, "lost-in", "lost-out")
        await write(client, "lost-in", "a")
        host = EmbeddedHost(client.with_timeout(3), counts("lost"), settings("lost"))
        task = asyncio.create_task(host.run())
        await until(client, "lost-out", [("a", 1)])
        (changelog,) = [
            name
            for name in await client.topics.names()
            if name.startswith("lost-KSTREAM-AGG") and name.endswith("-changelog")
        ]
        (await client.topics.delete([changelog])).whole()
        await write(client, "lost-in", "a")
        with pytest.raises((StreamsError, ClientError), match=changelog):
            await task

    run(broker, job)


# ---- topologies


def test_another_topology_over_the_state_of_a_group_is_refused(broker: BrokerProcess) -> None:
    """If this fails, a changed application gets the state of other stores."""

    async def job(client: AdminClient) -> None:
        await create(client, "changed-in", "changed-out")
        async with running(client, counts("changed"), settings("changed")) as host:
            while not host.tasks.active:
                await asyncio.sleep(0.02)
        builder = StreamsBuilder()
        stream = builder.stream("changed-in").group_by(lambda key, value: value)
        stream.count(materialized=Materialized("renamed")).to_stream().to("changed-out", value=LONG)
        text = await ends(client, builder.build(), "changed")
        assert text.startswith("group changed refuses the application: INVALID_REQUEST the topology differs")
        assert "delete the group with its offsets, or choose another application.id" in text

    run(broker, job)


def test_state_of_another_serde_is_named(broker: BrokerProcess) -> None:
    """If this fails, a changed serde shows an error without the store, or wrong counts."""

    def topology(serde: Any) -> Any:
        builder = StreamsBuilder()
        grouped = builder.stream("serde-in").group_by_key()
        table = grouped.aggregate(lambda: None, lambda key, value, total: value, materialized=serde)
        table.to_stream().to("serde-out", value=serde.value)
        return builder.build()

    async def job(client: AdminClient) -> None:
        await create(client, "serde-in", "serde-out")
        await write(client, "serde-in", "{")
        async with running(client, topology(Materialized("last", value=STRING)), settings("serde")):
            while not await records_of(client, "serde-out"):
                await asyncio.sleep(0.02)
        await write(client, "serde-in", "{}")
        text = await ends(client, topology(Materialized("last", value=JSON)), "serde")
        assert "last" in text
        assert "serde-in-" in text

    run(broker, job)


# ---- offsets and transactions


def test_offsets_out_of_range_follow_auto_offset_reset(broker: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, deleted records are passed over silently, or an application does not start again."""

    async def job(client: AdminClient) -> None:
        await create(client, "trimmed-in", "trimmed-out")
        # Each partition gets a committed offset.
        for number in range(PARTITIONS):
            await client.records.producer().send("trimmed-in", [Record(timestamp=0, value=b"a")], partition=number)
        async with running(client, counts("trimmed"), settings("trimmed")):
            await until(client, "trimmed-out", [("a", 1), ("a", 2)])
        await write(client, "trimmed-in", *"bcdefgh")
        keys = [TopicPartition("trimmed-in", number) for number in range(PARTITIONS)]
        ends_at = (await client.offsets.latest(keys)).whole()
        (await client.topics.delete_records(ends_at)).whole()
        text = await ends(client, counts("trimmed"), "trimmed", auto_offset_reset="none")
        assert "the committed offset 1 of trimmed-in-" in text
        assert "auto.offset.reset is none" in text
        with caplog.at_level(logging.WARNING, "broker_streams"):
            async with running(client, counts("trimmed"), settings("trimmed")):
                await write(client, "trimmed-in", "a")
                await until(client, "trimmed-out", [("a", 1), ("a", 2), ("a", 3)])
        assert "the committed offset 1 of trimmed-in-" in caplog.text

    run(broker, job)


def test_a_transaction_that_takes_too_long_is_done_again(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a slow commit ends the application, or its results count twice."""
    right, slow = Writer._send, [True]

    async def send(self: Writer, *arguments: Any) -> None:
        await right(self, *arguments)
        if slow and arguments[1]:
            slow.clear()
            await asyncio.sleep((1_000 + 3 * ABORT_MS) / 1000)

    monkeypatch.setattr(Writer, "_send", send)

    async def job(client: AdminClient) -> None:
        await create(client, "slow-in", "slow-out")
        await write(client, "slow-in", "a", "b", "a")
        with caplog.at_level(logging.WARNING, "broker_streams"):
            async with running(client, counts("slow"), settings("slow", transaction_timeout_ms=1_000)):
                await until(client, "slow-out", [("a", 1), ("a", 2), ("b", 1)])
        assert "transaction.timeout.ms" in caplog.text

    run(broker, job)


def test_a_result_that_is_too_large_is_named(broker: BrokerProcess) -> None:
    """If this fails, an application ends without the topic that refuses its result."""

    async def job(client: AdminClient) -> None:
        await create(client, "large-in")
        (await client.topics.create([NewTopic("large-out", 1, 1, configs=SMALL)])).whole()
        await write(client, "large-in", "a")
        builder = StreamsBuilder()
        builder.stream("large-in").map_values(lambda value: value * 3_000).to("large-out")
        text = await ends(client, builder.build(), "large")
        assert "large-out" in text
        assert "MESSAGE_TOO_LARGE" in text

    run(broker, job)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_refused_result_is_dropped_alone(broker: BrokerProcess, guarantee: str) -> None:
    """If this fails, one result that is too large ends an application, or takes others with it, or they come twice."""
    name = f"refused-{guarantee}"

    async def job(client: AdminClient) -> None:
        await create(client, f"{name}-in", f"{name}-dead")
        (await client.topics.create([NewTopic(f"{name}-out", PARTITIONS, 1, configs=SMALL)])).whole()
        values = ["a", "b", *(f"c{number}" for number in range(100))]
        await write(client, f"{name}-in", *values)
        builder = StreamsBuilder()
        grown = builder.stream(f"{name}-in").map_values(lambda value: value * 3_000 if value == "b" else value)
        grown.to(f"{name}-out")
        of = settings(
            name,
            processing_guarantee=guarantee,
            production_exception_handler=log_and_continue,
            errors_dead_letter_queue_topic_name=f"{name}-dead",
        )
        found: list[Any] = []
        letters: list[Any] = []
        async with running(client, builder.build(), of) as host:
            while len(found) < len(values) - 1 or not letters:
                found, letters = await records_of(client, f"{name}-out"), await records_of(client, f"{name}-dead")
                await asyncio.sleep(0.05)
            assert sum(each.task.state.dropped_records for each in host.tasks.active) == 1
        assert sorted(each.value.decode() for each in found) == sorted(value for value in values if value != "b")
        (letter,) = letters
        assert (letter.key, letter.value) == (b"k1", None)
        assert b"MESSAGE_TOO_LARGE" in dict(letter.headers)["__streams.errors.message"]

    run(broker, job)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_results_that_are_refused_for_now_are_written_later(
    broker: BrokerProcess, caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    """If this fails, a topic that is away for a moment ends applications, or their counts are wrong afterwards."""
    name = f"later-{guarantee}"

    async def job(client: AdminClient) -> None:
        await create(client, f"{name}-in", f"{name}-out")
        await write(client, f"{name}-in", "a", "b")
        with caplog.at_level(logging.WARNING, "broker_streams"):
            async with running(client, counts(name), settings(name, processing_guarantee=guarantee)):
                await until(client, f"{name}-out", [("a", 1), ("b", 1)])
                (await client.topics.delete([f"{name}-out"])).whole()
                await write(client, f"{name}-in", "a", "a")
                while "a commit failed and is tried again" not in caplog.text:
                    await asyncio.sleep(0.02)
                await create(client, f"{name}-out")
                if guarantee == "exactly_once_v2":
                    await until(client, f"{name}-out", [("a", 2), ("a", 3)])
                # With at_least_once, the part of the commit that was written counts twice.
                while len(await committed(client, f"{name}-out")) < 2:
                    await asyncio.sleep(0.05)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in caplog.text

    run(broker, job)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_an_application_outlives_a_cluster_that_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    """If this fails, task.timeout.ms has no effect: applications end with the first call that has no answer."""
    name = f"away-{guarantee}"

    async def job() -> None:
        async with asyncio.timeout(WAIT_S), AdminClient(own.bootstrap, timeout_s=2.0) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a", "b")
            of = settings(name, processing_guarantee=guarantee)
            async with running(client, counts(name), of):
                await until(client, f"{name}-out", [("a", 1), ("b", 1)])
                await asyncio.to_thread(own.kill)
                # A commit of positions may have been under way: then the tasks begin again.
                while not re.search(f"({INPUTS}|restoring task .*) failed", caplog.text):
                    await asyncio.sleep(0.05)
                await asyncio.to_thread(own.start)
                await write(client, f"{name}-in", "a")
                await until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1)])
            host = EmbeddedHost(client, counts(name), settings(name, task_timeout_ms=10))
            brief = asyncio.create_task(host.run())
            while host.life.state is not State.RUNNING:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(own.kill)
            with pytest.raises(StreamsError, match=r"task\.timeout\.ms is 10"):
                await brief

    own = BrokerProcess(tmp_path, SETTINGS)
    with caplog.at_level(logging.WARNING, "broker_streams"):
        try:
            own.start()
            asyncio.run(job())
        finally:
            own.close()


# ---- poison


def test_a_record_that_cannot_be_read_ends_the_application(broker: BrokerProcess) -> None:
    """If this fails, an application hides poison, or does not say where it is."""

    async def job(client: AdminClient) -> None:
        await create(client, "poison-in", "poison-out")
        await write(client, "poison-in", "{")
        text = await ends(client, passed_on("poison", value=JSON), "poison")
        assert "poison-in-" in text
        assert "at offset 0" in text
        assert "deserialization.exception.handler decides" in text

    run(broker, job)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_letter_of_the_last_record_is_kept_at_least_once(broker: BrokerProcess, guarantee: str) -> None:
    """If this fails, the record that has ended an application is lost, or a letter counts without a transaction."""
    name = f"last-letter-{guarantee}"

    async def job(client: AdminClient) -> None:
        await create(client, f"{name}-in", f"{name}-out", f"{name}-dead")
        await write(client, f"{name}-in", "{")
        of = {"processing_guarantee": guarantee, "errors_dead_letter_queue_topic_name": f"{name}-dead"}
        await ends(client, passed_on(name, value=JSON), name, **of)
        letters = [each.value for each in await records_of(client, f"{name}-dead")]
        assert letters == ([b"{"] if guarantee == "at_least_once" else [])
        assert await records_of(client, f"{name}-out") == []

    run(broker, job)


def test_records_that_are_skipped_go_to_a_dead_letter_topic(broker: BrokerProcess) -> None:
    """If this fails, poison is lost, or comes twice, or the reason is missing."""

    def fails(value: Any) -> Any:
        if value == 2:
            raise RuntimeError("two is poison")
        return value

    async def job(client: AdminClient) -> None:
        await create(client, "dead-in", "dead-out", "dead-letters")
        await write(client, "dead-in", "1", "{", "2", "3")
        builder = StreamsBuilder()
        builder.stream("dead-in", value=JSON).map_values(fails).to("dead-out", value=JSON)
        of = settings(
            "dead",
            deserialization_exception_handler="LogAndContinueExceptionHandler",
            processing_exception_handler="LogAndContinueProcessingExceptionHandler",
            errors_dead_letter_queue_topic_name="dead-letters",
        )
        for _ in range(2):
            async with running(client, builder.build(), of) as host:
                while len(await records_of(client, "dead-out")) < 2 or not host.tasks.active:
                    await asyncio.sleep(0.02)
        assert sorted(each.value or b"" for each in await records_of(client, "dead-out")) == [b"1", b"3"]
        letters = {each.value: dict(each.headers) for each in await records_of(client, "dead-letters")}
        assert letters.keys() == {b"{", b"2"}
        assert letters[b"2"]["__streams.errors.message"] == b"two is poison"
        assert letters[b"2"]["__streams.errors.exception"] == b"RuntimeError"
        assert letters[b"{"]["__streams.errors.topic"] == b"dead-in"
        assert len(await records_of(client, "dead-letters")) == 2

    run(broker, job)


# ---- clusters


def test_a_cluster_without_streams_groups_is_named(tmp_path: Any) -> None:
    """If this fails, an application on an older cluster ends, or waits, without a reason."""
    given = SETTINGS | {"group.coordinator.rebalance.protocols": "classic,consumer"}
    older = BrokerProcess(tmp_path / "broker", given)

    async def job(client: AdminClient) -> None:
        await create(client, "old-in", "old-out")
        text = await ends(client, counts("old"), "old")
        assert "Kafka 4.2 and later" in text

    try:
        older.start()
        run(older, job)
    finally:
        older.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    made = SecuredBroker(tmp_path_factory.mktemp("secured"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def granted(kind: ResourceType, name: str, operation: Operation) -> Binding:
    return Binding(kind, name, PatternType.PREFIXED, f"User:{ALICE}", "*", operation, Permission.ALLOW)


ALL_BUT = {
    "group": (ResourceType.GROUP, "GROUP_AUTHORIZATION_FAILED"),
    "transactional id": (ResourceType.TRANSACTIONAL_ID, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "topic": (ResourceType.TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
}


@pytest.mark.parametrize("refused", ALL_BUT)
def test_what_an_application_may_not_use_is_named(secured: SecuredBroker, refused: str) -> None:
    """If this fails, an application that lacks an ACL hangs, or ends without the name of the resource."""
    name = f"lacks-{refused.replace(' ', '-')}"
    kind, code = ALL_BUT[refused]

    async def job() -> None:
        login = security_of(client_settings(ALICE, PASSWORD), "the test").login
        async with (
            asyncio.timeout(WAIT_S),
            AdminClient(secured.open_bootstrap, timeout_s=10) as admin,
            AdminClient(secured.bootstrap, timeout_s=10, login=login) as client,
        ):
            await create(admin, f"{name}-in", f"{name}-out")
            await write(admin, f"{name}-in", "a")
            kinds = {ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC} - {kind}
            bindings = [granted(each, name, Operation.ALL) for each in kinds]
            if kind is ResourceType.TOPIC:
                # Only the topic of the results is refused.
                bindings.append(granted(kind, f"{name}-in", Operation.ALL))
            (await admin.acls.create(bindings)).whole()
            text = await ends(client, passed_on(name), name)
        assert code in text
        assert name in text

    asyncio.run(job())
