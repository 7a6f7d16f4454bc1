"""Several instances that write one topic: each id once, nothing lost, every reader the same state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker_cy.admin import AdminClient
from broker_registry.errors import Code, RegistryError
from broker_registry.operations.delete import delete_subject
from broker_registry.operations.plan import Operation
from broker_registry.operations.register import Registered, RegisterSettings, register
from broker_registry.service import Service, ServiceSettings
from tests.broker_registry.operations.support import record_of, wanted
from tests.support.broker import BrokerProcess

TIMEOUT_S = 60.0


def adding(subject: str, text: str, *, is_forced: bool = False) -> Operation[Registered]:
    return lambda state, ids: register(state, ids, wanted(subject, text), RegisterSettings(is_forced=is_forced))


def run(broker: BrokerProcess, job: Callable[[Callable[[], Service]], Awaitable[None]], topic: str) -> None:
    def service() -> Service:
        settings = ServiceSettings(topic=topic, timeout_s=TIMEOUT_S)
        return Service(lambda: AdminClient(broker.bootstrap, timeout_s=TIMEOUT_S), settings)

    async def main() -> None:
        await job(service)

    asyncio.run(main())


def test_an_instance_reads_what_another_one_wrote(broker: BrokerProcess, topic: str) -> None:
    """If this fails, a consumer that asks another instance does not find the schema of a record."""

    async def job(service: Callable[[], Service]) -> None:
        async with service() as first, service() as second:
            found = await first.write(adding("a", record_of("x:int")))
            again = await second.write(adding("a", record_of("x:int")))
            assert (found.value.id, again.value.id, again.is_new) == (1, 1, False)
            other = await second.write(adding("a", record_of("x:int", "y:int=0")))
            assert (other.value.id, other.value.version) == (2, 2)
            with pytest.raises(RegistryError, match="incompatible") as caught:
                await first.write(adding("a", record_of("x:int", "z:int")))
            assert caught.value.code == Code.INCOMPATIBLE_SCHEMA
            assert await first.write(lambda state, ids: delete_subject(state, "a", is_permanent=False)) == [1, 2]
        async with service() as later:
            assert [(value.id, value.is_deleted) for value in later.state.versions("a")] == [(1, True), (2, True)]

    run(broker, job, topic)


def test_writers_at_the_same_time_give_each_id_once(broker: BrokerProcess, topic: str) -> None:
    """If this fails, an id means two schemas, and consumers decode records with the wrong one."""

    async def job(service: Callable[[], Service]) -> None:
        async with service() as first, service() as second, service() as third:
            instances = (first, second, third)

            async def add(index: int) -> tuple[str, Registered]:
                text = record_of("x:int", name=f"R{index // 3}")
                return text, await instances[index % 3].write(adding(f"s{index % 7}", text, is_forced=True))

            found = await asyncio.gather(*(add(index) for index in range(90)))
            ids = {text: reply.value.id for text, reply in found}
            assert len(ids) == 30
            assert sorted(ids.values()) == list(range(1, 31))
            assert all(ids[text] == reply.value.id for text, reply in found)
            places = [(reply.value.subject, reply.value.version) for _, reply in found if reply.is_new]
            assert len(set(places)) == len(places)
            async with service() as reader:
                values = [(value.subject, value.version, value.id) for value in reader.state.all_values()]
                assert sorted(values) == sorted(
                    {(reply.value.subject, reply.value.version, reply.value.id) for _, reply in found}
                )
                assert reader.state.problems_total == 0

    run(broker, job, topic)


def test_changes_that_wait_share_transactions(broker: BrokerProcess, topic: str) -> None:
    """If this fails, each registration waits for all before it."""

    async def job(service: Callable[[], Service]) -> None:
        async with service() as only:
            texts = [record_of("x:int", name=f"R{number}") for number in range(200)]
            await asyncio.gather(*(only.write(adding(f"s{number}", text)) for number, text in enumerate(texts)))
            assert only.takeovers == 1
            assert only.applied.changes < 100

    run(broker, job, topic)


def test_a_schema_above_the_limit_of_the_topic_is_refused_alone(broker: BrokerProcess, topic: str) -> None:
    """If this fails, one large schema makes others fail, or its author waits for a timeout."""

    async def job(service: Callable[[], Service]) -> None:
        async with service() as only:
            large = record_of("x:int").replace('"R"', '"R","doc":"' + "x" * 2_000_000 + '"')
            results = await asyncio.gather(
                only.write(adding("large", large)), only.write(adding("small", '"int"')), return_exceptions=True
            )
            assert isinstance(results[0], RegistryError)
            assert results[0].code == Code.SCHEMA_TOO_LARGE
            assert isinstance(results[1], Registered)
            assert (await only.write(adding("other", '"long"'))).value.id == 2

    run(broker, job, topic)
