"""Events of the mirror in the topic of the target."""

from __future__ import annotations

import asyncio

from broker_cy.admin import AdminClient
from broker_cy.admin.event_writer import NO_BROKER, EventWriter
from broker_cy.client.event_text import line_of, subject_of
from broker_cy.metrics.events import TOPIC, CopyFlowChanged, Stamped, prefix_of
from broker_cy.metrics.topics import OWN_CLIENT
from tests.broker_mirror.conftest import Clusters
from tests.support.wait import until

WAIT_S = 60.0


def test_events_are_written_into_the_target(clusters: Clusters) -> None:
    """If this fails, the event pages of the target say nothing of its mirrors."""
    failed = CopyFlowChanged("A", "B", "failed", "", "the target was away", 1)
    began = CopyFlowChanged("A", "B", "problem_began", "t-3", "no partition 3", 1)

    async def written() -> list[Stamped]:
        async with AdminClient(clusters.b.bootstrap) as client:
            ends = (await client.offsets.latest([client.events.partition])).whole()
            found = []
            async for entries in client.events.read(0, *ends.values(), only=prefix_of(CopyFlowChanged)):
                found += [each.item for each in entries if each.item is not None]
            return found

    async def job() -> None:
        writer = EventWriter(lambda: AdminClient(clusters.b.bootstrap, client_id=OWN_CLIENT), "flow A->B")
        try:
            await writer.write([failed], 5)
            await writer.write([], 6)
            await writer.write([began], 7)
        finally:
            await writer.close()

    until(lambda: TOPIC in asyncio.run(topics(clusters)), "the topic of events", WAIT_S)
    asyncio.run(job())
    found = asyncio.run(written())
    assert found == [Stamped(5, NO_BROKER, failed), Stamped(7, NO_BROKER, began)]
    assert [f"{subject_of(each)}: {line_of(each.event)}" for each in found] == [
        "A->B: failed: the target was away",
        "A->B: problem began t-3: no partition 3",
    ]


async def topics(clusters: Clusters) -> tuple[str, ...]:
    async with AdminClient(clusters.b.bootstrap) as client:
        return await client.topics.names()


def test_a_client_without_the_right_id_writes_no_events(clusters: Clusters) -> None:
    """If this fails, any program may write what looks like an event, and the mirror need not be told apart."""

    async def job() -> bool:
        writer = EventWriter(lambda: AdminClient(clusters.b.bootstrap, client_id="other"), "flow A->B")
        try:
            await writer.write([CopyFlowChanged("A", "B", "started")], 5)
            return writer._is_denied
        finally:
            await writer.close()

    assert asyncio.run(job())


def test_events_wait_for_a_target_that_is_away(clusters: Clusters) -> None:
    """If this fails, the event of a failure is lost, because the target is away then."""

    async def job() -> int:
        places = ["127.0.0.1:1", clusters.b.bootstrap]
        writer = EventWriter(lambda: AdminClient(places.pop(0), client_id=OWN_CLIENT, timeout_s=0.3), "flow A->B")
        try:
            await writer.write([CopyFlowChanged("A", "B", "failed")], 5)
            return len(writer._waiting)
        finally:
            await writer.close()

    assert asyncio.run(job()) == 1
