"""A mirror whose principal may not do something in one of the clusters."""

from __future__ import annotations

import asyncio
import time

from broker_cy.admin import AdminClient
from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_cy.wire.records import Record
from broker_mirror.copy.host import transactional_id_of
from broker_mirror.copy.status import CopyState
from broker_mirror.tasks.host import FlowTasks
from tests.broker_mirror.copy.clusters import Clusters, create, partition_of, records_of, run, until


async def deny(client: AdminClient, kind: ResourceType, name: str, operation: Operation) -> None:
    """Deny an operation to clients without a login."""
    denial = Binding(kind, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, Permission.DENY)
    (await client.acls.create([denial])).whole()


async def send(client: AdminClient, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    await client.records.producer().send(topic, [Record(timestamp=now_ms, value=b"%d" % step) for step in range(20)])


def test_denied_topics_are_named_and_others_go_on(secured: tuple[str, str], topic: str) -> None:
    """If this fails, one topic without ACLs stops all others, or is not copied and the status does not say so."""

    async def job(pair: Clusters) -> None:
        names = [f"{topic}-{each}" for each in ("free", "unread", "unwritten", "hidden")]
        keys = [key for name in names for key in await create(pair, name, 1)]
        for name in names:
            await send(pair.source, name)
        await deny(pair.source, ResourceType.TOPIC, names[1], Operation.READ)
        await deny(pair.target, ResourceType.TOPIC, f"A.{names[2]}", Operation.WRITE)
        await deny(pair.source, ResourceType.TOPIC, names[3], Operation.DESCRIBE)
        copy = pair.copy()
        await copy.start(keys)

        def is_unnamed() -> str | None:
            parts = [partition_of(copy.status().partitions, key) for key in keys[1:]]
            return None if all("TOPIC_AUTHORIZATION_FAILED" in (each.problem or "") for each in parts) else str(parts)

        await until(is_unnamed, copy)
        # After the first failure of a transaction that had all of them.
        await send(pair.source, names[0])
        await pair.copied(copy, names[0])
        await copy.stop()

        async def is_unread() -> str | None:
            # Kafka answers the end of a transaction before its markers are written.
            found = (await records_of(pair.target, f"A.{names[0]}"))[0]
            return None if len(found) == 40 else f"{len(found)} of 40 records of the free topic are committed"

        await until(is_unread, copy)
        # The third topic has an ACL now, so that it cannot be read either.
        for name in (names[1], names[3]):
            assert (await records_of(pair.target, f"A.{name}"))[0] == []
        assert [partition_of(copy.status().partitions, key).source_position or 0 for key in keys[1:]] == [0, 0, 0]

    run(secured, job)


def test_a_hidden_topic_that_the_file_names_is_a_problem(secured: tuple[str, str], topic: str) -> None:
    """A cluster does not list topics that a principal may not describe. If this fails, such a topic is missing in the
    target without a reason.
    """

    async def job(pair: Clusters) -> None:
        await create(pair, topic, 1)
        await deny(pair.source, ResourceType.TOPIC, topic, Operation.DESCRIBE)
        async with FlowTasks(pair.flow, pair.source, pair.target) as tasks:
            plan = await tasks.refresh_topics(changes=True)
        assert plan.problems == {topic: f"the source has no topic {topic}, or denies DESCRIBE on it"}
        assert plan.partitions == ()

    run(secured, job, topics=f"{topic},other.*")


def test_a_flow_goes_on_without_transactions(secured: tuple[str, str], topic: str) -> None:
    """MirrorMaker 2 needs no transactional id by default. If this fails, a file that worked with it copies nothing."""

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic, 1)
        await deny(pair.target, ResourceType.TRANSACTIONAL_ID, transactional_id_of(pair.flow, 7), Operation.WRITE)
        copy = pair.copy(7)
        await copy.start(keys)
        await send(pair.source, topic)
        await pair.copied(copy, topic)
        note = copy.status().note or ""
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in note
        assert "B.exactly.once.source.support=disabled" in note
        await copy.stop()
        assert len((await records_of(pair.target, f"A.{topic}"))[0]) == 20

    run(secured, job, B_offset_flush_interval_ms="100")


def test_transactions_that_the_file_demands_are_not_left_out(secured: tuple[str, str], topic: str) -> None:
    """If this fails, records are copied twice although the file asks for exactly once."""

    async def job(pair: Clusters) -> None:
        keys = await create(pair, topic, 1)
        await deny(pair.target, ResourceType.TRANSACTIONAL_ID, transactional_id_of(pair.flow, 8), Operation.WRITE)
        copy = pair.copy(8)
        await copy.start(keys)
        async with asyncio.timeout(60):
            status = await copy.ended()
        assert status.state is CopyState.FAILED
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in (status.error or "")
        assert "B.exactly.once.source.support=disabled copies without transactions" in (status.error or "")

    run(secured, job, B_exactly_once_source_support="enabled")
