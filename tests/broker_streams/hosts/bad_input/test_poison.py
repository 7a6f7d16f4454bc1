"""Records that cannot be read or processed: they end the application by name, or are skipped and kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_streams import JSON, StreamsBuilder
from tests.broker_streams.hosts.bad_input.ending import ends, passed_on, records_of, run
from tests.broker_streams.hosts.test_embedded import (
    create,
    running,
    settings,
    write,
)
from tests.support.broker import BrokerProcess


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
