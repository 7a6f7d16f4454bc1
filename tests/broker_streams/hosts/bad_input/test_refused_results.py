"""Results that the cluster refuses, transactions that take too long, and inputs that were deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import StreamsBuilder, log_and_continue
from broker_streams.hosts.embedded.writer import Writer
from tests.broker_streams.hosts.bad_input.ending import ABORT_MS, ends, records_of, run
from tests.broker_streams.hosts.test_embedded import (
    PARTITIONS,
    committed,
    counts,
    create,
    running,
    settings,
    until,
    write,
)
from tests.support.broker import BrokerProcess

SMALL = {"max.message.bytes": "2000"}


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
