"""A copy flow between two brokers: what the target has, and what happens when something is wrong with one partition."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker_cy.admin.topics import NewTopic
from broker_mirror.copy.fetching import Fetching
from broker_mirror.copy.positions import committed_positions
from broker_mirror.copy.status import CopyState
from broker_mirror.formats import offset_syncs
from broker_mirror.formats.source_offsets import CONNECTOR
from tests.broker_mirror.copy.clusters import (
    Clusters,
    create,
    fill,
    partition_of,
    plain,
    records_of,
    run,
    until,
)


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_the_target_has_the_committed_records(brokers: tuple[str, str], topic: str, support: str) -> None:
    """If this fails, a mirror loses records, copies aborted ones, or changes them."""

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic)
        copy = pair.copy()
        await copy.start(keys)
        begin_ms = int(time.time() * 1000)
        await fill(pair, topic)
        await pair.copied(copy, topic)
        await copy.stop()
        status = copy.status()
        assert (status.state, status.error, status.aborts) == (CopyState.STOPPED, None, 0)
        # The records have timestamps of 1970.
        newest_ms = begin_ms - 1_040, int(time.time() * 1000) - 1_000
        assert all(newest_ms[0] <= (each.latency_ms or 0) <= newest_ms[1] for each in status.partitions)
        expected, found = await records_of(pair.source, topic), await records_of(pair.target, f"A.{topic}")
        assert {part: plain(records) for part, records in found.items()} == {
            part: plain(records) for part, records in expected.items()
        }
        assert sum(each.records for each in status.partitions) == sum(map(len, expected.values()))
        committed = await committed_positions(pair.target, pair.flow.offsets_topic, "A", CONNECTOR)
        ends = {key: expected[key.partition][-1].offset + 1 for key in keys}
        assert {key: committed[key].offset for key in keys} == ends

    run(brokers, job, B_exactly_once_source_support=support, B_offset_flush_interval_ms="100")


@pytest.mark.parametrize("location", ["source", "target"])
def test_offset_syncs_name_the_copy_of_each_record(brokers: tuple[str, str], topic: str, location: str) -> None:
    """If this fails, groups that fail over skip records or read them again."""

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic, 1)
        copy = pair.copy()
        await copy.start(keys)
        await fill(pair, topic)
        await pair.copied(copy, topic)
        await copy.stop()
        side = pair.source if location == "source" else pair.target
        copies = {
            sync.source_offset - index: sync.target_offset - index
            for record in (await records_of(side, pair.flow.offset_syncs_topic))[0]
            for sync in [offset_syncs.decode(record.key, record.value, record.headers)]
            if sync.topic == topic
            for index in range(sync.count)
        }
        source, target = (await records_of(pair.source, topic))[0], (await records_of(pair.target, f"A.{topic}"))[0]
        assert copies == {first.offset: second.offset for first, second in zip(source, target, strict=True)}

    run(brokers, job, offset__syncs_topic_location=location)


def test_a_flow_continues_after_its_last_commit(brokers: tuple[str, str], topic: str) -> None:
    """A second process takes the flow over without a stop of the first one, which is fenced. If this fails, records are
    copied twice.
    """

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic)
        first = pair.copy()
        await first.start(keys)
        await fill(pair, topic)
        await pair.copied(first, topic)
        second = pair.copy()
        await second.start(keys)
        await fill(pair, topic, 1_000)
        await pair.copied(second, topic)
        assert (await first.ended()).state is CopyState.FENCED
        await second.stop()
        await first.stop()
        expected, found = await records_of(pair.source, topic), await records_of(pair.target, f"A.{topic}")
        assert {part: plain(records) for part, records in found.items()} == {
            part: plain(records) for part, records in expected.items()
        }

    run(brokers, job)


@pytest.mark.full
def test_partitions_with_problems_are_named_and_the_others_go_on(brokers: tuple[str, str], topic: str) -> None:
    """A target with too few partitions, a missing remote topic, and a source that was created again. If this fails, one
    topic stops the mirror, or records of another topic are appended.
    """

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic)
        few = await create(pair, f"{topic}-few", 2, remote=1)
        absent = await create(pair, f"{topic}-absent", 1, remote=0)
        again = await create(pair, f"{topic}-again", 1)
        copy = pair.copy()
        await copy.start([*keys, *few, *absent, *again])
        for each in (topic, f"{topic}-few", f"{topic}-absent", f"{topic}-again"):
            await fill(pair, each)
        await pair.copied(copy, topic, f"{topic}-again")
        before = plain((await records_of(pair.target, f"A.{topic}-again"))[0])
        (await pair.source.topics.delete([f"{topic}-again"])).whole()
        (await pair.source.topics.create([NewTopic(f"{topic}-again", 1, 1)])).whole()
        await fill(pair, f"{topic}-again", 5_000)
        await fill(pair, topic, 2_000)
        await pair.copied(copy, topic)

        def is_unnamed() -> str | None:
            texts = {
                few[1]: f"topic A.{topic}-few of the target has 1 partitions, and none for partition {few[1]}",
                absent[0]: "UNKNOWN_TOPIC_OR_PARTITION",
                again[0]: f"topic {topic}-again of the source was deleted and created again",
            }
            parts = copy.status().partitions
            missing = [
                (key, each.problem)
                for key, text in texts.items()
                if text not in ((each := partition_of(parts, key)).problem or "") or not each.waits
            ]
            return str(missing) if missing else None

        await until(is_unnamed, copy)
        await copy.stop()
        assert plain((await records_of(pair.target, f"A.{topic}-again"))[0]) == before

    run(brokers, job)


def test_a_defect_in_a_loop_of_fetches_ends_the_flow(
    brokers: tuple[str, str], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a flow copies nothing any more, and its status does not say so."""

    async def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Fetching, "_fetch", broken)

    async def job(pair: Clusters) -> None:
        copy = pair.copy()
        await copy.start(await create(pair, topic))
        async with asyncio.timeout(30):
            assert "RuntimeError: a defect" in str((await copy.ended()).error)

    run(brokers, job)
