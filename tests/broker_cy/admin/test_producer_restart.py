"""A producer whose broker was started again since its last call."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.support.broker import BrokerProcess


def test_a_producer_looks_for_its_topic_again(tmp_path: Path) -> None:
    """If this fails, the first records after a restart of a broker are refused, although the broker answers."""
    broker = BrokerProcess(tmp_path)

    async def job() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=60) as client:
            (await client.topics.create([NewTopic("t", 1, 1)])).whole()
            await client.records.producer().send("t", [Record(value=b"1")])
            for number in range(3):
                # Without a pause of the loop, the client does not know that its connections are closed.
                broker.kill()
                broker.start()
                client.caller.metadata.forget(["t"])
                (appended,) = await client.records.producer().send("t", [Record(value=b"%d" % number)])
                assert appended.records == 1

    try:
        broker.start()
        asyncio.run(job())
    finally:
        broker.close()
