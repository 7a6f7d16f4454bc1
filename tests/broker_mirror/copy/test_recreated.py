"""Topics that are deleted and created again, in the source or in the target, beside a running mirror or without one."""

from __future__ import annotations

import time

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.core.uuid import ZERO
from broker_cy.wire.records import Record
from broker_mirror.copy import fetching
from broker_mirror.copy.host import CopyFlow
from broker_mirror.copy.positions import committed_positions
from broker_mirror.filters import NameFilter
from broker_mirror.formats.source_offsets import CONNECTOR
from tests.broker_mirror.copy.clusters import Clusters, create, partition_of, plain, records_of, run, until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics are looked up often."""
    monkeypatch.setattr(fetching, "METADATA_S", 0.2)


async def send(pair: Clusters, topic: str, first: int) -> list[Record]:
    """Produce ten records of now, which no retention deletes; return them."""
    now_ms = int(time.time() * 1000)
    records = [Record(timestamp=now_ms, key=b"k", value=b"%d" % (first + step)) for step in range(10)]
    await pair.source.records.producer().send(topic, records)
    return records


async def create_again(pair: Clusters, topic: str, side: str) -> None:
    client, name = (pair.source, topic) if side == "source" else (pair.target, pair.flow.remote_topic(topic))
    (await client.topics.delete([name])).whole()
    (await client.topics.create([NewTopic(name, 1, 1)])).whole()


async def copied_values(pair: Clusters, topic: str) -> list[tuple[object, ...]]:
    return plain((await records_of(pair.target, pair.flow.remote_topic(topic)))[0])


async def becomes(pair: Clusters, copy: CopyFlow, topic: str, expected: list[tuple[object, ...]]) -> None:
    """Wait until the copy of a topic has these records: markers of transactions may be on their way."""

    async def is_behind() -> str | None:
        found = await copied_values(pair, topic)
        return None if found == expected else f"{len(found)} records of {len(expected)}"

    await until(is_behind, copy)


async def named(copy: CopyFlow, key: TopicPartition, text: str) -> None:
    def is_unnamed() -> str | None:
        each = partition_of(copy.status().partitions, key)
        return None if each.waits and text in (each.problem or "") else str(each)

    await until(is_unnamed, copy)


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_the_topic_stops_and_others_go_on(brokers: tuple[str, str], topic: str, side: str, is_up: bool) -> None:
    """If this fails, records of another topic are appended to a copy, or a copy lacks records and the status does not
    say so.
    """

    async def job(pair: Clusters) -> None:
        keys = [*await create(pair, topic, 1), *await create(pair, f"{topic}-other", 1)]
        copy = pair.copy()
        await copy.start(keys)
        before = await send(pair, topic, 0)
        others = await send(pair, f"{topic}-other", 0)
        await pair.copied(copy, topic, f"{topic}-other")
        if not is_up:
            await copy.stop()
        await create_again(pair, topic, side)
        await send(pair, topic, 100)
        others += await send(pair, f"{topic}-other", 100)
        if not is_up:
            copy = pair.copy()
            await copy.start(keys)
        name = topic if side == "source" else pair.flow.remote_topic(topic)
        await named(copy, keys[0], f"topic {name} of the {side} was deleted and created again")
        assert "add " in (partition_of(copy.status().partitions, keys[0]).problem or "")
        await becomes(pair, copy, f"{topic}-other", plain(others))
        await becomes(pair, copy, topic, plain(before) if side == "source" else [])
        await copy.stop()

    run(brokers, job)


@pytest.mark.parametrize("support", ["enabled", pytest.param("disabled", marks=pytest.mark.full)])
@pytest.mark.parametrize("is_up", [True, pytest.param(False, marks=pytest.mark.full)], ids=["up", "down"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_listed_topic_is_copied_from_its_first_record(
    brokers: tuple[str, str], topic: str, side: str, is_up: bool, support: str
) -> None:
    """If this fails, the way out that the problem names does not work."""

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic, 1)
        copy = pair.copy()
        await copy.start(keys)
        before = await send(pair, topic, 0)
        await pair.copied(copy, topic)
        if not is_up:
            await copy.stop()
        await create_again(pair, topic, side)
        after = await send(pair, topic, 100)
        if not is_up:
            copy = pair.copy()
            await copy.start(keys)
        expected = plain([*before, *after])
        await becomes(pair, copy, topic, expected)
        # Its committed offset belongs to the new topic: a restart does not begin again.
        await copy.stop()
        copy = pair.copy()
        await copy.start(keys)
        last = await send(pair, topic, 200)
        await becomes(pair, copy, topic, [*expected, *plain(last)])
        await copy.stop()

    run(
        brokers,
        job,
        brokercy_recreated_topics="t-.*",
        B_exactly_once_source_support=support,
        B_offset_flush_interval_ms="100",
    )


def test_committed_offsets_have_the_ids_of_their_topics(brokers: tuple[str, str], topic: str) -> None:
    """If this fails, a topic that was created again while no mirror ran is taken for the old one."""

    async def job(pair: Clusters) -> None:
        assert pair.flow.recreated == NameFilter(None, None)
        keys = await create(pair, topic, 1)
        copy = pair.copy()
        await copy.start(keys)
        await send(pair, topic, 0)
        await pair.copied(copy, topic)
        await copy.stop()
        position = (await committed_positions(pair.target, pair.flow.offsets_topic, "A", CONNECTOR))[keys[0]]
        source = (await pair.source.topics.describe([topic])).whole()[topic]
        target = (await pair.target.topics.describe([f"A.{topic}"])).whole()[f"A.{topic}"]
        assert ZERO not in (source.topic_id, target.topic_id)
        assert (position.offset, position.ids.source, position.ids.target) == (10, source.topic_id, target.topic_id)

    run(brokers, job)
