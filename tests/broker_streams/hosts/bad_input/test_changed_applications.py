"""A changed application over the state of the one before: it is refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_cy.admin import AdminClient
from broker_streams import JSON, LONG, STRING, Materialized, StreamsBuilder
from tests.broker_streams.hosts.bad_input.ending import ends, records_of, run
from tests.broker_streams.hosts.test_embedded import (
    counts,
    create,
    running,
    settings,
    write,
)
from tests.support.broker import BrokerProcess


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
