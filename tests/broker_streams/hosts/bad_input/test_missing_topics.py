"""Topics that are missing, deleted, or have other partitions: an application names them, or goes on with them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import LONG, Materialized, StreamsBuilder, StreamsError
from broker_streams.hosts.embedded import group_news
from broker_streams.hosts.embedded import host as host_module
from broker_streams.hosts.embedded import topics as topics_module
from broker_streams.hosts.embedded.host import EmbeddedHost
from tests.broker_streams.hosts.bad_input.ending import ends, passed_on, run
from tests.broker_streams.hosts.test_embedded import (
    counts,
    create,
    running,
    settings,
    until,
    write,
)
from tests.support.broker import BrokerProcess


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
